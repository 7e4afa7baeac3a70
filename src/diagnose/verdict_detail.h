// SPDX-License-Identifier: Apache-2.0
// Private to diagnose: what was found, before it becomes a Diagnosis with sentences.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/what_if_detail.h"

namespace vetta::diagnose {

/// A rank (or several that are equally slow) that holds the others.
struct Culprit {
  std::vector<std::size_t> set;  ///< indices of ranks, the slowest first
  double share = 0;              ///< lost share of the window
  double significance = 0;
  Window window;  ///< judged: all steps, or those since it began
};

/// The search's answer by one method.
struct Search {
  std::optional<Culprit> culprit;
  double best_share = 0;  ///< of any single rank, named or not
  double best_significance = 0;
  std::size_t best_rank = 0;
};

[[nodiscard]] Search find_culprit(const Grid& grid, const Work& work, const Options& options);

/// Mean times of one phase in the steps in which the culprit held the others, ns.
struct PhaseTimes {
  std::optional<model::Phase> phase;  ///< empty: the time that no phase covers
  double culprit = 0, peers = 0;
};

struct Cause {
  model::CauseClass cause = model::CauseClass::unknown;
  std::optional<model::Phase> phase;
  std::vector<PhaseTimes> phases;  ///< those measured, and the rest
  double own_culprit = 0, own_peers = 0;
  bool whole_process = false;  ///< all phases slower by about the same factor
};

[[nodiscard]] Cause find_cause(const Grid& grid, const Work& work, const Culprit& culprit);

/// Sentences of the verdict.
[[nodiscard]] std::string reason_of(const Grid& grid, const Culprit& culprit, const Cause& cause);
[[nodiscard]] std::vector<std::string> evidence_of(const Grid& grid, const Work& work,
                                                   const Culprit& culprit, const Cause& cause,
                                                   const model::Diagnosis& diagnosis);
/// What was left out of the judgement and why.
void add_left_out(const Grid& grid, std::int32_t world_size, std::vector<std::string>& evidence);
/// "rank 5 on n003"
[[nodiscard]] std::string rank_text(const GridRank& rank);
/// Nanoseconds for people; never throws on absurd values.
[[nodiscard]] std::string time_text(double nanoseconds);
[[nodiscard]] Duration to_duration(double nanoseconds);

}  // namespace vetta::diagnose
