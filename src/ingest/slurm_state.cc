// SPDX-License-Identifier: Apache-2.0
// Snapshots and accounting.
#include <fmt/format.h>
#include <functional>

#include "core/hostlist.h"
#include "ingest/events_detail.h"
#include "ingest/state_detail.h"

namespace vetta::ingest {
namespace {

constexpr std::string_view vanished =
    "Slurm lists this job no longer, and accounting has not told how it ended";

std::size_t hash_of(const std::vector<model::Allocation>& allocations) {
  const std::hash<std::string> hash;
  std::size_t out = 1;
  const auto mix = [&](std::size_t value) { out = (out ^ value) * 0x9E3779B97F4A7C15ULL; };
  for (const auto& a : allocations) {
    mix(hash(a.node));
    mix(static_cast<std::size_t>(epoch_nanoseconds(a.span.start)));
    mix(a.cpus.value_or(0));
    mix(a.memory_bytes.value_or(0));
    mix(hash(a.cpu_ids));
    for (const auto& device : a.devices) mix(hash(device));
  }
  return out;
}

/// Jobs that a known list does not show stay open, with the reason; those that are back lose it.
/// A list with a record that could not be read misses nobody: it may be of any of them.
Result<void> note_vanished(records::Writer& writer, const slurm::Snapshot& snapshot,
                           const AttemptIds& seen) {
  for (const auto& open : VETTA_TRY(writer.reader().open_attempts(snapshot.cluster))) {
    const bool is_listed = seen.contains({open.key.job_id, open.key.submit});
    if (is_listed != open.has_gap || (!is_listed && !snapshot.jobs.refused.empty())) continue;
    VETTA_TRY(writer.set_gap(open.id, is_listed ? std::string_view() : vanished, snapshot.at));
  }
  return {};
}

/// What accounting says that an attempt held: whole nodes, without their parts.
std::vector<model::Allocation> allocations_of(const model::Attempt& attempt) {
  std::vector<model::Allocation> out;
  if (!attempt.start || attempt.nodes.empty()) return out;
  const auto nodes = expand_hostlist(attempt.nodes);
  if (!nodes) return out;
  for (const auto& node : *nodes) {
    auto& allocation = out.emplace_back();
    allocation.node = node;
    allocation.span = {*attempt.start, attempt.end};
  }
  return out;
}

}  // namespace

Result<void> Ingest::State::keep_nodes(records::Writer& writer, const slurm::Snapshot& snapshot) {
  const auto& cluster = snapshot.cluster;
  const auto changes = VETTA_TRY(writer.set_nodes(cluster, snapshot.nodes.value, snapshot.at));
  VETTA_TRY(writer.set_snapshot_time(cluster, records::Listing::nodes, snapshot.at));
  for (const auto& change : changes) {
    if (auto event = event_of(cluster, change.before, change.after, snapshot.at))
      VETTA_TRY(add_event(writer, std::move(*event), std::nullopt, cluster));
  }
  return {};
}

Result<AttemptIds> Ingest::State::keep_jobs(records::Writer& writer,
                                            const slurm::Snapshot& snapshot, bool is_stale,
                                            Taken& taken) {
  VETTA_TRY(writer.set_snapshot_time(snapshot.cluster, records::Listing::jobs, snapshot.at));
  AttemptIds ids;
  for (const auto& attempt : snapshot.jobs.value) {
    const auto upsert =
        VETTA_TRY(writer.upsert(attempt, records::ViewSource::controller, snapshot.at, is_stale));
    ids[{attempt.key.job_id, attempt.key.submit}] = upsert.id;
    VETTA_TRY(follow(writer, upsert, taken));
  }
  if (!is_stale) VETTA_TRY(note_vanished(writer, snapshot, ids));
  return ids;
}

Result<void> Ingest::State::keep_allocations(records::Writer& writer,
                                             const slurm::Snapshot& snapshot, bool is_stale,
                                             const AttemptIds& ids) {
  for (const auto& held : snapshot.allocations.value) {
    const auto at = ids.find({held.key.job_id, held.key.submit});
    if (at == ids.end()) continue;
    const std::size_t hash = hash_of(held.allocations);
    if (const auto kept = allocations_kept.find(at->second);
        kept != allocations_kept.end() && kept->second == hash)
      continue;
    if (is_stale) {
      VETTA_TRY(writer.add_allocations(at->second, held.allocations));
      changed_jobs.insert(held.key.job_id);
      continue;
    }
    VETTA_TRY(writer.set_allocations(at->second, held.allocations, snapshot.at));
    allocations_kept[at->second] = hash;
    changed_jobs.insert(held.key.job_id);
  }
  return {};
}

Result<Taken> Ingest::State::take_snapshot(const slurm::Snapshot& snapshot) {
  const auto& cluster = snapshot.cluster;
  Taken taken;
  changed_jobs.clear();
  const auto keep = [&](records::Writer& writer) -> Result<void> {
    const auto last = VETTA_TRY(writer.reader().snapshot_time(cluster, records::Listing::jobs));
    const bool is_stale = last && snapshot.at < *last;
    if (snapshot.partitions.is_known() && !is_stale) {
      VETTA_TRY(writer.set_partitions(cluster, snapshot.partitions.value, snapshot.at));
      VETTA_TRY(writer.set_snapshot_time(cluster, records::Listing::partitions, snapshot.at));
    }
    if (snapshot.nodes.is_known() && !is_stale) VETTA_TRY(keep_nodes(writer, snapshot));
    AttemptIds ids;
    if (snapshot.jobs.is_known()) ids = VETTA_TRY(keep_jobs(writer, snapshot, is_stale, taken));
    if (snapshot.allocations.is_known())
      VETTA_TRY(keep_allocations(writer, snapshot, is_stale, ids));
    if (allocations_kept.size() > 2 * ids.size() + 1000) allocations_kept.clear();
    return {};
  };
  VETTA_TRY(write(keep, taken));
  VETTA_TRY(settle_jobs(cluster, taken));
  return taken;
}

Result<Taken> Ingest::State::take_accounting(const slurm::Accounting& accounting) {
  if (!accounting.attempts.is_known()) {
    Error why = accounting.attempts.why;
    if (why.message.empty()) why.message = "accounting could not be asked";
    return std::unexpected(std::move(why));
  }
  const auto& cluster = accounting.cluster;
  Taken taken;
  changed_jobs.clear();
  const auto keep = [&](records::Writer& writer) -> Result<void> {
    for (const auto& accounted : accounting.attempts.value) {
      const auto upsert = VETTA_TRY(
          writer.upsert(accounted.attempt, records::ViewSource::accounting, accounting.until));
      VETTA_TRY(writer.upsert_steps(upsert.id, accounted.steps));
      if (upsert.is_known_view) continue;
      VETTA_TRY(writer.add_allocations(upsert.id, allocations_of(accounted.attempt)));
      changed_jobs.insert(accounted.attempt.key.job_id);
      VETTA_TRY(follow(writer, upsert, taken));
    }
    const std::string name = "accounting:" + cluster;
    const auto have = VETTA_TRY(writer.reader().cursor(name));
    const auto until = epoch_nanoseconds(accounting.until);
    if (!have || *have < until) VETTA_TRY(writer.set_cursor(name, until));
    return {};
  };
  VETTA_TRY(write(keep, taken));
  VETTA_TRY(settle_jobs(cluster, taken));
  return taken;
}

}  // namespace vetta::ingest
