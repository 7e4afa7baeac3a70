// SPDX-License-Identifier: Apache-2.0
// The agents that are connected: frames in, acknowledgements and requests for burst sampling out.
// Batches are taken by one thread of its own, in order of arrival, so that the server's threads
// never wait for the disk; an agent that sends faster than they are kept is not read from
// meanwhile.
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/time.h"
#include "http/message.h"
#include "ingest/ingest.h"
#include "model/wire.h"

namespace vetta::api {

struct AgentsOptions {
  Duration sample_period = std::chrono::seconds(10);
  Duration lost_after = std::chrono::seconds(10);  ///< without a connection
  Duration expect_for = std::chrono::seconds(60);  ///< after a start, for agents known before
  std::size_t frames_held_max = 16;                ///< of one agent, before it is not read from
  std::size_t frames_max = 4096;                   ///< of all agents
};

/// An agent that is connected, or was since the start.
struct AgentView {
  std::string node, version;
  bool is_connected = false;
  std::optional<Time> since, last_batch;
  std::uint64_t dropped_batches = 0;
  std::optional<bool> is_root;
  std::vector<std::string> gaps;
};

/// A bounded queue as it stands.
struct QueueView {
  std::string name;
  std::uint64_t depth = 0, limit = 0, drops = 0;
};

class Agents {
 public:
  /// `cluster` gives the name that agents must carry; empty: not known yet, then any.
  Agents(ingest::Ingest& ingest, std::function<std::string()> cluster, AgentsOptions options = {});
  /// Takes what is queued no more: agents still have it and send it again.
  ~Agents();
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  /// The connection that this request becomes.
  [[nodiscard]] http::Upgrade connect();
  /// An agent that was there before the last start: lost unless it comes back.
  void expect(const records::AgentRow& agent, Time now);

  /// Marks and samples of this job every second until then; the nodes that hold it (empty: all).
  void keep_burst(std::uint64_t job_id, const std::set<std::string>& nodes, Time until);
  /// Says which agents are lost, and ends bursts whose time is over; call it every second.
  void tick(Time now);

  [[nodiscard]] std::vector<AgentView> list() const;
  [[nodiscard]] std::optional<AgentView> find(std::string_view node) const;
  [[nodiscard]] std::size_t connected() const;
  [[nodiscard]] QueueView queue() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace vetta::api
