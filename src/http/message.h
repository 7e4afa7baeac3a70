// SPDX-License-Identifier: Apache-2.0
// What a client asks and what it gets, as plain data; knows no route and no library.
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/result.h"
#include "core/time.h"

namespace vetta::http {

enum class Method : std::uint8_t { get, head, post, put, patch, del, options };

[[nodiscard]] std::string_view name(Method method);  ///< GET, POST, …
[[nodiscard]] std::optional<Method> parse_method(std::string_view text);

/// Who is at the other end. A unix socket tells uid, gid and pid (SO_PEERCRED); TCP tells an
/// address.
struct Peer {
  bool is_unix = false;
  std::optional<std::uint32_t> uid, gid;
  std::optional<std::int32_t> pid;
  std::string address;  ///< "127.0.0.1:43210", or "unix"
};

/// Who asks, as the authenticator that was passed in says.
struct Identity {
  std::optional<std::uint32_t> uid;
  bool is_operator = false;  ///< may see and do everything that the API offers
  std::string how;           ///< "unix", "token"; empty for routes that are open to everybody
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Request {
  Method method = Method::get;
  std::string path;  ///< as sent, without the query
  Pairs query;       ///< decoded, in order
  Pairs headers;     ///< names in lower case
  Pairs parameters;  ///< of the route's pattern, decoded
  std::string body;
  Peer peer;
  Identity identity;

  /// The first value of that name; nullopt if there is none.
  [[nodiscard]] std::optional<std::string_view> query_value(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> header(std::string_view lower_case_name) const;
  /// A parameter that the route's pattern has; asserts otherwise.
  [[nodiscard]] std::string_view parameter(std::string_view key) const;
  /// The token of "Authorization: Bearer …".
  [[nodiscard]] std::optional<std::string_view> bearer() const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Pairs headers{};
};

class EventStream;
class RawStream;

/// Answers with server-sent events from `stream` until one side closes it.
struct Streaming {
  std::shared_ptr<EventStream> stream;
};

/// Answers 101 and hands the bytes that follow to the protocol's own code. All callbacks of one
/// connection run one after another; the next bytes are read when on_bytes has returned, which is
/// the back-pressure. on_bytes returns false to end the connection.
struct Upgrade {
  std::string protocol;
  Duration idle_max = std::chrono::seconds(120);  ///< silence after which it is closed
  std::function<void(const std::shared_ptr<RawStream>&)> on_open;
  std::function<bool(std::string_view bytes)> on_bytes;
  std::function<void(std::string_view reason)> on_close;
};

using Answer = std::variant<Response, Streaming, Upgrade>;

/// {"error": {"code", "message", "hint"}} with the status of core/error_table.h.
[[nodiscard]] Response error_response(const Error& error);
[[nodiscard]] Response error_response(const Error& error, int status);

/// %XX and, in queries, +. A broken escape is an error.
[[nodiscard]] Result<std::string> percent_decode(std::string_view text, bool plus_is_space);
/// Everything but unreserved characters becomes %XX.
[[nodiscard]] std::string percent_encode(std::string_view text);
/// "a=1&b=2"; at most 64 pairs.
[[nodiscard]] Result<Pairs> parse_query(std::string_view text);

}  // namespace vetta::http
