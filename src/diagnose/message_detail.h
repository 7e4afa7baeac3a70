// SPDX-License-Identifier: Apache-2.0
// Private to diagnose: what the last words of a process, an exit code, a signal or a Slurm reason
// mean.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/judgement.h"

namespace vetta::diagnose {

/// What a recognised message says.
struct Meaning {
  model::Answer answer = model::Answer::code;
  bool is_consequence =
      false;  ///< of another rank's end or of a signal: never the first cause if another is known
  std::string_view what;  ///< "the GPU's memory is full"
  std::string_view advice;
};

/// The table of recognised messages, first match wins, case does not matter; a Python exception
/// that is not in it is the code's own.
[[nodiscard]] const Meaning& meaning_of(std::string_view message);

/// The first path in quotes, as Python's OSError ends; empty if there is none.
[[nodiscard]] std::string_view path_in(std::string_view message);

/// The last `File "x", line n` of a traceback as "x:n"; empty if there is none.
[[nodiscard]] std::string place_in(std::string_view traceback);

/// "SIGKILL"; "signal 40" for those without a name.
[[nodiscard]] std::string signal_text(int number);

/// The signal that a shell or Python means by an exit code over 128.
[[nodiscard]] std::optional<int> signal_of_exit(int exit_code);

/// Why Slurm lets a job wait, in plain words, and what to do.
struct PendingReason {
  std::string_view what;
  std::string_view advice;
  bool never = false;  ///< it will not start as it is
};

[[nodiscard]] PendingReason pending_reason(std::string_view reason);

}  // namespace vetta::diagnose
