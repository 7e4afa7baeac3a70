// SPDX-License-Identifier: Apache-2.0
#include "http/endpoint.h"

#include <arpa/inet.h>

#include "core/text.h"

namespace vetta::http {
namespace {

constexpr std::size_t socket_path_max = 107;  // sizeof(sockaddr_un::sun_path) - 1

Result<std::string> checked_path(std::string_view path) {
  if (path.empty() || path.front() != '/')
    return fail(Code::invalid, "a unix socket needs an absolute path",
                "write it as unix:/run/vettad/vettad.sock");
  if (path.size() > socket_path_max)
    return fail(Code::invalid,
                "the socket path '" + one_line(path, 60) + "' is longer than 107 bytes",
                "choose a shorter folder; Linux allows no longer socket names");
  return std::string(path);
}

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == 127;
  return host == "::1";
}

std::unexpected<Error> not_loopback(std::string_view text) {
  return fail(Code::denied,
              "will not listen on '" + one_line(text, 80) +
                  "': an address that other machines reach needs TLS and a login for several "
                  "users, which come with a later version",
              "use unix:PATH or 127.0.0.1:PORT, and an SSH tunnel from other machines");
}

}  // namespace

std::string Endpoint::text() const {
  if (is_unix) return "unix:" + path;
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string ServerAddress::text() const {
  return socket.empty() ? url : "unix:" + socket;
}

Result<Endpoint> parse_listen(std::string_view text) {
  Endpoint endpoint;
  if (text.starts_with("unix:") || text.starts_with("/")) {
    endpoint.is_unix = true;
    if (text.starts_with("unix:")) text.remove_prefix(5);
    endpoint.path = VETTA_TRY(checked_path(text));
    return endpoint;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return fail(Code::invalid, "'" + one_line(text, 80) + "' is no address to listen on",
                "write unix:PATH or 127.0.0.1:PORT (port 0 takes a free one)");
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  const auto port = parse_uint(text.substr(colon + 1));
  if (!port || *port > 65535)
    return fail(Code::invalid, "'" + one_line(text, 80) + "' has no port between 0 and 65535",
                "write 127.0.0.1:PORT (port 0 takes a free one)");
  endpoint.host = host;
  if (!is_loopback(endpoint.host)) return not_loopback(text);
  endpoint.port = static_cast<std::uint16_t>(*port);
  return endpoint;
}

Result<ServerAddress> parse_server(std::string_view text) {
  ServerAddress address;
  if (text.starts_with("unix:") || text.starts_with("/")) {
    if (text.starts_with("unix:")) text.remove_prefix(5);
    address.socket = VETTA_TRY(checked_path(text));
    address.url = "http://localhost";
    return address;
  }
  while (text.ends_with('/')) text.remove_suffix(1);
  const bool has_scheme = text.starts_with("http://") || text.starts_with("https://");
  if (text.empty() || text.find_first_of(" \t\r\n") != std::string_view::npos ||
      (!has_scheme && text.rfind(':') == std::string_view::npos))
    return fail(Code::invalid, "'" + one_line(text, 80) + "' is no address of a vettad",
                "write unix:PATH or http://127.0.0.1:PORT");
  address.url = (has_scheme ? "" : "http://") + std::string(text);
  return address;
}

}  // namespace vetta::http
