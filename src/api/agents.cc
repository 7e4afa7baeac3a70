// SPDX-License-Identifier: Apache-2.0
#include "api/agents.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "core/log.h"
#include "core/text.h"
#include "http/stream.h"

namespace vetta::api {
namespace {

struct Connection {
  std::shared_ptr<http::RawStream> stream;
  model::FrameReader reader;
  model::Hello hello;
  bool is_greeted = false;
  std::size_t pending = 0;  ///< batches queued; under State::mutex
};

/// What is known of a node's agent; under State::mutex.
struct Entry {
  std::shared_ptr<Connection> connection;  ///< null: not connected
  model::Hello hello;
  std::optional<Time> since, last_batch, lost_at;
  std::uint64_t dropped_batches = 0;
  bool is_reported_lost = false;
  bool is_known_from_before = false;
  std::string lost_why;
  std::vector<std::uint64_t> burst_jobs;  ///< as last sent
  Time burst_until;
};

struct Watch {
  std::set<std::string> nodes;
  Time until;
};

struct Work {
  std::shared_ptr<Connection> connection;
  model::Batch batch;
  std::optional<model::Event> event;  ///< instead of a batch
};

model::Event agent_event(model::EventKind kind, const std::string& node, Time at,
                         std::string message) {
  model::Event event;
  event.time = at;
  event.kind = kind;
  event.node = node;
  event.message = std::move(message);
  event.source = "vettad";
  event.dedup =
      std::string(model::name(kind)) + ":" + node + ":" + std::to_string(epoch_nanoseconds(at));
  return event;
}

}  // namespace

struct Agents::State : std::enable_shared_from_this<Agents::State> {
  State(ingest::Ingest& ingest_in, std::function<std::string()> cluster_in,
        AgentsOptions options_in)
      : ingest(ingest_in), cluster(std::move(cluster_in)), options(options_in) {}

  bool take_bytes(const std::shared_ptr<Connection>& connection, std::string_view bytes);
  bool take_frame(const std::shared_ptr<Connection>& connection, model::Frame& frame);
  bool greet(const std::shared_ptr<Connection>& connection, const model::Hello& hello);
  bool queue_batch(const std::shared_ptr<Connection>& connection, model::Batch batch);
  void lose(const std::shared_ptr<Connection>& connection, std::string_view reason);
  void send_burst(const std::string& node, Entry& entry);
  void work();
  void keep(Work& item);

  ingest::Ingest& ingest;
  std::function<std::string()> cluster;
  AgentsOptions options;
  mutable std::mutex mutex;
  std::condition_variable ready;
  std::map<std::string, Entry, std::less<>> entries;
  std::map<std::uint64_t, Watch> watches;
  std::deque<Work> queue;
  std::uint64_t drops = 0;
  bool is_stopping = false;
  std::thread worker;
};

bool Agents::State::take_bytes(const std::shared_ptr<Connection>& connection,
                               std::string_view bytes) {
  connection->reader.append(bytes);
  while (true) {
    auto frame = connection->reader.next();
    if (!frame) {
      log::warn("agent_frame", "an agent's bytes are no frames: " + frame.error().text(),
                {{"node", connection->hello.node}});
      return false;
    }
    if (!*frame) return true;
    if (!take_frame(connection, **frame)) return false;
  }
}

bool Agents::State::take_frame(const std::shared_ptr<Connection>& connection, model::Frame& frame) {
  if (const auto* hello = std::get_if<model::Hello>(&frame))
    return !connection->is_greeted && greet(connection, *hello);
  if (!connection->is_greeted) {
    log::warn("agent_frame", "an agent sends before it has said who it is");
    return false;
  }
  if (auto* ping = std::get_if<model::Ping>(&frame)) {
    ping->server_wall = now();
    return connection->stream->send(model::encode(*ping));
  }
  if (auto* batch = std::get_if<model::Batch>(&frame))
    return queue_batch(connection, std::move(*batch));
  log::warn("agent_frame", "an agent sends what only vettad may send",
            {{"node", connection->hello.node}});
  return false;
}

bool Agents::State::greet(const std::shared_ptr<Connection>& connection,
                          const model::Hello& hello) {
  const std::string own = cluster();
  if (hello.node.empty() || (!own.empty() && hello.cluster != own)) {
    log::warn("agent_refused",
              "an agent of cluster '" + one_line(hello.cluster, 60) + "' dials the vettad of '" +
                  own + "': start it with --cluster " + own,
              {{"node", one_line(hello.node, 60)}});
    return false;
  }
  const std::scoped_lock lock(mutex);
  connection->hello = hello;
  connection->is_greeted = true;
  Entry& entry = entries[hello.node];
  if (entry.connection) entry.connection->stream->close();
  if (entry.is_reported_lost)
    queue.push_back({nullptr,
                     {},
                     agent_event(model::EventKind::agent_back, hello.node, now(),
                                 "the agent of " + hello.node + " is back")});
  entry.connection = connection;
  entry.hello = hello;
  entry.since = now();
  entry.lost_at.reset();
  entry.is_reported_lost = false;
  entry.burst_jobs.clear();
  ready.notify_one();
  log::info("agent_connected", "an agent is connected",
            {{"node", hello.node}, {"version", hello.version}});
  if (!connection->stream->send(
          model::encode(model::Welcome{.wall = now(), .sample_period = options.sample_period})))
    return false;
  send_burst(hello.node, entry);
  return true;
}

bool Agents::State::queue_batch(const std::shared_ptr<Connection>& connection, model::Batch batch) {
  const std::scoped_lock lock(mutex);
  if (queue.size() >= options.frames_max) {
    ++drops;  // the agent keeps the batch and sends it again after it has dialled anew
    log::warn("agent_queue_full", "batches come faster than they can be kept",
              {{"limit", std::to_string(options.frames_max)}});
    return false;
  }
  queue.push_back({connection, std::move(batch), {}});
  if (++connection->pending >= options.frames_held_max) connection->stream->hold();
  ready.notify_one();
  return true;
}

void Agents::State::lose(const std::shared_ptr<Connection>& connection, std::string_view reason) {
  const std::scoped_lock lock(mutex);
  const auto found = entries.find(connection->hello.node);
  if (found == entries.end() || found->second.connection != connection) return;
  found->second.connection.reset();
  found->second.lost_at = now();
  found->second.lost_why = reason;
  if (!is_stopping)
    log::info("agent_gone", "an agent's connection ended: " + std::string(reason),
              {{"node", connection->hello.node}});
}

/// Under the mutex: tells the agent which of the watched jobs its node holds, if that is news.
void Agents::State::send_burst(const std::string& node, Entry& entry) {
  if (!entry.connection) return;
  model::Burst burst;
  for (const auto& [job, watch] : watches) {
    if (!watch.nodes.empty() && !watch.nodes.contains(node)) continue;
    burst.job_ids.push_back(job);
    burst.until = std::max(burst.until, watch.until);
  }
  const bool is_same = burst.job_ids == entry.burst_jobs;
  if (is_same && (burst.job_ids.empty() || burst.until == entry.burst_until)) return;
  entry.burst_jobs = burst.job_ids;
  entry.burst_until = burst.until;
  entry.connection->stream->send(model::encode(burst));
}

void Agents::State::work() {
  std::unique_lock lock(mutex);
  while (true) {
    ready.wait(lock, [&] { return is_stopping || !queue.empty(); });
    if (is_stopping) return;
    Work item = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    keep(item);
    lock.lock();
  }
}

void Agents::State::keep(Work& item) {
  if (item.event) {
    if (auto taken = ingest.take(cluster(), *item.event); !taken)
      log::warn("agent_event", "an event could not be kept: " + taken.error().text());
    return;
  }
  Connection& connection = *item.connection;
  auto ack = ingest.take(connection.hello, item.batch);
  const std::scoped_lock lock(mutex);
  if (--connection.pending < options.frames_held_max) connection.stream->resume();
  if (!ack) {
    log::error("agent_batch",
               "a batch could not be kept, the agent will send it again: " + ack.error().text(),
               {{"node", connection.hello.node}});
    connection.stream->close();
    return;
  }
  const auto found = entries.find(connection.hello.node);
  if (found != entries.end()) {
    found->second.last_batch = now();
    found->second.dropped_batches = item.batch.dropped_batches;
  }
  connection.stream->send(model::encode(*ack));
}

Agents::Agents(ingest::Ingest& ingest, std::function<std::string()> cluster, AgentsOptions options)
    : state_(std::make_shared<State>(ingest, std::move(cluster), options)) {
  state_->worker = std::thread([state = state_.get()] { state->work(); });
}

Agents::~Agents() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->is_stopping = true;
  }
  state_->ready.notify_all();
  state_->worker.join();
}

http::Upgrade Agents::connect() {
  const auto connection = std::make_shared<Connection>();
  const std::weak_ptr<State> weak = state_;
  return {.protocol = std::string(model::agent_upgrade),
          .idle_max = std::chrono::seconds(90),
          .on_open =
              [connection](const std::shared_ptr<http::RawStream>& stream) {
                connection->stream = stream;
              },
          .on_bytes =
              [connection, weak](std::string_view bytes) {
                const auto state = weak.lock();
                return state && state->take_bytes(connection, bytes);
              },
          .on_close =
              [connection, weak](std::string_view reason) {
                if (const auto state = weak.lock()) state->lose(connection, reason);
              }};
}

void Agents::expect(const records::AgentRow& agent, Time now) {
  const std::scoped_lock lock(state_->mutex);
  Entry& entry = state_->entries[agent.node];
  if (entry.connection || entry.since) return;
  if (entry.last_batch && *entry.last_batch > agent.last_batch) return;
  entry.hello.node = agent.node;
  entry.hello.version = agent.version;
  entry.last_batch = agent.last_batch;
  entry.dropped_batches = agent.dropped_batches;
  entry.is_known_from_before = true;
  entry.lost_at = now + state_->options.expect_for - state_->options.lost_after;
  entry.lost_why = "it has not come back since vettad's start";
}

void Agents::keep_burst(std::uint64_t job_id, const std::set<std::string>& nodes, Time until) {
  const std::scoped_lock lock(state_->mutex);
  Watch& watch = state_->watches[job_id];
  watch.nodes = nodes;
  watch.until = std::max(watch.until, until);
  for (auto& [node, entry] : state_->entries) state_->send_burst(node, entry);
}

void Agents::tick(Time now) {
  const std::scoped_lock lock(state_->mutex);
  const bool is_over = std::erase_if(state_->watches, [&](const auto& item) {
                         return item.second.until <= now;
                       }) > 0;
  for (auto& [node, entry] : state_->entries) {
    if (is_over) state_->send_burst(node, entry);
    if (entry.connection || !entry.lost_at || entry.is_reported_lost) continue;
    if (now - *entry.lost_at < state_->options.lost_after) continue;
    entry.is_reported_lost = true;
    const Time at = entry.is_known_from_before && !entry.since && entry.last_batch
                        ? *entry.last_batch
                        : *entry.lost_at;
    state_->queue.push_back({nullptr,
                             {},
                             agent_event(model::EventKind::agent_lost, node, at,
                                         "the agent of " + node + " is gone: " + entry.lost_why)});
    state_->ready.notify_one();
  }
}

namespace {

AgentView view(const std::string& node, const Entry& entry) {
  AgentView out;
  out.node = node;
  out.version = entry.hello.version;
  out.is_connected = entry.connection != nullptr;
  if (out.is_connected) out.since = entry.since;
  out.last_batch = entry.last_batch;
  out.dropped_batches = entry.dropped_batches;
  if (entry.since) out.is_root = entry.hello.is_root;
  out.gaps = entry.hello.gaps;
  return out;
}

}  // namespace

std::vector<AgentView> Agents::list() const {
  std::vector<AgentView> all;
  const std::scoped_lock lock(state_->mutex);
  for (const auto& [node, entry] : state_->entries) all.push_back(view(node, entry));
  return all;
}

std::optional<AgentView> Agents::find(std::string_view node) const {
  const std::scoped_lock lock(state_->mutex);
  const auto found = state_->entries.find(node);
  if (found == state_->entries.end()) return std::nullopt;
  return view(found->first, found->second);
}

std::size_t Agents::connected() const {
  const std::scoped_lock lock(state_->mutex);
  std::size_t count = 0;
  for (const auto& [node, entry] : state_->entries) count += entry.connection ? 1 : 0;
  return count;
}

QueueView Agents::queue() const {
  const std::scoped_lock lock(state_->mutex);
  return {"agent_batches", state_->queue.size(), state_->options.frames_max, state_->drops};
}

}  // namespace vetta::api
