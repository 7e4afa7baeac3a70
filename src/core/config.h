// SPDX-License-Identifier: Apache-2.0
// A TOML configuration file whose every value knows its place, so that an error names file, line
// and column. Keys are written with dots: "poll.period". Each read marks its key as known;
// refuse_unknown() then reports all keys that nobody read, so that a misspelt key is an error and
// not a silent default. Thread-safety: not for use from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"

namespace vetta {

class Config {
 public:
  /// An empty configuration: every key is absent.
  Config();
  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;
  ~Config();

  /// `path` names the text in errors. Errors: invalid with the place of the fault.
  [[nodiscard]] static Result<Config> parse(std::string_view text, std::string path);
  /// Errors: not_found, denied, invalid; at most 1 MiB.
  [[nodiscard]] static Result<Config> read(const std::string& path);

  [[nodiscard]] Result<std::optional<std::string>> text(std::string_view key);
  [[nodiscard]] Result<std::optional<std::int64_t>> integer(std::string_view key, std::int64_t min,
                                                            std::int64_t max);
  [[nodiscard]] Result<std::optional<bool>> boolean(std::string_view key);
  /// A text such as "10s" or "5m".
  [[nodiscard]] Result<std::optional<Duration>> span(std::string_view key);
  /// A text such as "64M" or a number of bytes.
  [[nodiscard]] Result<std::optional<std::uint64_t>> bytes(std::string_view key);
  /// A list of texts; a single text counts as a list of one.
  [[nodiscard]] Result<std::vector<std::string>> texts(std::string_view key);

  /// Errors: invalid, naming every key that no read asked for, each with its line.
  [[nodiscard]] Result<void> refuse_unknown() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// `text` as a file has it: in quotes, escaped.
[[nodiscard]] std::string toml_text(std::string_view text);

}  // namespace vetta
