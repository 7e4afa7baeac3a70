// SPDX-License-Identifier: Apache-2.0
// What the poller hands on: a snapshot of the cluster in one round of questions, and what
// accounting says of attempts in a window. Plain data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/job.h"
#include "slurm/answer.h"

namespace vetta::slurm {

/// What one attempt holds now, node by node. CPU ids and device indices are Slurm's own; spans are
/// [start of the attempt, open).
struct JobAllocations {
  model::AttemptKey key;
  std::vector<model::Allocation> allocations;
};

/// One round. Each part says for itself whether it is known; a part that could not be asked is
/// empty and means nothing (never "idle" or "gone"). A part that this round did not ask again (the
/// budget, or nothing new) is repeated with the time of its asking in `asked`. A job that a known
/// `jobs` does not list has left the controller's memory: accounting has the last word on how it
/// ended.
struct Snapshot {
  std::string cluster;
  Time at{};  ///< when the round began; whatever it shows was so at that time or later
  Answer<std::vector<model::Partition>> partitions;
  Answer<std::vector<model::Node>> nodes;
  /// Pending, running and (for MinJobAge, 300 s) ended jobs. The tasks of an array that still wait
  /// are one record.
  Answer<std::vector<model::Attempt>> jobs;
  /// Of jobs that hold nodes. Asked only when `jobs` shows a holder whose allocation is not known
  /// yet, else repeated from memory.
  Answer<std::vector<JobAllocations>> allocations;
  model::ControllerLoad load;
};

struct AccountedAttempt {
  model::Attempt attempt;
  std::vector<model::Step> steps;
};

/// Accounting of attempts that ended in [from, until), requeued ones too. Windows overlap: the same
/// attempt comes again and must be upserted by key. Names are less exact than squeue's, restart is
/// 0 where the release does not tell it, and suspension is a sum: what a snapshot has told of these
/// stands.
struct Accounting {
  std::string cluster;
  Time from{}, until{};
  Answer<std::vector<AccountedAttempt>> attempts;
};

}  // namespace vetta::slurm
