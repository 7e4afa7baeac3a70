// SPDX-License-Identifier: Apache-2.0
// The decisions of the way to vettad: address, HTTP upgrade, waiting time before the next try.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/time.h"

namespace vetta::collect {

/// "unix:/run/vettad/vettad.sock", "host:port", "[::1]:port".
struct Address {
  std::string unix_path;  ///< empty: TCP
  std::string host, port;

  [[nodiscard]] std::string text() const;
};

[[nodiscard]] Result<Address> parse_address(std::string_view text);

/// The request line and headers that ask for the agents' protocol.
[[nodiscard]] std::string upgrade_request(const Address& address, std::string_view token);
inline constexpr std::size_t upgrade_reply_max = 16384;
/// Bytes of the reply's head once it is complete and says 101; nothing while it is not complete.
[[nodiscard]] Result<std::optional<std::size_t>> parse_upgrade_reply(std::string_view bytes);

/// 1 s, doubling to 30 s, each time up to a quarter more or less.
class Backoff {
 public:
  /// `random` in [0, 1).
  [[nodiscard]] Duration next(double random);

  void reset() { step_ = 0; }

 private:
  int step_ = 0;
};

}  // namespace vetta::collect
