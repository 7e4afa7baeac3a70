// SPDX-License-Identifier: Apache-2.0
// Where vettad is and how to get in, and where each of these settings came from:
// flag > VETTA_* > ~/.config/vetta/config.toml > /etc/vetta/vetta.toml > default.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace vetta::cli {

/// A setting with its origin: "--server", "VETTA_SERVER", "/home/a/.config/vetta/config.toml:3",
/// "default".
struct Setting {
  std::string name, value, origin;
};

struct Flags {
  std::string server, token_file;  ///< empty: not given
};

/// The environment, as a function so that tests need not change their own.
using Environment = std::function<std::optional<std::string>(std::string_view)>;
[[nodiscard]] Environment process_environment();

struct Settings {
  Setting server, token_file;

  [[nodiscard]] std::vector<Setting> all() const { return {server, token_file}; }
};

/// Errors: a configuration file that cannot be read, with its place.
[[nodiscard]] Result<Settings> settle(const Flags& flags, const Environment& environment);
/// The configuration files that are looked at, the strongest first.
[[nodiscard]] std::vector<std::string> config_paths(const Environment& environment);

}  // namespace vetta::cli
