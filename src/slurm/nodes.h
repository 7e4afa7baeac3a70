// SPDX-License-Identifier: Apache-2.0
// Nodes as `scontrol show node -d -o` prints them, and node states in every spelling. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "slurm/answer.h"

namespace vetta::slurm {

/// "MIXED+DRAIN", "DOWN*+DRAIN", sinfo's "mixed-", "drained*", "alloc": upper-case words, the base
/// state first, then flags. Suffixes become words: * NOT_RESPONDING, ~ POWERED_DOWN, # POWERING_UP,
/// ! POWER_DOWN, % POWERING_DOWN, $ MAINTENANCE, @ REBOOT, ^ REBOOT_ISSUED, - PLANNED.
[[nodiscard]] std::vector<std::string> parse_node_states(std::string_view text);

/// A record without a name or a state is refused.
[[nodiscard]] Parsed<std::vector<model::Node>> parse_nodes(std::string_view text);

}  // namespace vetta::slurm
