// SPDX-License-Identifier: Apache-2.0
// A job as Slurm and Vetta know it: attempts, their allocations, steps. Plain data; times are UTC,
// spans half-open. A value that is not known is an empty optional (or an empty text), never zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"

namespace vetta::model {

/// Slurm's job states; `unknown` is one that this Vetta does not know (Attempt::state_text keeps
/// it).
enum class JobState {
  pending,
  configuring,
  running,
  suspended,
  stopped,
  completing,
  resizing,
  signaling,
  stage_out,
  completed,
  cancelled,
  failed,
  timeout,
  node_fail,
  preempted,
  boot_fail,
  deadline,
  out_of_memory,
  requeued,
  revoked,
  unknown,
};

[[nodiscard]] std::string_view name(JobState state);  ///< Slurm's own word: PENDING, RUNNING, …
/// Reads "RUNNING", "CANCELLED by 1000", "COMPLETED+" and the two-letter forms (R, PD, CG, …).
[[nodiscard]] JobState parse_job_state(std::string_view text);
/// Over for good or for this attempt (COMPLETED … REVOKED); unknown is not.
[[nodiscard]] bool is_final(JobState state);
/// Holds nodes now (RUNNING, SUSPENDED, COMPLETING, CONFIGURING, …).
[[nodiscard]] bool holds_nodes(JobState state);

/// [start, end); an empty end is still open.
struct Span {
  Time start;
  std::optional<Time> end;
};

struct Array {
  std::uint64_t job_id = 0;  ///< the array's own id
  std::optional<std::uint32_t>
      task_id;        ///< empty for the record that stands for the tasks still pending
  std::string tasks;  ///< those pending tasks: "7-8%1"
};

struct Het {
  std::uint64_t job_id = 0;  ///< the leader's id
  std::uint32_t offset = 0;
};

/// Identity of an attempt: job ids wrap, and a requeue makes a new attempt of one id.
struct AttemptKey {
  std::string cluster;
  std::uint64_t job_id = 0;  ///< Slurm's raw id, also for array tasks and het components
  Time submit;               ///< whole seconds
  auto operator<=>(const AttemptKey&) const = default;
};

/// One try of a job to run.
struct Attempt {
  AttemptKey key;
  std::optional<Array> array;
  std::optional<Het> het;
  std::uint32_t restart = 0;  ///< Slurm's Restarts: 0 for the first attempt
  std::string sluid;          ///< Slurm ≥ 26.05
  JobState state = JobState::unknown;
  std::string state_text;  ///< as Slurm wrote it: "CANCELLED by 1000"
  std::string reason;      ///< why it waits or ended: Resources, TimeLimit, NonZeroExitCode, …
  std::string user, account, partition, qos,
      name;  ///< bytes as Slurm gave them; `partition` may list several
  std::optional<std::uint32_t> uid;
  std::string experiment;  ///< from the job's name or comment by the site's rule; may be empty
  std::optional<Time> eligible, start, end;  ///< what happened, never Slurm's prediction
  std::optional<Time> expected_start;        ///< Slurm's prediction while pending
  std::vector<Span> suspended;
  std::optional<Duration> suspended_total;  ///< where only the sum is known (accounting)
  std::optional<Duration> time_limit;       ///< empty: unlimited or unknown
  std::string nodes;                        ///< hostlist; empty until allocated
  std::optional<std::uint32_t> node_count, cpus, tasks;
  std::optional<std::uint64_t> memory_bytes;  ///< allocated over all nodes
  std::optional<std::uint32_t> gpus;          ///< allocated (running) or asked for (pending)
  std::string tres;                           ///< Slurm's own TRES text
  std::optional<int> exit_code, exit_signal;  ///< of the batch script
  std::optional<int> derived_exit_code, derived_exit_signal;  ///< the highest of its steps
  std::string work_dir, command, std_out, std_err, comment, dependency;
  std::optional<std::int64_t> priority;
  std::optional<std::uint32_t> preempted_by;
};

/// Half-open: what an attempt held on one node from `span.start` to `span.end`.
struct Allocation {
  std::string node;
  Span span;
  std::optional<std::uint32_t> cpus;
  std::optional<std::uint64_t> memory_bytes;
  std::string cpu_ids;               ///< Slurm's index list, "0-3,8"
  std::vector<std::string> devices;  ///< raw GRES indices as Slurm gave them: "gpu:0", "gpu:h100:3"
};

/// A job step of accounting.
struct Step {
  std::string step_id;  ///< "0", "batch", "extern", "interactive"
  std::string name;
  JobState state = JobState::unknown;
  std::optional<Time> start, end;
  std::optional<int> exit_code, exit_signal;
  std::string nodes;
  std::optional<std::uint32_t> tasks;
  std::optional<std::uint64_t> max_rss_bytes;
  std::optional<Duration> cpu_time;  ///< TotalCPU
};

}  // namespace vetta::model
