// SPDX-License-Identifier: Apache-2.0
// Batches of agents. Order of writing: placed ranks (they decide where marks go), then files, then
// everything else with the batch's sequence. A crash in between leaves a batch that is not
// acknowledged, comes again, and finds its marks and samples there.
#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <utility>

#include "core/log.h"
#include "ingest/events_detail.h"
#include "ingest/node_metrics_detail.h"
#include "ingest/state_detail.h"

namespace vetta::ingest {
namespace {

constexpr std::size_t message_bytes_max = 4096;
constexpr std::size_t detail_bytes_max = 16U << 10U;
constexpr std::size_t event_counts_max = 100'000;

struct PerAttempt {
  records::AttemptId attempt = 0;
  std::vector<series::MarkAppend> marks;
  std::vector<series::SampleAppend> samples;
};

/// What a batch says of one rank, without its marks and its registration.
model::Batch rest_of(const model::Batch& batch, std::uint64_t rank_id, std::size_t samples_max) {
  model::Batch out;
  out.agent_id = batch.agent_id;
  out.sequence = batch.sequence;
  const auto copy = [&](const auto& from, auto& to) {
    for (const auto& item : from)
      if (item.rank_id == rank_id) to.push_back(item);
  };
  copy(batch.ends, out.ends);
  copy(batch.rank_samples, out.rank_samples);
  copy(batch.places, out.places);
  for (auto& [id, samples] : out.rank_samples)
    if (samples.size() > samples_max)
      samples.erase(samples.begin(), samples.end() - static_cast<std::ptrdiff_t>(samples_max));
  return out;
}

std::set<std::uint64_t> ranks_of(const model::Batch& batch) {
  std::set<std::uint64_t> out;
  for (const auto& rank : batch.ranks) out.insert(rank.rank_id);
  for (const auto& end : batch.ends) out.insert(end.rank_id);
  for (const auto& marks : batch.marks) out.insert(marks.rank_id);
  for (const auto& samples : batch.rank_samples) out.insert(samples.rank_id);
  for (const auto& place : batch.places) out.insert(place.rank_id);
  return out;
}

/// A place alone is told again.
bool is_worth_keeping(const model::Batch& rest, bool is_registered) {
  return !rest.ends.empty() || !rest.rank_samples.empty() ||
         (is_registered && !rest.places.empty());
}

/// What a user's process wrote is as long as it likes.
void bound_texts(model::Event& event) {
  if (event.message.size() > message_bytes_max) event.message.resize(message_bytes_max);
  if (event.detail.size() > detail_bytes_max) event.detail.resize(detail_bytes_max);
}

}  // namespace

Result<void> Ingest::State::append_files(const model::Batch& batch, Taken& taken) {
  std::map<model::AttemptKey, PerAttempt> attempts;
  {
    auto reader = VETTA_TRY(records.read());
    for (const auto& marks : batch.marks) {
      const auto* rank = VETTA_TRY(find_rank(reader, marks.rank_id));
      if (rank == nullptr || marks.marks.empty()) continue;
      auto& to = attempts[rank->key];
      to.attempt = rank->attempt;
      to.marks.push_back({rank->ref, marks.marks});
    }
    for (const auto& samples : batch.rank_samples) {
      const auto* rank = VETTA_TRY(find_rank(reader, samples.rank_id));
      if (rank == nullptr || samples.samples.empty()) continue;
      auto& to = attempts[rank->key];
      to.attempt = rank->attempt;
      to.samples.push_back({rank->ref, {batch.agent_id, batch.sequence}, samples.samples});
    }
  }
  for (const auto& [key, what] : attempts) {
    const auto done = VETTA_TRY(files.append(key, what.marks, what.samples));
    taken.marks += done.marks;
    taken.duplicates += done.duplicates;
    taken.refused += done.refused;
    if (!done.set_aside.empty())
      VETTA_TRY(note_set_aside(key, what.attempt, done.set_aside, taken));
  }
  return {};
}

Result<void> Ingest::State::note_set_aside(const model::AttemptKey& key, records::AttemptId attempt,
                                           const std::string& path, Taken& taken) {
  model::Event gap;
  gap.time = now();
  gap.kind = model::EventKind::gap;
  gap.attempt = key;
  gap.message = "earlier marks of this job are lost: its file was damaged and is now " + path;
  gap.source = "vettad";
  gap.dedup = fmt::format("aside:{}:{}", path, epoch_nanoseconds(gap.time));
  return write(
      [&](records::Writer& writer) {
        return add_event(writer, std::move(gap), attempt, key.cluster);
      },
      taken);
}

Result<void> Ingest::State::append_nodes(const model::Hello& agent, const model::Batch& batch,
                                         Taken& taken) {
  if (batch.node_samples.empty()) return {};
  std::map<std::string, std::vector<series::Point>> metrics;
  std::vector<series::Gap> gaps;
  for (const auto& sample : batch.node_samples) {
    visit_node_metrics(sample, [&](const char* name, std::optional<double> value) {
      if (value) metrics[name].push_back({sample.time, *value});
    });
    if (!sample.gap.empty()) gaps.push_back({sample.time, sample.gap});
  }
  std::vector<series::SeriesAppend> what;
  const std::string entity = "node:" + agent.node;
  for (const auto& [metric, points] : metrics)
    what.push_back({{agent.cluster, entity, metric}, points, {}});
  if (!gaps.empty()) what.push_back({{agent.cluster, entity, "node_sample"}, {}, gaps});
  auto done = store.append(what);
  if (done || done.error().code != Code::exhausted) return done;
  // It will have no room the next time either: what else the batch tells is not held up by it.
  taken.refused += batch.node_samples.size();
  if (!std::exchange(is_full_told, true))
    log::error("keep_node_samples", done.error().text(), {{"node", agent.node}});
  return {};
}

Result<void> Ingest::State::apply_ends(records::Writer& writer, const std::string& cluster,
                                       std::span<const model::RankEnd> ends) {
  for (const auto& end : ends) {
    const auto* rank = VETTA_TRY(find_rank(writer.reader(), end.rank_id));
    if (rank == nullptr) continue;
    const bool is_news =
        VETTA_TRY(writer.end_rank(end.rank_id, end.end, end.exit_code, end.exit_signal));
    if (!is_news) continue;
    const auto row = VETTA_TRY(writer.reader().rank(end.rank_id));
    if (!row) continue;
    if (auto event = event_of(row->rank)) {
      event->attempt = rank->key;
      VETTA_TRY(add_event(writer, std::move(*event), row->attempt, cluster));
    }
  }
  return {};
}

Result<void> Ingest::State::apply_places(records::Writer& writer,
                                         std::span<const model::RankPlace> places) {
  for (const auto& [rank_id, now] : places) {
    if (now.phase && static_cast<std::size_t>(*now.phase) >= model::phase_count) continue;
    VETTA_TRY(writer.set_now(rank_id, now));
  }
  return {};
}

Result<void> Ingest::State::keep_unplaced(records::Writer& writer, const model::Hello& agent,
                                          const model::Batch& batch,
                                          const std::set<std::uint64_t>& unplaced) {
  if (unplaced.empty()) return {};
  auto& rows = unplaced_rows.try_emplace(agent.cluster, options.unplaced_rows_max).first->second;
  if (rows >= options.unplaced_rows_max)
    rows = VETTA_TRY(writer.reader().count_unplaced(agent.cluster, options.unplaced_rows_max));
  const auto keep = [&](std::uint64_t rank_id, std::uint64_t job_id,
                        const model::Batch& part) -> Result<void> {
    if (rows >= options.unplaced_rows_max) {
      ++meters.taken.unplaced_dropped;
      return {};
    }
    records::Unplaced row;
    row.rank_id = rank_id;
    row.cluster = agent.cluster;
    row.job_id = job_id;
    row.seen = now();
    row.frame = model::encode(model::Frame(part));
    const auto more = VETTA_TRY(writer.add_unplaced(row, options.unplaced_rest_max));
    if (more > 0) ++rows;
    if (more <= 0 && job_id == 0) ++meters.taken.unplaced_dropped;
    return {};
  };
  std::set<std::uint64_t> registered;
  for (const auto& rank : batch.ranks) {
    if (!unplaced.contains(rank.rank_id)) continue;
    model::Batch part;
    part.agent_id = batch.agent_id;
    part.sequence = batch.sequence;
    part.ranks = {rank};
    VETTA_TRY(keep(rank.rank_id, rank.job_id, part));
    registered.insert(rank.rank_id);
  }
  for (const auto rank_id : unplaced) {
    const auto rest = rest_of(batch, rank_id, options.unplaced_rest_max);
    if (is_worth_keeping(rest, registered.contains(rank_id))) VETTA_TRY(keep(rank_id, 0, rest));
  }
  return {};
}

Result<bool> Ingest::State::is_full(records::Reader& reader, const model::Event& event,
                                    std::optional<records::AttemptId> attempt) {
  if (!attempt) {
    const std::size_t most = options.events_max / 10;
    return event.rank_id != 0 && VETTA_TRY(reader.count_events(event.rank_id, most)) >= most;
  }
  if (event_counts.size() >= event_counts_max) event_counts.clear();
  auto [at, is_new] = event_counts.try_emplace(*attempt, 0);
  if (is_new) at->second = VETTA_TRY(reader.count_events_of(*attempt, options.events_max));
  return at->second++ >= options.events_max;
}

Result<void> Ingest::State::apply_events(records::Writer& writer, const model::Hello& agent,
                                         std::span<const model::Event> events) {
  std::map<records::AttemptId, std::pair<model::Event, std::uint64_t>> dropped;
  for (auto event : events) {
    bound_texts(event);
    if (event.node.empty()) event.node = agent.node;
    std::optional<records::AttemptId> attempt;
    const auto* rank =
        event.rank_id == 0 ? nullptr : VETTA_TRY(find_rank(writer.reader(), event.rank_id));
    if (rank != nullptr) {
      attempt = rank->attempt;
      event.attempt = rank->key;
    } else if (event.rank_id != 0) {
      event.attempt.reset();  // it gets the attempt of its rank when that is placed
    } else if (event.attempt) {
      if (event.attempt->cluster.empty()) event.attempt->cluster = agent.cluster;
      const auto row = VETTA_TRY(writer.reader().attempt(*event.attempt));
      if (row) attempt = row->id;
    }
    if (!VETTA_TRY(is_full(writer.reader(), event, attempt))) {
      VETTA_TRY(add_event(writer, std::move(event), attempt, agent.cluster));
      continue;
    }
    ++meters.taken.events_dropped;
    if (!attempt) continue;
    auto& rest = dropped[*attempt];
    if (rest.second++ == 0) rest.first = std::move(event);
  }
  for (const auto& [attempt, rest] : dropped) {
    model::Event last;
    last.time = rest.first.time;
    last.kind = model::EventKind::gap;
    last.attempt = rest.first.attempt;
    last.message =
        fmt::format("further events of this job were not kept: {} are", options.events_max);
    last.source = "vettad";
    last.dedup = fmt::format("events:{}", attempt);
    VETTA_TRY(writer.add_to_count(last, rest.second, attempt, agent.cluster));
  }
  return {};
}

Result<void> Ingest::State::apply_batch(records::Writer& writer, const model::Hello& agent,
                                        const model::Batch& batch,
                                        const std::set<std::uint64_t>& unplaced) {
  VETTA_TRY(keep_unplaced(writer, agent, batch, unplaced));
  VETTA_TRY(apply_ends(writer, agent.cluster, batch.ends));
  VETTA_TRY(apply_places(writer, batch.places));
  for (const auto& marks : batch.marks)
    if (marks.overwritten > 0) VETTA_TRY(writer.set_overwritten(marks.rank_id, marks.overwritten));
  VETTA_TRY(apply_events(writer, agent, batch.events));
  records::AgentRow row;
  row.agent_id = batch.agent_id;
  row.cluster = agent.cluster;
  row.node = agent.node;
  row.version = agent.version;
  row.last_batch = now();
  row.dropped_batches = batch.dropped_batches;
  return writer.add_batch(row, batch.sequence);
}

Result<model::Ack> Ingest::State::take_batch(const model::Hello& agent, const model::Batch& batch,
                                             bool& nudge) {
  Taken taken;
  bool is_new = true;
  std::set<std::uint64_t> unplaced, foreign;
  const auto place_all = [&](records::Writer& writer) -> Result<void> {
    is_new = VETTA_TRY(writer.is_new_batch(batch.agent_id, batch.sequence));
    for (const auto& rank : batch.ranks) {
      const auto placing = VETTA_TRY(place_rank(writer, agent.cluster, rank));
      if (placing == Placing::placed) ++taken.ranks_placed;
      if (placing == Placing::off_node) ++taken.ranks_off_node;
      if (placing != Placing::other_user) continue;
      ++taken.ranks_of_other_user;
      foreign.insert(rank.rank_id);
    }
    return {};
  };
  VETTA_TRY(write(place_all, taken));
  {
    auto reader = VETTA_TRY(records.read());
    for (const auto rank_id : ranks_of(batch))
      if (VETTA_TRY(find_rank(reader, rank_id)) == nullptr) unplaced.insert(rank_id);
  }
  // Marks always: their file knows which it has. Of a batch that comes again they may belong to a
  // rank that could not be placed the first time.
  VETTA_TRY(append_files(batch, taken));
  if (is_new) {
    VETTA_TRY(append_nodes(agent, batch, taken));
    const auto keep_rest = [&](records::Writer& writer) {
      return apply_batch(writer, agent, batch, unplaced);
    };
    VETTA_TRY(write(keep_rest, taken));
  } else {
    ++meters.batches_known;
  }
  std::set<std::uint64_t> waited;
  {
    auto reader = VETTA_TRY(records.read());
    for (const auto& rank : batch.ranks) {
      if (unplaced.contains(rank.rank_id)) continue;
      if (VETTA_TRY(reader.has_unplaced(rank.rank_id))) waited.insert(rank.rank_id);
    }
  }
  VETTA_TRY(settle_ranks(waited, taken));
  taken.ranks_unplaced = unplaced.size();
  // Nobody is asked about ranks that were refused: the answer would not change.
  nudge = !std::ranges::includes(foreign, unplaced);
  ++meters.batches;
  add(meters.taken, taken);
  return model::Ack{batch.sequence, {unplaced.begin(), unplaced.end()}};
}

Result<void> Ingest::State::settle_jobs(const std::string& cluster, Taken& taken) {
  std::vector<records::Unplaced> rows;
  {
    auto reader = VETTA_TRY(records.read());
    if (!settled.contains(cluster)) {
      for (const auto job_id : VETTA_TRY(reader.unplaced_jobs(cluster)))
        changed_jobs.insert(job_id);
    }
    for (const auto job_id : changed_jobs) {
      auto of_job = VETTA_TRY(reader.unplaced_of_job(cluster, job_id));
      rows.insert(rows.end(), std::make_move_iterator(of_job.begin()),
                  std::make_move_iterator(of_job.end()));
    }
  }
  settled.insert(cluster);
  if (rows.empty()) return {};
  std::set<std::uint64_t> found;
  const auto place_known = [&](records::Writer& writer) -> Result<void> {
    for (const auto& row : rows) {
      const auto frame = model::decode(std::string_view(row.frame).substr(4));
      const auto* batch = frame ? std::get_if<model::Batch>(&*frame) : nullptr;
      if (batch == nullptr) continue;
      for (const auto& rank : batch->ranks) {
        if (VETTA_TRY(place_rank(writer, cluster, rank)) != Placing::placed) continue;
        ++taken.ranks_placed;
        found.insert(rank.rank_id);
      }
    }
    return {};
  };
  auto done = write(place_known, taken);
  if (done) done = settle_ranks(found, taken);
  if (!done) settled.erase(cluster);  // all are looked at again
  return done;
}

Result<void> Ingest::State::settle_ranks(const std::set<std::uint64_t>& rank_ids, Taken& taken) {
  for (const auto rank_id : rank_ids) {
    std::vector<records::Unplaced> rows;
    {
      auto reader = VETTA_TRY(records.read());
      rows = VETTA_TRY(reader.unplaced_of_rank(rank_id));
    }
    for (const auto& row : rows) VETTA_TRY(settle_frame(row, taken));
  }
  return {};
}

Result<void> Ingest::State::settle_frame(const records::Unplaced& unplaced, Taken& taken) {
  {
    auto reader = VETTA_TRY(records.read());
    if (VETTA_TRY(find_rank(reader, unplaced.rank_id)) == nullptr) return {};
  }
  const auto frame = model::decode(std::string_view(unplaced.frame).substr(4));
  const auto* batch = frame ? std::get_if<model::Batch>(&*frame) : nullptr;
  if (batch != nullptr) VETTA_TRY(append_files(*batch, taken));
  return write(
      [&](records::Writer& writer) -> Result<void> {
        if (batch != nullptr) {
          VETTA_TRY(apply_ends(writer, unplaced.cluster, batch->ends));
          VETTA_TRY(apply_places(writer, batch->places));
        }
        return writer.remove_unplaced(unplaced.id);
      },
      taken);
}

}  // namespace vetta::ingest
