// SPDX-License-Identifier: Apache-2.0
// The kinds of questions that Vetta asks Slurm, and what each costs the controller.
#pragma once

namespace vetta::slurm {

enum class Question { partitions, nodes, jobs, allocations, sdiag, accounting, cluster };

/// RPCs that slurmctld counts for one question of this kind.
[[nodiscard]] int rpcs_of(Question question);

}  // namespace vetta::slurm
