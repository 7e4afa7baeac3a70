// SPDX-License-Identifier: Apache-2.0
// Partitions as `scontrol show partition -o` prints them. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "slurm/answer.h"

namespace vetta::slurm {

/// A record without a name is refused.
[[nodiscard]] Parsed<std::vector<model::Partition>> parse_partitions(std::string_view text);

}  // namespace vetta::slurm
