// SPDX-License-Identifier: Apache-2.0
#include "collect/upgrade.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/text.h"
#include "model/wire.h"

namespace vetta::collect {

std::string Address::text() const {
  return unix_path.empty() ? fmt::format("{}:{}", host, port) : "unix:" + unix_path;
}

Result<Address> parse_address(std::string_view text) {
  Address out;
  if (text.starts_with("unix:")) {
    out.unix_path = text.substr(5);
    if (out.unix_path.starts_with('/')) return out;
    return fail(Code::invalid, fmt::format("'{}' does not name a socket by its whole path", text),
                "write unix:/run/vettad/vettad.sock");
  }
  const std::size_t colon = text.rfind(':');
  if (colon != std::string_view::npos) {
    out.host = text.substr(0, colon);
    out.port = text.substr(colon + 1);
    if (out.host.starts_with('[') && out.host.ends_with(']'))
      out.host = out.host.substr(1, out.host.size() - 2);
    const auto port = parse_uint(out.port);
    if (!out.host.empty() && port && *port >= 1 && *port <= 65535) return out;
  }
  return fail(Code::invalid, fmt::format("'{}' is no address of a vettad", one_line(text)),
              "write HOST:PORT or unix:/path/of/socket");
}

std::string upgrade_request(const Address& address, std::string_view token) {
  std::string out = fmt::format(
      "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: {}\r\n", model::agent_path,
      address.unix_path.empty() ? address.text() : "localhost", model::agent_upgrade);
  if (!token.empty()) out += fmt::format("Authorization: Bearer {}\r\n", token);
  return out + "\r\n";
}

Result<std::optional<std::size_t>> parse_upgrade_reply(std::string_view bytes) {
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (bytes.size() > upgrade_reply_max)
      return fail(Code::invalid, "its answer to the upgrade is too long to be vettad's");
    return std::optional<std::size_t>();
  }
  const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
  if (!line.starts_with("HTTP/1.1 "))
    return fail(Code::invalid, fmt::format("its answer is not HTTP: {}", one_line(line, 80)));
  const std::string_view status = line.substr(9, 3);
  if (status == "101") return std::optional<std::size_t>(end + 4);
  if (status == "401" || status == "403")
    return fail(Code::denied, "it refuses our token",
                "give the agent the token file that vettad was started with (--token-file)");
  if (status == "404")
    return fail(Code::invalid, "it does not know the agents' protocol",
                "is this address a vettad's, and of the same release?");
  return fail(Code::unavailable, fmt::format("it answers: {}", one_line(line.substr(9), 120)));
}

Duration Backoff::next(double random) {
  constexpr int steps_max = 5;
  const double wait = std::min(30.0, static_cast<double>(1U << static_cast<unsigned>(step_)));
  step_ = std::min(step_ + 1, steps_max);
  return from_seconds(wait * (0.75 + random / 2));
}

}  // namespace vetta::collect
