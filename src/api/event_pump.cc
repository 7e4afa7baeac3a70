// SPDX-License-Identifier: Apache-2.0
#include "api/event_pump.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/agents.h"
#include "core/log.h"
#include "model/json.h"

namespace vetta::api {
namespace {

constexpr std::size_t replay_max = 1000;  ///< then the client comes again with its last id
constexpr Duration burst_length = std::chrono::seconds(30);

struct Open {
  std::weak_ptr<http::EventStream> stream;
  StreamRequest request;
  std::uint64_t last_id = 0;
};

bool wants(const StreamRequest& request, const model::Event& event) {
  if (request.job && event.attempt != request.job->attempt.key) return false;
  if (!request.node.empty() && event.node != request.node) return false;
  return request.kinds.empty() ||
         std::ranges::find(request.kinds, event.kind) != request.kinds.end();
}

http::SseEvent as_sse(const model::Event& event) {
  return {.id = std::to_string(event.id),
          .event = std::string(model::name(event.kind)),
          .data = model::dump(model::to_json(event))};
}

}  // namespace

struct EventPump::State {
  State(const query::Query& query_in, Agents& agents_in) : query(query_in), agents(agents_in) {}

  void run();
  void deliver(const query::Subscription::Batch& batch);

  const query::Query& query;
  Agents& agents;
  std::unique_ptr<query::Subscription> subscription;
  mutable std::mutex mutex;
  std::vector<Open> streams;
  std::atomic<bool> is_stopping = false;
  std::thread thread;
};

void EventPump::State::run() {
  while (!is_stopping) deliver(subscription->wait(std::chrono::seconds(1)));
}

void EventPump::State::deliver(const query::Subscription::Batch& batch) {
  const std::scoped_lock lock(mutex);
  std::erase_if(streams, [](const Open& open) { return open.stream.expired(); });
  if (batch.lost > 0) {  // they come again with their last id and get what they missed
    log::warn("events_lost", "events came faster than they could be handed on",
              {{"lost", std::to_string(batch.lost)}});
    for (const Open& open : streams)
      if (const auto stream = open.stream.lock()) stream->close();
    return;
  }
  for (const model::Event& event : batch.events)
    for (Open& open : streams) {
      const auto stream = open.stream.lock();
      if (!stream || event.id <= open.last_id || !wants(open.request, event)) continue;
      if (query.may_see(open.request.viewer, event)) stream->push(as_sse(event));
      open.last_id = event.id;
    }
}

EventPump::EventPump(query::EventHub& hub, const query::Query& query, Agents& agents)
    : state_(std::make_unique<State>(query, agents)) {
  auto subscription = hub.subscribe();
  VETTA_ASSERT(subscription.has_value(), "the pump is the hub's first subscriber");
  state_->subscription = std::move(*subscription);
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

EventPump::~EventPump() {
  state_->is_stopping = true;
  state_->thread.join();
  for (const Open& open : state_->streams)
    if (const auto stream = open.stream.lock()) stream->close();
}

Result<std::shared_ptr<http::EventStream>> EventPump::open(StreamRequest request) {
  auto stream = std::make_shared<http::EventStream>();
  Open open{.stream = stream, .request = std::move(request), .last_id = 0};
  const std::scoped_lock lock(state_->mutex);
  if (open.request.after_id) {
    records::EventFilter filter;
    filter.after_id = *open.request.after_id;
    filter.limit = replay_max;
    filter.kinds = open.request.kinds;
    filter.node = open.request.node;
    if (open.request.job) filter.attempt = open.request.job->id;
    const auto missed = VETTA_TRY(state_->query.events(open.request.viewer, filter));
    open.last_id = filter.after_id;
    for (const model::Event& event : missed) {
      stream->push(as_sse(event));
      open.last_id = std::max(open.last_id, event.id);
    }
    if (missed.size() >= replay_max) {
      stream->close();
      return stream;
    }
  }
  if (open.request.job)
    state_->agents.keep_burst(open.request.job->attempt.key.job_id, open.request.job_nodes,
                              now() + burst_length);
  state_->streams.push_back(std::move(open));
  return stream;
}

void EventPump::tick(Time now) {
  const std::scoped_lock lock(state_->mutex);
  for (const Open& open : state_->streams)
    if (open.request.job && !open.stream.expired())
      state_->agents.keep_burst(open.request.job->attempt.key.job_id, open.request.job_nodes,
                                now + burst_length);
}

std::size_t EventPump::streams() const {
  const std::scoped_lock lock(state_->mutex);
  return static_cast<std::size_t>(
      std::ranges::count_if(state_->streams, [](const Open& o) { return !o.stream.expired(); }));
}

}  // namespace vetta::api
