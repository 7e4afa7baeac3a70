// SPDX-License-Identifier: Apache-2.0
// vetta-agent's command line and its TOML file, which say the same by the same names; a flag goes
// before the file.
#pragma once

#include <string>
#include <vector>

#include "collect/settings.h"
#include "core/result.h"

namespace vetta::agent {

struct Options {
  collect::Settings settings;
  bool wants_help = false;
  bool wants_version = false;
  bool check_config = false;
  bool dump_config = false;
  bool is_verbose = false;
};

/// `words` without the program's name. Errors: invalid, naming the flag or the place in the file.
[[nodiscard]] Result<Options> parse_options(const std::vector<std::string>& words);
[[nodiscard]] std::string help();
/// The settings as a file that would give them.
[[nodiscard]] std::string dump_config(const collect::Settings& settings);

}  // namespace vetta::agent
