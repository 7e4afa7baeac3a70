// SPDX-License-Identifier: Apache-2.0
// What jobs hold node by node, from `scontrol show job -d` (with -o or without). scontrol prints
// names, comments and paths unquoted, so a job could forge another's record in its own name. The
// texts that squeue has told (behind separators nobody can foresee) are therefore stepped over
// byte by byte, nodes must be those that squeue tells, and two records of one job are refused.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.h"
#include "slurm/answer.h"

namespace vetta::slurm {

/// Of one job that holds nodes.
struct HeldJob {
  std::uint64_t job_id = 0;
  std::optional<Time> submit, start;
  /// When it was last suspended or resumed, and how long it had run before it was last suspended.
  std::optional<Time> suspend_changed;
  std::optional<Duration> ran_before;
  std::vector<model::Allocation> allocations;  ///< spans are [start, open)
};

/// `jobs`: what squeue has told; records of other jobs are passed over. nullptr: a recorded text
/// without its squeue; names are then taken to end at the first " UserId=",
/// and of two records of one job the first counts.
[[nodiscard]] Parsed<std::vector<HeldJob>> parse_allocations(
    std::string_view text, const std::vector<model::Attempt>* jobs);

/// Brings the suspended spans of an attempt up to what Slurm tells now; `spans` are those known
/// before. Exact for a job suspended once, and for later ones if each was seen; what was missed
/// between two readings is one span of the right length.
void update_suspended(std::vector<model::Span>& spans, model::JobState state, const HeldJob& held);

}  // namespace vetta::slurm
