// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "core/log.h"
#include "http/server_detail.h"

namespace vetta::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using detail::Shared;
using Tcp = asio::ip::tcp;
using Local = asio::local::stream_protocol;

Peer peer_of(const Tcp::socket& socket) {
  Peer peer;
  error_code error;
  const auto remote = socket.remote_endpoint(error);
  peer.address = error ? "?" : remote.address().to_string() + ":" + std::to_string(remote.port());
  return peer;
}

Peer peer_of(Local::socket& socket) {
  Peer peer;
  peer.is_unix = true;
  peer.address = "unix";
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
    peer.uid = credentials.uid;
    peer.gid = credentials.gid;
    peer.pid = credentials.pid;
  }
  return peer;
}

/// True if somebody answers on that socket now.
bool is_answered(const std::string& path) {
  asio::io_context context;
  Local::socket socket(context);
  error_code error;
  socket.connect(Local::endpoint(path), error);
  return !error;
}

template <typename Protocol>
asio::awaitable<void> accept_loop(std::shared_ptr<typename Protocol::acceptor> acceptor,
                                  std::shared_ptr<Shared> shared, asio::io_context& context) {
  asio::steady_timer pause(acceptor->get_executor());
  while (acceptor->is_open()) {
    error_code error;
    typename Protocol::socket socket = co_await acceptor->async_accept(
        asio::make_strand(context), asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted || shared->is_stopping) co_return;
    if (error) {  // out of descriptors, most likely: wait instead of spinning
      ++shared->counters.connections_refused;
      pause.expires_after(std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    ++shared->counters.connections;
    Peer peer = peer_of(socket);
    if (const auto admitted = detail::admit(*shared, peer); !admitted) {
      ++shared->counters.connections_refused;
      if (peer.is_unix) detail::refuse(detail::Socket(std::move(socket)), admitted.error(), shared);
      continue;  // the socket closes here
    }
    detail::serve(detail::Socket(std::move(socket)), std::move(peer), shared);
  }
}

}  // namespace

struct Server::Impl {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  asio::io_context context;
  std::vector<std::shared_ptr<Tcp::acceptor>> tcp;
  std::vector<std::shared_ptr<Local::acceptor>> local;
  std::vector<std::string> socket_paths;
  std::vector<std::thread> threads;

  void wait_for_sessions(Duration at_most) const {
    std::unique_lock lock(shared->mutex);
    shared->ended.wait_for(lock, at_most, [&] { return shared->counters.connections_open == 0; });
  }
};

Server::Server(ServerOptions options, Router router) : impl_(std::make_unique<Impl>()) {
  impl_->shared->options = std::move(options);
  impl_->shared->router = std::move(router);
}

Server::~Server() {
  stop(Duration::zero());
}

namespace {

std::unexpected<Error> could_not_listen(const Endpoint& endpoint, const error_code& error) {
  return fail_errno("listen on " + endpoint.text(), error.value());
}

Result<std::shared_ptr<Local::acceptor>> bind_local(asio::io_context& context,
                                                    const Endpoint& endpoint, std::uint32_t mode) {
  struct stat status{};
  if (lstat(endpoint.path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode))
      return fail(Code::conflict, endpoint.path + " is there and is no socket",
                  "remove it, or choose another path");
    if (is_answered(endpoint.path))
      return fail(Code::conflict, "another server answers on " + endpoint.path,
                  "stop that one, or listen elsewhere with --listen unix:PATH");
    if (unlink(endpoint.path.c_str()) != 0)
      return fail_errno("remove the old socket " + endpoint.path, errno);
  }
  error_code error;
  auto acceptor = std::make_shared<Local::acceptor>(asio::make_strand(context));
  acceptor->open(Local(), error);
  if (!error) acceptor->bind(Local::endpoint(endpoint.path), error);
  if (error) return could_not_listen(endpoint, error);
  if (chmod(endpoint.path.c_str(), mode) != 0)
    return fail_errno("set the mode of " + endpoint.path, errno);
  acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) return could_not_listen(endpoint, error);
  return acceptor;
}

Result<std::shared_ptr<Tcp::acceptor>> bind_tcp(asio::io_context& context,
                                                const Endpoint& endpoint) {
  error_code error;
  const auto address = asio::ip::make_address(endpoint.host, error);
  auto acceptor = std::make_shared<Tcp::acceptor>(asio::make_strand(context));
  const Tcp::endpoint where(address, endpoint.port);
  if (!error) acceptor->open(where.protocol(), error);
  if (!error) acceptor->set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(where, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) return could_not_listen(endpoint, error);
  return acceptor;
}

}  // namespace

Result<Endpoint> Server::listen(const Endpoint& endpoint) {
  Endpoint bound = endpoint;
  if (endpoint.is_unix) {
    auto acceptor =
        VETTA_TRY(bind_local(impl_->context, endpoint, impl_->shared->options.socket_mode));
    impl_->local.push_back(std::move(acceptor));
    impl_->socket_paths.push_back(endpoint.path);
    return bound;
  }
  auto acceptor = VETTA_TRY(bind_tcp(impl_->context, endpoint));
  error_code error;
  bound.port = acceptor->local_endpoint(error).port();
  impl_->tcp.push_back(std::move(acceptor));
  return bound;
}

void Server::start() {
  for (const auto& acceptor : impl_->tcp)
    asio::co_spawn(acceptor->get_executor(),
                   accept_loop<Tcp>(acceptor, impl_->shared, impl_->context), asio::detached);
  for (const auto& acceptor : impl_->local)
    asio::co_spawn(acceptor->get_executor(),
                   accept_loop<Local>(acceptor, impl_->shared, impl_->context), asio::detached);
  for (unsigned i = 0; i < std::max(1U, impl_->shared->options.threads); ++i)
    impl_->threads.emplace_back([impl = impl_.get()] {
      try {
        impl->context.run();
      } catch (const std::exception& error) {
        assertion_failed("io thread", error.what(), __FILE__, __LINE__);
      }
    });
}

void Server::stop(Duration grace) {
  if (impl_->shared->is_stopping.exchange(true)) return;
  for (const auto& acceptor : impl_->tcp)
    asio::post(acceptor->get_executor(), [acceptor] { acceptor->close(); });
  for (const auto& acceptor : impl_->local)
    asio::post(acceptor->get_executor(), [acceptor] { acceptor->close(); });
  for (const std::string& path : impl_->socket_paths) unlink(path.c_str());
  detail::end_sessions(*impl_->shared);
  impl_->wait_for_sessions(grace);
  detail::cut_sessions(*impl_->shared);
  impl_->wait_for_sessions(std::chrono::milliseconds(200));
  impl_->context.stop();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
}

Meters Server::meters() const {
  const detail::Counters& c = impl_->shared->counters;
  return {.connections = c.connections,
          .connections_refused = c.connections_refused,
          .requests = c.requests,
          .responses_2xx = c.responses_2xx,
          .responses_4xx = c.responses_4xx,
          .responses_5xx = c.responses_5xx,
          .bad_requests = c.bad_requests,
          .too_large = c.too_large,
          .timeouts = c.timeouts,
          .denied = c.denied,
          .streams_cut = c.streams_cut,
          .connections_open = c.connections_open,
          .streams_open = c.streams_open,
          .upgrades_open = c.upgrades_open,
          .handler_seconds = static_cast<double>(c.handler_ns) / 1e9};
}

}  // namespace vetta::http
