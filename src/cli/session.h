// SPDX-License-Identifier: Apache-2.0
// What every command has: the common options, a way to ask vettad, and one way to end with an
// error.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/settings.h"
#include "cli/terminal.h"
#include "core/result.h"
#include "http/client.h"
#include "model/json.h"

namespace vetta::cli {

using model::Json;

/// Options that several commands share.
struct Common {
  Flags flags;
  bool json = false;
  bool no_header = false;
  std::string columns;  ///< -o a,b
  std::string timeout;  ///< "30s"
};

/// Turns true on SIGINT or SIGTERM, once listen_for_interrupts() was called.
[[nodiscard]] const std::atomic<bool>& interrupted();
void listen_for_interrupts();

class Session {
 public:
  explicit Session(Common common) : common_(std::move(common)), terminal_(Terminal::detect()) {}

  [[nodiscard]] const Common& common() const { return common_; }

  [[nodiscard]] const Terminal& terminal() const { return terminal_; }

  [[nodiscard]] std::vector<std::string> columns() const;

  /// The server's answer; its refusals come back as the Error that they were there.
  [[nodiscard]] Result<Json> get(std::string_view target);
  [[nodiscard]] Result<Json> post(std::string_view target);
  /// Where this session asks, for error texts.
  [[nodiscard]] std::string server_text() const;

 private:
  [[nodiscard]] Result<http::Client*> client();
  [[nodiscard]] Result<Json> ask(http::Method method, std::string_view target);

  Common common_;
  Terminal terminal_;
  std::unique_ptr<http::Client> client_;
  std::string server_;
};

/// Says the error on stderr (as JSON under --json) and gives the exit code that fits.
int end_with(const Error& error, bool as_json);
/// The Error that a reply with an error status stands for.
[[nodiscard]] Error error_of(const http::Reply& reply);
/// stdout; a closed pipe ends the output quietly.
void print(std::string_view text);
void print_json(const Json& json);

/// Query strings: add("user", "a") gives "?user=a".
class Target {
 public:
  explicit Target(std::string path) : text_(std::move(path)) {}

  Target& add(std::string_view key, std::string_view value);
  /// Nothing if the value is empty.
  Target& add_if(std::string_view key, std::string_view value);

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool has_query_ = false;
};

}  // namespace vetta::cli
