// SPDX-License-Identifier: Apache-2.0
// Where a server listens and where a client connects: unix:PATH, or a loopback TCP address.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"

namespace vetta::http {

struct Endpoint {
  bool is_unix = false;
  std::string path;  ///< of the unix socket
  std::string host;  ///< numeric loopback address: 127.0.0.1 or ::1
  std::uint16_t port = 0;

  /// unix:PATH, 127.0.0.1:PORT or [::1]:PORT.
  [[nodiscard]] std::string text() const;
};

/// Reads unix:PATH, 127.x.y.z:PORT, localhost:PORT, [::1]:PORT. Any other address is refused, with
/// the reason: what other machines reach needs TLS and login.
[[nodiscard]] Result<Endpoint> parse_listen(std::string_view text);

/// Where a client goes: a unix socket, or an http:// or https:// address.
struct ServerAddress {
  std::string socket;  ///< path of the unix socket; empty for TCP
  std::string url;     ///< without a trailing slash; "http://localhost" for a unix socket

  /// As a person would write it.
  [[nodiscard]] std::string text() const;
};

/// Reads unix:PATH, /PATH, http://HOST[:PORT] or https://HOST[:PORT], or HOST:PORT (http).
[[nodiscard]] Result<ServerAddress> parse_server(std::string_view text);

}  // namespace vetta::http
