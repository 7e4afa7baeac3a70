// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server on unix sockets and loopback TCP: keep-alive, server-sent events, upgrades,
// limits with a meter each, clean stop. Handlers run on its threads.
// Thread-safety: listen() before start(); stop(), meters() and the streams from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/result.h"
#include "core/time.h"
#include "http/endpoint.h"
#include "http/router.h"

namespace vetta::http {

struct Limits {
  std::size_t connections_max = 4096;
  /// Of these, kept free for root and the server's own user on unix sockets (half of them at most).
  std::size_t connections_reserve = 64;
  std::size_t user_connections_max = 64;  ///< of one ordinary user on unix sockets
  std::size_t user_streams_max = 16;      ///< event streams of one such user
  std::uint32_t header_bytes_max = 16U << 10U;
  std::uint64_t body_bytes_max = 1U << 20U;
  Duration header_time_max = std::chrono::seconds(10);  ///< from the first byte to the whole header
  Duration body_time_max = std::chrono::seconds(30);
  Duration write_time_max = std::chrono::seconds(30);  ///< for one answer, or one piece of a stream
  Duration idle_max = std::chrono::seconds(60);        ///< between two requests of a connection
  std::size_t streams_max = 1024;  ///< event streams at a time; agents are not counted
};

/// Says who asks, or why not; called for every route that is not open.
using Authenticate = std::function<Result<Identity>(const Request&)>;

struct ServerOptions {
  Limits limits;
  unsigned threads = 2;
  Authenticate authenticate;  ///< without one every request is refused
  /// Whether a unix peer's uid is free of the limits of one user; without it root and the server's
  /// own are. So is whoever turns out to be an operator.
  std::function<bool(std::uint32_t uid)> is_trusted{};
  std::uint32_t socket_mode = 0666;  ///< of unix sockets; who may do what is decided by credentials
};

/// Counts since the start, and what is open now.
struct Meters {
  std::uint64_t connections = 0, connections_refused = 0, requests = 0, responses_2xx = 0,
                responses_4xx = 0, responses_5xx = 0, bad_requests = 0, too_large = 0, timeouts = 0,
                denied = 0, streams_cut = 0;
  std::uint64_t connections_open = 0, streams_open = 0, upgrades_open = 0;
  double handler_seconds = 0;  ///< spent in handlers
};

class Server {
 public:
  Server(ServerOptions options, Router router);
  /// Stops at once if still running.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Binds and gives the address with the port that was chosen. A unix socket that a dead process
  /// left behind is replaced; one that somebody answers on is a conflict.
  [[nodiscard]] Result<Endpoint> listen(const Endpoint& endpoint);
  /// Starts the threads; returns at once.
  void start();
  /// Takes no more connections, lets running requests finish for at most `grace`, ends streams and
  /// upgrades, joins the threads.
  void stop(Duration grace = std::chrono::seconds(1));
  [[nodiscard]] Meters meters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vetta::http
