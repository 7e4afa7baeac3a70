// SPDX-License-Identifier: Apache-2.0
// What a process's environment says about its Slurm task and its rank. The environment is the
// user's word: what follows from it is checked against kernel facts (uid, process tree) elsewhere.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sys/proc.h"

namespace vetta::collect {

struct SlurmTask {
  std::uint64_t job_id = 0;
  std::string step_id;  ///< "0", "batch", "interactive", "extern"
  std::int32_t task = -1, local_task = -1, tasks = -1;
  std::uint32_t restart = 0;
  std::string node;     ///< SLURMD_NODENAME; may be empty
  std::string cluster;  ///< SLURM_CLUSTER_NAME; may be empty
  std::string socket;   ///< VETTA_SOCKET, the agent that the rank plugin named; may be empty
  std::string devices;
  bool is_het = false;  ///< the job has components, whose tasks name the first one's id

  [[nodiscard]] bool is_same_task(const SlurmTask& other) const {
    return job_id == other.job_id && step_id == other.step_id && task == other.task &&
           restart == other.restart;
  }
};

struct FrameworkRank {
  std::int32_t rank = -1, local_rank = -1, world_size = -1;
  std::uint32_t elastic_restart = 0;
  auto operator<=>(const FrameworkRank&) const = default;
};

/// From SLURM_JOB_ID, SLURM_STEP_ID, SLURM_PROCID, …; nothing outside a task.
[[nodiscard]] std::optional<SlurmTask> slurm_task_of(const sys::ProcessEnvironment& env);
/// The job that slurmstepd serves, by the title that it gives itself ("slurmstepd: [4711.0]").
[[nodiscard]] std::optional<std::uint64_t> job_of_title(std::string_view title);
/// The job by the cgroups that Slurm has put a process into ("/slurm/uid_1000/job_4711/step_0").
[[nodiscard]] std::optional<std::uint64_t> job_of_cgroups(
    const std::vector<sys::CgroupPath>& cgroups);
/// From what torchrun, accelerate, DeepSpeed, mpirun and PMI set; needs rank and world size.
[[nodiscard]] std::optional<FrameworkRank> framework_rank_of(const sys::ProcessEnvironment& env);

}  // namespace vetta::collect
