// SPDX-License-Identifier: Apache-2.0
// The one table from Code to HTTP status and exit code; nothing else in Vetta maps them.
#pragma once

#include "core/result.h"

namespace vetta {

/// Exit codes of every Vetta program (docs/reference/exit-codes.md).
enum Exit : int {
  exit_fine = 0,              ///< done
  exit_could_not = 1,         ///< it could not be done; the sentence on stderr says why
  exit_usage = 2,             ///< a wrong option or argument, or a file with mistakes in it
  exit_found = 3,             ///< done, and something was found (verbs that judge)
  exit_denied = 4,            ///< not allowed
  exit_unreachable = 5,       ///< vettad, Slurm or a node could not be reached
  exit_timed_out = 124,       ///< the time that was given ran out
  exit_own_failure = 125,     ///< Vetta itself failed before it could start your program
  exit_not_executable = 126,  ///< your program was found and cannot be executed
  exit_not_found = 127,       ///< your program was not found
  exit_interrupted = 130,     ///< interrupted
};

[[nodiscard]] int http_status(Code code);
[[nodiscard]] int exit_code(Code code);
/// The code behind an HTTP status that a server of ours answered; 2xx is no error and asserts.
[[nodiscard]] Code code_of_status(int status);
[[nodiscard]] Code code_of_name(std::string_view name);

}  // namespace vetta
