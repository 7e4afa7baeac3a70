// SPDX-License-Identifier: Apache-2.0
// Who may have one more connection, and what the others are told.
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <unistd.h>

#include "http/server_detail.h"

namespace vetta::http::detail {
namespace {

namespace asio = boost::asio;
using Wire = boost::beast::basic_stream<asio::generic::stream_protocol>;

constexpr std::size_t refusals_max = 64;  ///< clients at a time that are told why

asio::awaitable<void> tell_and_close(Wire wire, std::string text, std::shared_ptr<Shared> shared) {
  boost::system::error_code error;
  std::array<char, 4096> request{};
  wire.expires_after(std::chrono::seconds(1));
  // A client that is still sending would not read the answer.
  co_await wire.async_read_some(asio::buffer(request),
                                asio::redirect_error(asio::use_awaitable, error));
  if (!error)
    co_await wire.async_write_some(asio::buffer(text),
                                   asio::redirect_error(asio::use_awaitable, error));
  wire.close();
  const std::scoped_lock lock(shared->mutex);
  --shared->refusals_open;
}

}  // namespace

bool is_ordinary(const Shared& shared, const Peer& peer) {
  if (!peer.is_unix || !peer.uid) return peer.is_unix;
  if (shared.options.is_trusted) return !shared.options.is_trusted(*peer.uid);
  return *peer.uid != 0 && *peer.uid != geteuid();
}

Result<void> admit(Shared& shared, const Peer& peer) {
  const Limits& limits = shared.options.limits;
  const std::scoped_lock lock(shared.mutex);
  const bool is_reserved = peer.is_unix && !is_ordinary(shared, peer);
  const std::size_t reserve =
      is_reserved ? 0 : std::min(limits.connections_reserve, limits.connections_max / 2);
  if (shared.counters.connections_open >= limits.connections_max - reserve)
    return fail(Code::unavailable, "vettad has as many connections as it takes",
                "try again in a moment");
  if (is_ordinary(shared, peer)) {
    Use& use = shared.users[peer.uid.value_or(nobody)];
    if (use.connections >= limits.user_connections_max)
      return fail(Code::unavailable,
                  "user " + std::to_string(peer.uid.value_or(nobody)) + " has " +
                      std::to_string(use.connections) + " connections to vettad open already",
                  "close some pages or watches");
    ++use.connections;
  }
  ++shared.counters.connections_open;
  return {};
}

void refuse(Socket socket, const Error& why, const std::shared_ptr<Shared>& shared) {
  {
    const std::scoped_lock lock(shared->mutex);
    if (shared->refusals_open >= refusals_max) return;
    ++shared->refusals_open;
  }
  const Response response = error_response(why, 503);
  std::string text = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: " + response.content_type +
                     "\r\nContent-Length: " + std::to_string(response.body.size()) +
                     "\r\nConnection: close\r\n\r\n" + response.body;
  Wire wire(std::move(socket));
  const auto executor = wire.get_executor();
  asio::co_spawn(executor, tell_and_close(std::move(wire), std::move(text), shared),
                 asio::detached);
}

}  // namespace vetta::http::detail
