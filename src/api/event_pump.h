// SPDX-License-Identifier: Apache-2.0
// New events to open streams: one thread takes them from the hub and hands them to every stream
// that wants them. A stream first gets what it missed (from the records), then what comes.
// While a stream on a job is open, that job's agents sample every second.
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/result.h"
#include "http/stream.h"
#include "model/viewer.h"
#include "query/event_hub.h"
#include "query/query.h"

namespace vetta::api {

class Agents;

struct StreamRequest {
  model::Viewer viewer;
  std::optional<std::uint64_t> after_id;  ///< empty: only what comes from now on
  std::optional<records::AttemptRow> job;
  std::set<std::string> job_nodes;
  std::vector<model::EventKind> kinds;  ///< empty: all
  std::string node;                     ///< empty: all
};

class EventPump {
 public:
  EventPump(query::EventHub& hub, const query::Query& query, Agents& agents);
  /// The hub must be closed first.
  ~EventPump();
  EventPump(const EventPump&) = delete;
  EventPump& operator=(const EventPump&) = delete;

  [[nodiscard]] Result<std::shared_ptr<http::EventStream>> open(StreamRequest request);
  /// Keeps bursts of streamed jobs alive; call it every second.
  void tick(Time now);
  [[nodiscard]] std::size_t streams() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vetta::api
