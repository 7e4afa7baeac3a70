// SPDX-License-Identifier: Apache-2.0
// Partitions, nodes and one consistent reading of both with the queue. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/time.h"
#include "model/job.h"

namespace vetta::model {

struct Partition {
  std::string name;
  bool is_default = false;
  std::string state;  ///< UP, DOWN, DRAIN, INACTIVE
  std::string nodes;  ///< hostlist
  std::optional<std::uint32_t> node_count, cpus, priority_tier;
  std::optional<Duration> time_limit;  ///< empty: unlimited or unknown
  std::string preempt_mode;
  std::optional<std::uint32_t> gpus;
};

/// GRES of one kind on a node: "gpu", "h100", 4 of which 2 are allocated, with the indices Slurm
/// gives.
struct Gres {
  std::string name, type;
  std::uint32_t total = 0;
  std::optional<std::uint32_t> allocated;
  std::vector<std::uint32_t> allocated_indices;
};

struct Node {
  std::string name;
  std::string address, host_name;
  std::vector<std::string>
      states;  ///< Slurm's words, base state first: {"MIXED", "DRAIN"}, {"DOWN", "NOT_RESPONDING"}
  std::string reason, reason_user;
  std::optional<Time> reason_since, boot, last_busy;
  std::vector<std::string> partitions;
  std::optional<std::uint32_t> cpus, cpus_allocated;
  std::optional<std::uint64_t> memory_bytes, memory_allocated_bytes, memory_free_bytes;
  std::optional<double> load;
  std::vector<Gres> gres;
  std::string features, version, architecture, operating_system;
};

/// Whether the node can run work now: none of DOWN, DRAIN(ED/ING), FAIL, NOT_RESPONDING, … and a
/// known base state.
[[nodiscard]] bool is_usable(const Node& node);

/// How one reading of Slurm went: known, gone (Slurm says there is none), or could not ask (with
/// the reason).
enum class Knowledge { known, gone, could_not_ask };

[[nodiscard]] std::string_view name(Knowledge knowledge);

/// The controller's own load as `sdiag` tells it, and what Vetta added to it.
struct ControllerLoad {
  std::optional<double> rpcs_per_minute_all;  ///< of everybody
  double rpcs_per_minute_vetta = 0;  ///< sent by this Vetta, measured over the last minutes
  std::optional<std::uint32_t> server_threads, agent_queue;
  Duration poll_period{};
};

/// One source of knowledge and how it stands, for `vettad --check`, /api/v1/status and the first
/// screen.
struct Source {
  std::string name;  ///< "slurmctld", "slurmdbd", "agent n001"
  Knowledge knowledge = Knowledge::could_not_ask;
  std::string reason;  ///< why not, and what to try; empty if known
  std::optional<Time> last_success;
};

}  // namespace vetta::model
