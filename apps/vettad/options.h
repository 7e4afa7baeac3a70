// SPDX-License-Identifier: Apache-2.0
// vettad's settings: flags before /etc/vetta/vettad.toml before defaults. A flag, a key and a field
// have one name.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "query/query.h"

namespace vetta::daemon {

enum class Mode { run, help, version, check, check_config, dump_config };

struct Options {
  Mode mode = Mode::run;
  bool json = false;
  std::string config;  ///< empty: /etc/vetta/vettad.toml if it is there
  std::string state;
  std::vector<std::string> listen;
  std::string port_file, token_file;
  std::string cluster, slurm_conf, slurm_bin_dir;
  std::string visibility = "open";  ///< or "own"
  Duration keep = std::chrono::hours(24 * 90);
  Duration keep_series = std::chrono::hours(24 * 30);
  Duration sample_period = std::chrono::seconds(10);
  double rpcs_per_minute_max = 5.5;
  std::int64_t threads = 4;
};

/// Errors: invalid, with the flag or the place in the file, and what to try.
[[nodiscard]] Result<Options> read_options(const std::vector<std::string>& words);
[[nodiscard]] std::string help_text();
/// The settings as a file that would give them.
[[nodiscard]] std::string dump_config(const Options& options);

}  // namespace vetta::daemon
