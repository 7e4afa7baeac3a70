// SPDX-License-Identifier: Apache-2.0
// "My code, my data, or your machine?": one attempt's records in, one screen of answer out. Pure:
// no clock, no file. Order of judgement and the table of recognised messages:
// docs/internals/diagnosis.md. Thread-safety: free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/job.h"
#include "model/judgement.h"
#include "model/rank.h"

namespace vetta::diagnose {

/// How far a rank got, and where it is now.
struct LastMark {
  std::int32_t rank = -1;
  std::string node;
  std::optional<std::int64_t> step;   ///< the last that it has ended; empty: none
  Time time;                          ///< when that was; without a step, when it came where it is
  std::optional<model::RankNow> now;  ///< empty: not known
  std::uint64_t sequence = 0;         ///< of that mark
};

/// All that is known of one attempt. Everything but `attempt` and `now` may be missing; missing is
/// never read as "did not happen": what a source could not tell is listed in Why::unknown.
struct WhyInput {
  model::Attempt attempt;
  std::vector<model::Attempt>
      earlier;  ///< earlier attempts of the same job (requeues), oldest first
  std::vector<model::Allocation> allocations;
  std::vector<model::Step> steps;             ///< of accounting
  std::vector<model::Rank> ranks;             ///< with their ends, of all incarnations
  std::vector<model::Event> events;           ///< of the attempt and of its nodes, in any order
  std::optional<model::Diagnosis> diagnosis;  ///< of the newest incarnation, if one was made
  std::vector<LastMark> last_marks;           ///< of the newest incarnation
  std::optional<Duration> median_step;        ///< of the newest incarnation
  Time now;
  std::vector<model::Source> sources;  ///< which sources answered
};

[[nodiscard]] model::Why explain(const WhyInput& input);

}  // namespace vetta::diagnose
