// SPDX-License-Identifier: Apache-2.0
// What goes out: one link a vettad, each with its own place in all that there is to say.
#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include "collect/agent.h"
#include "collect/agent_detail.h"
#include "core/log.h"
#include "core/text.h"

namespace vetta::collect {
namespace {

constexpr Duration pump_delay = std::chrono::milliseconds(100);  ///< gathers what comes together
constexpr std::size_t unsent_max = std::size_t{1} << 20U;
constexpr Duration ping_period = std::chrono::seconds(15);
constexpr int pings_first = 4;  ///< quickly, one a second, to learn the clock
constexpr Duration silence_max = std::chrono::seconds(60);
constexpr Duration burst_max = std::chrono::minutes(10);
constexpr std::size_t bursts_count_max = 1024;
/// Between a rank's end and its being forgotten: how it ended may still come.
constexpr Duration end_settle = std::chrono::seconds(10);

void shift(Time& time, Duration by) {
  time += by;
}

/// To vettad's clock.
void shift(model::Batch& batch, Duration by) {
  if (by == Duration::zero()) return;
  for (model::Rank& rank : batch.ranks) {
    shift(rank.start, by);
    if (rank.end) shift(*rank.end, by);
  }
  for (model::RankEnd& end : batch.ends) shift(end.end, by);
  for (model::RankMarks& marks : batch.marks)
    for (model::Mark& mark : marks.marks) shift(mark.start, by);
  for (model::RankSamples& samples : batch.rank_samples)
    for (model::RankSample& sample : samples.samples) shift(sample.time, by);
  for (model::NodeSample& sample : batch.node_samples) shift(sample.time, by);
  for (model::Event& event : batch.events) shift(event.time, by);
  for (model::RankPlace& place : batch.places) shift(place.now.since, by);
}

}  // namespace

void Agent::dial_all() {
  for (const Address& address : settings_.vettad) {
    auto link = std::make_unique<Link>(agent_id_, ranks_, rings_, spool_);
    Link* raw = link.get();
    Uplink::Hooks hooks;
    hooks.opened = [this, raw] { opened(*raw); };
    hooks.received = [this, raw](const model::Frame& frame) { received(*raw, frame); };
    hooks.closed = [this, raw](const Error& why, bool was_open) { closed(*raw, why, was_open); };
    hooks.token = [path = settings_.token_file]() -> Result<std::string> {
      if (path.empty()) return std::string();
      const std::string text = VETTA_TRY(sys::read_file(path, 4096));
      return std::string(trim(text));
    };
    raw->uplink = std::make_unique<Uplink>(loop_, address, std::move(hooks));
    links_.push_back(std::move(link));
    raw->uplink->start();
  }
}

void Agent::opened(Link& link) {
  model::Hello hello;
  hello.cluster = settings_.cluster;
  hello.node = settings_.node;
  hello.version = settings_.version;
  hello.boot_id = boot_id_;
  hello.agent_id = agent_id_;
  hello.wall = now();
  hello.is_root = ::geteuid() == 0;
  hello.shared_host = is_shared_host();
  hello.gaps = gaps_;
  link.is_welcome = false;
  link.heard = monotonic_now();
  link.uplink->send(model::Frame(std::move(hello)));
}

void Agent::received(Link& link, const model::Frame& frame) {
  link.heard = monotonic_now();
  if (const auto* welcome = std::get_if<model::Welcome>(&frame)) {
    log::info("connected", "vettad takes this node's data",
              {{"vettad", link.uplink->address().text()}});
    if (welcome->sample_period >= std::chrono::seconds(1))
      settings_.sample_period = welcome->sample_period;
    link.is_welcome = true;
    link.pings = 0;
    link.uplink->praise();
    link.delivery.connected(welcome->protocol);
    ping(link);
  } else if (const auto* answer = std::get_if<model::Ping>(&frame)) {
    link.clock.add(answer->sent, answer->server_wall, now());
    // The first batch waits for the first answer: marks go out by vettad's clock.
    if (link.pings++ == 0) pump(link, true);
  } else if (const auto* ack = std::get_if<model::Ack>(&frame)) {
    link.delivery.acknowledge(*ack, monotonic_now());
    settle_acknowledged();
    pump(link, link.delivery.has_backlog());
  } else if (const auto* burst = std::get_if<model::Burst>(&frame)) {
    const Time t = now();
    const Time until = std::min(burst->until - link.clock.offset(), t + burst_max);
    if (burst->job_ids.empty()) bursts_.clear();
    for (const std::uint64_t job : burst->job_ids)
      if (bursts_.size() < bursts_count_max && until > t)
        bursts_[job] = std::max(bursts_[job], until);
    arm_sampling();
    loop_.cancel(flush_timer_);
    flush();
  } else {
    link.uplink->fail_with(Error{Code::invalid, "it sends what only an agent sends", {}, {}, {}});
  }
}

void Agent::closed(Link& link, const Error& why, bool was_open) {
  link.delivery.disconnected();
  if (was_open && link.is_welcome) link.away_since = monotonic_now();
  link.is_welcome = false;
  log::warn("vettad_away", was_open ? "the connection to vettad ended" : "vettad cannot be reached",
            {{"vettad", link.uplink->address().text()}, {"why", why.text()}});
}

void Agent::ping(Link& link) {
  link.pinged = monotonic_now();
  link.uplink->send(model::Frame(model::Ping{now(), Time()}));
}

void Agent::pump(Link& link, bool with_marks) {
  while (link.is_welcome && link.pings > 0 && link.uplink->unsent_bytes() < unsent_max) {
    auto batch = link.delivery.next(monotonic_now(), with_marks);
    if (!batch) break;
    shift(*batch, link.clock.offset());
    const Delivery::Encoded frame = link.delivery.encode(*batch);
    if (frame.is_given_up)
      log::error("batch_too_large", "a batch that vettad would refuse was given up",
                 {{"vettad", link.uplink->address().text()},
                  {"sequence", std::to_string(batch->sequence)},
                  {"ranks", std::to_string(batch->ranks.size())},
                  {"events", std::to_string(batch->events.size())}});
    link.uplink->send_bytes(frame.bytes);
    with_marks = with_marks && link.delivery.has_backlog();
  }
  if (link.delivery.dropped() != link.dropped_said) {
    link.dropped_said = link.delivery.dropped();
    log::warn("spool_full", "samples were dropped, the oldest first, while vettad was away",
              {{"vettad", link.uplink->address().text()},
               {"dropped", std::to_string(link.dropped_said)}});
  }
}

void Agent::pump_all(bool with_marks) {
  for (const auto& link : links_) pump(*link, with_marks);
}

void Agent::pump_soon() {
  if (pump_timer_ != 0) return;
  pump_timer_ = loop_.after(pump_delay, [this] {
    pump_timer_ = 0;
    pump_all(false);
  });
}

void Agent::check_rings() {
  SpoolItem item;
  for (const Rings::Spoilt& ring : rings_.check()) {
    log::warn("ring_spoilt", ring.why, {{"rank_id", fmt::format("{:016x}", ring.rank_id)}});
    const RankState* state = ranks_.find(ring.rank_id);
    if (state == nullptr) continue;
    model::Event event;
    event.time = now();
    event.kind = model::EventKind::gap;
    event.node = settings_.node;
    event.rank = state->rank.rank;
    event.rank_id = ring.rank_id;
    event.message = "no more marks of this rank are read: " + ring.why;
    event.source = "agent";
    event.dedup = fmt::format("ring-{:016x}", ring.rank_id);
    item.events.push_back(std::move(event));
  }
  if (!item.events.empty()) spool_.put(std::move(item));
}

/// Marks go out here, and links are looked after.
void Agent::flush() {
  const Duration t = monotonic_now();
  for (const auto& link : links_) {
    if (!link->uplink->is_open()) continue;
    if (t - link->heard > silence_max) {
      link->uplink->fail_with(
          Error{Code::timeout, "nothing came from it for a minute", {}, {}, {}});
    } else if (link->is_welcome &&
               t - link->pinged >=
                   (link->pings < pings_first ? std::chrono::seconds(1) : ping_period)) {
      ping(*link);
    }
  }
  check_rings();
  pump_all(true);
  limit_rings();
  forget_done();
  flush_timer_ = loop_.after(
      is_burst() ? Duration(std::chrono::seconds(1)) : settings_.flush_period, [this] { flush(); });
}

bool Agent::counts(const Link& link) const {
  return link.is_welcome || monotonic_now() - link.away_since < settings_.away_max;
}

void Agent::settle_acknowledged() {
  std::uint64_t item = spool_.last();
  for (const auto& link : links_)
    if (counts(*link)) item = std::min(item, link->delivery.spool_acknowledged());
  spool_.release(item);
  for (const auto& [id, state] : ranks_.all()) {
    if (!rings_.has(id)) continue;
    std::optional<std::uint64_t> least;
    for (const auto& link : links_) {
      if (!counts(*link)) continue;
      const std::uint64_t sequence = link->delivery.marks_acknowledged(id);
      least = std::min(least.value_or(sequence), sequence);
    }
    if (least) rings_.acknowledge(id, *least);
  }
}

void Agent::forget_done() {
  const Time settled = now() - end_settle;
  std::vector<std::uint64_t> done;
  for (const auto& [id, state] : ranks_.all()) {
    if (!state.is_ended() || *state.rank.end > settled) continue;
    bool is_done = false;
    for (const auto& link : links_) {
      if (!counts(*link)) continue;
      is_done = link->delivery.is_done(id);
      if (!is_done) break;
    }
    if (is_done) done.push_back(id);
  }
  for (const std::uint64_t id : done) forget(id);
}

void Agent::forget(std::uint64_t rank_id) {
  ends_->forget(rank_id);
  rings_.remove(rank_id);
  ranks_.erase(rank_id);
  for (const auto& link : links_) link->delivery.forget(rank_id);
  if (const auto saved = state_file_.forget(rank_id); !saved)
    log::error("state_unwritten", saved.error().text());
}

/// While no vettad fetches them, rings of ended ranks pile up: the oldest go first.
void Agent::limit_rings() {
  std::vector<std::pair<Time, std::uint64_t>> ended;
  for (const auto& [id, state] : ranks_.all())
    if (state.is_ended() && rings_.has(id)) ended.emplace_back(*state.rank.end, id);
  constexpr std::size_t ring_bytes =
      sys::ring_header_bytes + sys::ring_slots_default * sys::ring_slot_bytes;
  const std::size_t keep = settings_.rings_max / ring_bytes;
  if (ended.size() <= keep) return;
  std::ranges::sort(ended);
  ended.resize(ended.size() - keep);
  for (const auto& [end, id] : ended) rings_.remove(id);
  rings_dropped_ += ended.size();
  log::warn("rings_full", "marks of ended ranks were dropped, the oldest first",
            {{"rings", std::to_string(rings_dropped_)}});
}

}  // namespace vetta::collect
