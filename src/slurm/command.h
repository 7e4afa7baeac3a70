// SPDX-License-Identifier: Apache-2.0
// How Slurm's programs are asked, and what an answer is. A Runner starts one program without a
// shell; the app binds the real one (run_command), tests pass their own. Three answers only: known,
// gone (Slurm itself says there is no such thing), could not ask (with the reason and what to try).
// An empty output of a program that failed is never "gone".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "model/cluster.h"

namespace vetta::slurm {

struct Command {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;  ///< added to the caller's environment
  Duration timeout = std::chrono::seconds(60);
  std::size_t output_bytes_max = 256U << 20U;
};

struct CommandOutput {
  int exit_code = 0;  ///< 128 + signal if a signal ended it
  std::string out;
  std::string err;  ///< at most 64 KiB
  Duration elapsed{};
  bool timed_out = false;  ///< the program and its group were killed
  bool cut = false;        ///< it wrote more than output_bytes_max; `out` holds the beginning
};

/// An Error means that the program could not be started; everything else is in the output.
using Runner = std::function<Result<CommandOutput>(const Command&)>;

/// A record of a text that could not be taken: the others were.
struct Refusal {
  int line = 0;  ///< of the output, from 1
  std::string reason;
};

template <typename T>
struct Parsed {
  T value;
  std::vector<Refusal> refused;
};

template <typename T>
struct Answer {
  model::Knowledge knowledge = model::Knowledge::could_not_ask;
  T value{};                       ///< empty unless known
  Error why;                       ///< unless known: what stood in the way, and the hint
  std::vector<Refusal> refused{};  ///< records that were left out
  Duration elapsed{};

  [[nodiscard]] bool is_known() const { return knowledge == model::Knowledge::known; }
};

/// The reason that Slurm's program gave, as a sentence with what to try: slurmctld or slurmdbd
/// down, credential refused, program missing, invalid id (Code::not_found: gone), timed out, cut.
[[nodiscard]] Error explain_failure(const Command& command, const CommandOutput& output);
/// Code::not_found of explain_failure is gone, everything else could_not_ask.
[[nodiscard]] model::Knowledge knowledge_of(const Error& error);

}  // namespace vetta::slurm
