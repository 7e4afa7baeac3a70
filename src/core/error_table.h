// SPDX-License-Identifier: Apache-2.0
// The one table from Code to HTTP status and exit code; nothing else in Vetta maps them.
#pragma once

#include "core/result.h"

namespace vetta {

/// Exit codes of every Vetta program (docs/reference/exit-codes.md).
enum Exit : int {
  exit_fine = 0,
  exit_could_not = 1,
  exit_usage = 2,
  exit_found = 3,
  exit_denied = 4,
  exit_unreachable = 5,
  exit_timed_out = 124,
  exit_own_failure = 125,
  exit_not_executable = 126,
  exit_not_found = 127,
  exit_interrupted = 130,
};

[[nodiscard]] int http_status(Code code);
[[nodiscard]] int exit_code(Code code);
/// The code behind an HTTP status that a server of ours answered; 2xx is no error and asserts.
[[nodiscard]] Code code_of_status(int status);
[[nodiscard]] Code code_of_name(std::string_view name);

}  // namespace vetta
