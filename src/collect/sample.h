// SPDX-License-Identifier: Apache-2.0
// Figures of a rank's processes and of the node, read from /proc. What cannot be read is an empty
// value and a reason in `gap`. Thread-safety: const, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "model/rank.h"
#include "sys/proc.h"

namespace vetta::collect {

/// Sums over `pids`. CPU time, faults and bytes include children that have ended and were waited
/// for; context switches are those of the processes' main threads.
[[nodiscard]] model::RankSample sample_rank(const sys::Procfs& proc,
                                            const std::vector<std::int32_t>& pids, Time now);
[[nodiscard]] model::NodeSample sample_node(const sys::Procfs& proc, bool is_shared_host, Time now);

}  // namespace vetta::collect
