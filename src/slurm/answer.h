// SPDX-License-Identifier: Apache-2.0
// What an answer of Slurm is. Three only: known, gone (Slurm itself says there is no such thing),
// could not ask (with the reason and what to try). An empty output of a program that failed is
// never "gone".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "model/cluster.h"

namespace vetta::slurm {

/// A record of a text that could not be taken: the others were.
struct Refusal {
  int line = 0;  ///< of the output, from 1; 0: the text as a whole
  std::string reason;
};

template <typename T>
struct Parsed {
  T value{};
  std::vector<Refusal> refused{};
};

template <typename T>
struct Answer {
  model::Knowledge knowledge = model::Knowledge::could_not_ask;
  T value{};                       ///< empty unless known
  Error why{};                     ///< unless known: what stood in the way, and the hint
  std::vector<Refusal> refused{};  ///< records that were left out
  Time asked{};                    ///< just before asking; the value was true then or later
  Duration took{};

  [[nodiscard]] bool is_known() const { return knowledge == model::Knowledge::known; }
};

/// Code::not_found is gone, everything else could_not_ask.
[[nodiscard]] model::Knowledge knowledge_of(const Error& error);

/// What stderr of one of Slurm's programs says, as a sentence with what to try: slurmctld or
/// slurmdbd unreachable, credential refused, no configuration, invalid id (Code::not_found).
/// `program` is argv[0]; `status` is how it ended ("exit code 1").
[[nodiscard]] Error explain_failure(std::string_view program, std::string_view status,
                                    std::string_view error_text);

}  // namespace vetta::slurm
