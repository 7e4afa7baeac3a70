// SPDX-License-Identifier: Apache-2.0
#include "collect/uplink.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <random>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace vetta::collect {
namespace {

using sys::EventLoop;

/// For name look-up, connection and upgrade together.
constexpr Duration dial_max = std::chrono::seconds(15);
constexpr int silence_ms_max = 30'000;  // unacknowledged by the other host's kernel

double random_ratio() {
  static std::minstd_rand engine(std::random_device{}());
  return std::uniform_real_distribution<double>(0, 1)(engine);
}

}  // namespace

struct Uplink::Resolved {
  int error = 0;  ///< of getaddrinfo
  sockaddr_storage address{};
  socklen_t size = 0;
};

Uplink::Uplink(sys::EventLoop& loop, Address address, Hooks hooks)
    : loop_(loop),
      address_(std::move(address)),
      hooks_(std::move(hooks)),
      alive_(std::make_shared<bool>(true)) {}

Uplink::~Uplink() {
  *alive_ = false;
  loop_.cancel(timer_);
  if (fd_) loop_.unwatch(fd_.get());
}

void Uplink::start() {
  dial();
}

void Uplink::dial() {
  ++attempt_;
  state_ = State::resolving;
  timer_ = loop_.after(dial_max, [this] {
    fail_with(
        Error{Code::timeout, fmt::format("no answer within {}", human(dial_max)), {}, {}, {}});
  });
  if (address_.unix_path.empty()) return resolve();
  Resolved resolved;
  auto* address = reinterpret_cast<sockaddr_un*>(&resolved.address);
  address->sun_family = AF_UNIX;
  if (address_.unix_path.size() >= sizeof address->sun_path)
    return fail_with(Error{Code::invalid, "the socket's path is too long", {}, {}, {}});
  std::memcpy(&address->sun_path[0], address_.unix_path.data(), address_.unix_path.size());
  resolved.size = sizeof *address;
  connect_to(resolved);
}

// A name service that hangs must hang nothing here: the thread is left to itself, and its answer is
// dropped if it comes too late.
void Uplink::resolve() {
  std::thread([&loop = loop_, this, alive = alive_, attempt = attempt_, host = address_.host,
               port = address_.port] {
    Resolved resolved;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    resolved.error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
    if (resolved.error == 0) {
      std::memcpy(&resolved.address, found->ai_addr, found->ai_addrlen);
      resolved.size = found->ai_addrlen;
      ::freeaddrinfo(found);
    }
    loop.post([this, alive, attempt, resolved] {
      if (!*alive || attempt != attempt_ || state_ != State::resolving) return;
      if (resolved.error != 0)
        return fail_with(
            Error{Code::unavailable,
                  fmt::format("its name is not known: {}", ::gai_strerror(resolved.error)),
                  {},
                  {},
                  {}});
      connect_to(resolved);
    });
  }).detach();
}

void Uplink::connect_to(const Resolved& resolved) {
  const int family = resolved.address.ss_family;
  fd_.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_) return fail_with(fail_errno("make a socket", errno).error());
  if (family != AF_UNIX) {
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms_max, sizeof silence_ms_max);
  }
  state_ = State::connecting;
  interest_ = EventLoop::readable | EventLoop::writable;
  const int rc =
      ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&resolved.address), resolved.size);
  if (rc != 0 && errno != EINPROGRESS) return fail_with(fail_errno("connect", errno).error());
  const auto watched = loop_.watch(fd_.get(), EventLoop::readable | EventLoop::writable,
                                   [this](std::uint32_t events) { on_events(events); });
  if (!watched) fail_with(watched.error());
}

void Uplink::on_connected() {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail_with(fail_errno("connect", error).error());
  const auto token = hooks_.token();
  if (!token) return fail_with(token.error());
  state_ = State::upgrading;
  out_ = upgrade_request(address_, *token);
  out_begin_ = 0;
  write_some();
}

void Uplink::on_events(std::uint32_t events) {
  if (state_ == State::connecting) return on_connected();
  if ((events & EventLoop::readable) != 0) read_some();
  if (fd_ && (events & EventLoop::writable) != 0) write_some();
}

void Uplink::read_some() {
  std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  // A few rounds only: others want their turn.
  for (int round = 0; round < 4 && fd_; ++round) {
    const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) return fail_with(fail_errno("read", errno).error());
    if (n == 0) return fail_with(Error{Code::unavailable, "it closed the connection", {}, {}, {}});
    take_bytes({buffer.data(), static_cast<std::size_t>(n)});
  }
}

void Uplink::take_bytes(std::string_view bytes) {
  if (state_ == State::upgrading) {
    head_.append(bytes);
    const auto head = parse_upgrade_reply(head_);
    if (!head) return fail_with(head.error());
    if (!head->has_value()) return;
    frames_ = {};
    frames_.append(std::string_view(head_).substr(**head));
    head_.clear();
    loop_.cancel(timer_);
    state_ = State::open;
    hooks_.opened();
  } else {
    frames_.append(bytes);
  }
  while (state_ == State::open) {
    const auto frame = frames_.next();
    if (!frame) return fail_with(frame.error());
    if (!frame->has_value()) return;
    hooks_.received(**frame);
  }
}

void Uplink::send(const model::Frame& frame) {
  send_bytes(model::encode(frame));
}

void Uplink::send_bytes(std::string_view frame) {
  if (state_ != State::open) return;
  out_.erase(0, out_begin_);  // it may never be empty while much waits
  out_begin_ = 0;
  out_ += frame;
  write_some();
}

void Uplink::write_some() {
  while (out_begin_ < out_.size()) {
    const ssize_t n = ::send(fd_.get(), out_.data() + out_begin_, out_.size() - out_begin_,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return fail_with(fail_errno("write", errno).error());
    out_begin_ += static_cast<std::size_t>(n);
  }
  if (out_begin_ == out_.size()) {
    out_.clear();
    if (out_.capacity() > std::size_t{256} << 10U) out_.shrink_to_fit();
    out_begin_ = 0;
  }
  update_watch();
}

void Uplink::update_watch() {
  const std::uint32_t interest =
      EventLoop::readable | (out_begin_ < out_.size() ? EventLoop::writable : 0U);
  const auto watched =
      loop_.watch(fd_.get(), interest, [this](std::uint32_t events) { on_events(events); });
  if (!watched) fail_with(watched.error());
}

void Uplink::fail_with(const Error& why) {
  if (state_ == State::waiting) return;
  const bool was_open = state_ == State::open;
  loop_.cancel(timer_);
  if (fd_) {
    loop_.unwatch(fd_.get());
    fd_.reset();
  }
  out_.clear();
  out_begin_ = 0;
  head_.clear();
  ++attempt_;
  state_ = State::waiting;
  timer_ = loop_.after(backoff_.next(random_ratio()), [this] { dial(); });
  hooks_.closed(why, was_open);
}

}  // namespace vetta::collect
