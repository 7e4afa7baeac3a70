// SPDX-License-Identifier: Apache-2.0
// The public face, and what all takes share.
#include "ingest/ingest.h"

#include <algorithm>
#include <fmt/format.h>

#include "ingest/events_detail.h"
#include "ingest/state_detail.h"

namespace vetta::ingest {
namespace {

constexpr std::size_t cache_max = 200'000;

}  // namespace

void add(Taken& to, const Taken& what) {
  to.attempts_new += what.attempts_new;
  to.attempts_changed += what.attempts_changed;
  to.events += what.events;
  to.ranks_placed += what.ranks_placed;
  to.ranks_unplaced += what.ranks_unplaced;
  to.events_dropped += what.events_dropped;
  to.unplaced_dropped += what.unplaced_dropped;
  to.ranks_of_other_user += what.ranks_of_other_user;
  to.ranks_off_node += what.ranks_off_node;
  to.marks += what.marks;
  to.duplicates += what.duplicates;
  to.refused += what.refused;
}

Ingest::Ingest(records::Records& records, series::AttemptFiles& files, series::Store& store,
               Hooks hooks, Options options)
    : state_(std::make_unique<State>(records, files, store, std::move(hooks), options)) {}

Ingest::~Ingest() = default;

Result<Taken> Ingest::take(const slurm::Snapshot& snapshot) {
  const std::lock_guard guard(state_->mutex);
  auto taken = state_->take_snapshot(snapshot);
  {
    const std::lock_guard unkept_guard(state_->unkept_mutex);
    state_->unkept = taken ? std::nullopt : std::optional(taken.error());
  }
  if (taken) {
    ++state_->meters.snapshots;
    add(state_->meters.taken, *taken);
  } else {
    ++state_->meters.errors;
  }
  return taken;
}

Result<Taken> Ingest::take(const slurm::Accounting& accounting) {
  const std::lock_guard guard(state_->mutex);
  auto taken = state_->take_accounting(accounting);
  if (taken) {
    add(state_->meters.taken, *taken);
  } else {
    ++state_->meters.errors;
  }
  return taken;
}

Result<model::Ack> Ingest::take(const model::Hello& agent, const model::Batch& batch) {
  bool nudge = false;
  auto ack = [&] {
    const std::lock_guard guard(state_->mutex);
    auto taken = state_->take_batch(agent, batch, nudge);
    if (!taken) ++state_->meters.errors;
    return taken;
  }();
  if (nudge && state_->hooks.nudge) state_->hooks.nudge(agent.cluster);
  return ack;
}

Result<Taken> Ingest::take(const std::string& cluster, const model::Event& event) {
  const std::lock_guard guard(state_->mutex);
  Taken taken;
  const auto change = [&](records::Writer& writer) -> Result<void> {
    std::optional<records::AttemptId> attempt;
    if (event.attempt) {
      if (const auto row = VETTA_TRY(writer.reader().attempt(*event.attempt))) attempt = row->id;
    }
    return state_->add_event(writer, event, attempt, cluster);
  };
  VETTA_TRY(state_->write(change, taken));
  add(state_->meters.taken, taken);
  return taken;
}

Result<std::optional<Time>> Ingest::accounting_watermark(const std::string& cluster) const {
  auto reader = VETTA_TRY(state_->records.read());
  const auto value = VETTA_TRY(reader.cursor("accounting:" + cluster));
  if (!value) return std::nullopt;
  return from_epoch_nanoseconds(*value);
}

Meters Ingest::meters() const {
  const std::lock_guard guard(state_->mutex);
  return state_->meters;
}

std::optional<Error> Ingest::snapshot_unkept() const {
  const std::lock_guard guard(state_->unkept_mutex);
  return state_->unkept;
}

Result<void> Ingest::State::write(const std::function<Result<void>(records::Writer&)>& change,
                                  Taken& taken) {
  new_events.clear();
  auto done = records.write(change);
  if (!done) {
    // What was cached within the write is not there.
    placed.clear();
    allocations_kept.clear();
    unplaced_rows.clear();
    event_counts.clear();
    new_events.clear();
    return done;
  }
  taken.events += new_events.size();
  if (hooks.event)
    for (const auto& event : new_events) hooks.event(event);
  new_events.clear();
  return {};
}

Result<void> Ingest::State::add_event(records::Writer& writer, model::Event event,
                                      std::optional<records::AttemptId> attempt,
                                      const std::string& cluster) {
  const auto id = VETTA_TRY(writer.add(event, attempt, cluster));
  if (!id) return {};
  event.id = *id;
  new_events.push_back(std::move(event));
  return {};
}

Result<void> Ingest::State::follow(records::Writer& writer, const records::Upsert& upsert,
                                   Taken& taken) {
  if (!upsert.is_changed) return {};
  ++(upsert.is_new ? taken.attempts_new : taken.attempts_changed);
  changed_jobs.insert(upsert.after.key.job_id);
  if (upsert.after.het) changed_jobs.insert(upsert.after.het->job_id);
  for (const auto& [id, end] : upsert.superseded) VETTA_TRY(writer.close_allocations(id, end));
  const auto& after = upsert.after;
  const bool is_inferred = upsert.source == records::ViewSource::inferred;
  for (auto& event : events_of(after, is_inferred))
    VETTA_TRY(add_event(writer, std::move(event), upsert.id, after.key.cluster));
  if (model::is_final(after.state) && after.end)
    VETTA_TRY(writer.close_allocations(upsert.id, *after.end));
  return {};
}

Result<const PlacedRank*> Ingest::State::find_rank(records::Reader& reader, std::uint64_t rank_id) {
  if (const auto at = placed.find(rank_id); at != placed.end()) return &at->second;
  const auto row = VETTA_TRY(reader.rank(rank_id));
  if (!row) return nullptr;
  const auto attempt = VETTA_TRY(reader.attempt(row->attempt));
  if (!attempt) return nullptr;
  if (placed.size() >= cache_max) placed.clear();
  const series::RankRef ref{rank_id, row->rank.incarnation, row->rank.rank};
  return &(placed[rank_id] = {row->attempt, attempt->attempt.key, ref});
}

Result<Placing> Ingest::State::place_rank(records::Writer& writer, const std::string& cluster,
                                          const model::Rank& rank) {
  auto& reader = writer.reader();
  model::Rank known = rank;
  if (const auto* there = VETTA_TRY(find_rank(reader, rank.rank_id))) {
    known.incarnation = there->ref.incarnation;
    const auto attempt = there->attempt;
    placed.erase(rank.rank_id);  // the rank's number may have become known
    VETTA_TRY(writer.upsert_rank(attempt, known));
    return Placing::placed;
  }
  auto candidates = VETTA_TRY(reader.attempts(cluster, rank.job_id, 100));
  for (auto& row : VETTA_TRY(reader.het_attempts(cluster, rank.job_id, std::nullopt, 100))) {
    // A component's ranks may come under the leader's id: the node decides.
    if (!VETTA_TRY(reader.held(row.id, rank.node)).value_or(false)) continue;
    std::erase_if(candidates, [&](const auto& c) { return c.attempt.het.has_value(); });
    candidates.push_back(std::move(row));
    break;
  }
  const Time earliest = rank.start - options.clock_slack, latest = rank.start + options.clock_slack;
  auto found = place(rank, candidates, options.clock_slack);
  while (found.row != nullptr) {
    const auto id = found.row->id;
    if (VETTA_TRY(reader.held(id, rank.node, earliest, latest)).value_or(true)) break;
    std::erase_if(candidates, [&](const auto& c) { return c.id == id; });
    found = place(rank, candidates, options.clock_slack);
    if (found.row == nullptr) return Placing::off_node;
  }
  if (found.row == nullptr) return found.why;
  const auto* row = found.row;
  known.incarnation =
      VETTA_TRY(writer.incarnation(row->id, rank.step_id, rank.elastic_restart, rank.start));
  VETTA_TRY(writer.upsert_rank(row->id, known));
  VETTA_TRY(writer.adopt_events(rank.rank_id, row->id));
  if (row->is_sealed) VETTA_TRY(writer.set_sealed(row->id, false));
  return Placing::placed;
}

}  // namespace vetta::ingest
