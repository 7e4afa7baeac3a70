// SPDX-License-Identifier: Apache-2.0
// sdiag's text: the controller's load and its counters of RPCs by type and by user. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"

namespace vetta::slurm {

struct RpcCount {
  std::string name;      ///< message type ("REQUEST_JOB_INFO") or user ("alice")
  std::uint64_t id = 0;  ///< message number or uid
  std::uint64_t count = 0;
  std::uint64_t average_us = 0, total_us = 0;
};

struct Sdiag {
  std::optional<Time> at, since;  ///< when it was asked, when the counters began (newer releases)
  std::optional<std::uint32_t> server_threads, agent_queue, agents, dbd_agent_queue;
  std::optional<std::uint64_t> jobs_submitted, jobs_started, jobs_completed, jobs_canceled,
      jobs_failed, jobs_pending, jobs_running;
  std::vector<RpcCount> by_type, by_user;
  [[nodiscard]] std::uint64_t rpcs() const;  ///< of all types
};

[[nodiscard]] Result<Sdiag> parse_sdiag(std::string_view text);

}  // namespace vetta::slurm
