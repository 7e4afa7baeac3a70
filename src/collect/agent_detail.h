// SPDX-License-Identifier: Apache-2.0
// Private to agent*.cc: one vettad as the agent sees it.
#pragma once

#include <memory>

#include "collect/agent.h"

namespace vetta::collect {

struct Agent::Link {
  Link(std::uint64_t agent_id, const RankTable& ranks, const Rings& rings, const Spool& spool)
      : delivery(agent_id, ranks, rings, spool), away_since(monotonic_now()) {}

  Delivery delivery;
  ClockOffset clock;
  std::unique_ptr<Uplink> uplink;
  bool is_welcome = false;
  Duration away_since;
  Duration heard{};  ///< last frame from it
  Duration pinged{};
  int pings = 0;
  std::uint64_t dropped_said = 0;
};

}  // namespace vetta::collect
