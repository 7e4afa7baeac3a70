// SPDX-License-Identifier: Apache-2.0
// Which process belongs to which rank, by the process tree and the environment: an incremental look
// at /proc that reads only what is new. Also finds tasks that nobody registered. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "collect/ranks.h"
#include "core/result.h"
#include "sys/proc.h"

namespace vetta::collect {

class Discovery {
 public:
  /// `is_shared_host`: other nodes live on this kernel; only processes that name this node count.
  Discovery(const sys::Procfs& proc, RankTable& ranks, std::string node, bool is_shared_host);

  /// One pass: new processes find their owner, new ranks enter the table.
  [[nodiscard]] Result<void> scan();

  /// The rank of which this process is part, looked up to the root; reads /proc for a new process.
  [[nodiscard]] RankState* owner_of(std::int32_t pid);
  /// The same by environment, for a process that no registered task is above of: makes the task's
  /// rank if the process says it is in a Slurm task of this node.
  [[nodiscard]] RankState* adopt(std::int32_t pid, model::RankSource source);

  /// Processes of each rank (nearest owner), as of the last scan.
  [[nodiscard]] std::unordered_map<std::uint64_t, std::vector<std::int32_t>> members() const;

  [[nodiscard]] Result<ProcessFacts> facts(std::int32_t pid) const;

  /// A new rank was found below this one: part of its processes belong to that now.
  void reassign(std::uint64_t rank_id);

  /// What tells this agent's tasks from those of another cluster on the same kernel: the cluster's
  /// name and the path of this agent's probe.sock. A task that names neither counts as ours.
  void set_site(std::string cluster, std::string socket);

  /// Processes whose environment names a job that is not the one that Slurm started them for, so
  /// far.
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

  void set_shared_host(bool is_shared_host) { is_shared_host_ = is_shared_host; }

 private:
  struct Process {
    std::int32_t parent = 0;
    std::uint64_t start_ticks = 0;
    std::uint64_t owner = 0;  ///< rank id; 0: none
    int looks = 0;            ///< at its environment: a program may start late (exec)
    std::uint32_t seen = 0;   ///< the scan in which it was last there
  };

  void read_boot_time();
  Process* know(std::int32_t pid);
  void look(std::int32_t pid, Process& process);
  [[nodiscard]] bool is_ours(const SlurmTask& task) const;
  /// The slurmstepd of root above this process; 0: none.
  [[nodiscard]] std::int32_t stepd_above(std::int32_t pid) const;
  /// Slurm's own word on the job of a process below this slurmstepd; nothing where it gives none.
  [[nodiscard]] std::optional<std::uint64_t> job_by_slurm(std::int32_t pid,
                                                          std::int32_t stepd) const;
  [[nodiscard]] std::int32_t topmost(std::int32_t pid, const SlurmTask& task) const;

  const sys::Procfs& proc_;
  RankTable& ranks_;
  std::string node_, cluster_, socket_;
  bool is_shared_host_;
  std::unordered_map<std::int32_t, Process> processes_;
  std::uint32_t scan_ = 0;
  std::uint64_t refused_ = 0;
  Time boot_;
};

}  // namespace vetta::collect
