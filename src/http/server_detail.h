// SPDX-License-Identifier: Apache-2.0
// Private to http: what server.cc and session.cc share. One session is one connection; everything
// of a session runs on its own strand.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "http/server.h"
#include "http/stream.h"

namespace vetta::http::detail {

using Socket = boost::asio::generic::stream_protocol::socket;

struct Counters {
  std::atomic<std::uint64_t> connections = 0, connections_refused = 0, requests = 0,
                             responses_2xx = 0, responses_4xx = 0, responses_5xx = 0,
                             bad_requests = 0, too_large = 0, timeouts = 0, denied = 0,
                             streams_cut = 0, connections_open = 0, streams_open = 0,
                             upgrades_open = 0, handler_ns = 0;
};

class Session;

/// What one ordinary user has open.
struct Use {
  std::size_t connections = 0, streams = 0;
};

/// What all sessions of a server see; outlives them.
struct Shared {
  ServerOptions options;
  Router router;
  Counters counters;
  std::atomic<bool> is_stopping = false;
  std::mutex mutex;
  std::condition_variable ended;  ///< a session is gone
  std::unordered_map<Session*, std::weak_ptr<Session>> sessions;
  std::unordered_map<std::uint32_t, Use> users;  ///< ordinary ones with something open
  std::size_t refusals_open = 0;
};

/// Stands for a uid that the kernel did not tell.
inline constexpr std::uint32_t nobody = 0xFFFFFFFF;

/// A user that shares the server with others: not root, not the server's own. Who comes over TCP
/// has a token or gets nothing.
[[nodiscard]] bool is_ordinary(const Shared& shared, const Peer& peer);
/// Counts a new connection in, or says why it is refused.
[[nodiscard]] Result<void> admit(Shared& shared, const Peer& peer);
/// Tells the client why, in a moment, and closes.
void refuse(Socket socket, const Error& why, const std::shared_ptr<Shared>& shared);

/// Serves a connection that was admitted to its end; keeps itself alive.
void serve(Socket socket, Peer peer, const std::shared_ptr<Shared>& shared);
/// Asks every session to end as soon as its running request is answered.
void end_sessions(Shared& shared);
/// Closes every session's socket now.
void cut_sessions(Shared& shared);

}  // namespace vetta::http::detail
