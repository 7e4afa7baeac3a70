// SPDX-License-Identifier: Apache-2.0
// An HTTP client on libcurl: unix socket or URL, one request at a time, server-sent events.
// Thread-safety: one Client belongs to one thread; `cancel` may be set from anywhere, also from a
// signal handler.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/time.h"
#include "http/endpoint.h"
#include "http/message.h"
#include "http/sse.h"

namespace vetta::http {

struct ClientOptions {
  ServerAddress server;
  std::string token;       ///< sent as Bearer; may be empty
  std::string agent_name;  ///< User-Agent
  Duration connect_time_max = std::chrono::seconds(5);
  Duration time_max = std::chrono::seconds(30);  ///< for a whole request; streams have none
  std::size_t reply_bytes_max = 256U << 20U;
  const std::atomic<bool>* cancel = nullptr;  ///< ends a request within a second when it turns true
};

struct Reply {
  int status = 0;
  std::string content_type, body;
};

class Client {
 public:
  explicit Client(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Any status is a reply; an error means that there was none: unavailable (nobody listens),
  /// timeout, exhausted (reply too large), or conflict (cancelled).
  [[nodiscard]] Result<Reply> request(Method method, std::string_view target,
                                      const std::string& body = {});

  /// Reads events until `on_event` returns false (fine), the server ends the stream (unavailable)
  /// or an answer other than 200 comes (then that reply is in `refused`, and the result is fine).
  [[nodiscard]] Result<void> stream(std::string_view target, std::string_view last_event_id,
                                    const std::function<bool(const SseEvent&)>& on_event,
                                    Reply& refused);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vetta::http
