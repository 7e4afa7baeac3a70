// SPDX-License-Identifier: Apache-2.0
// What is due without anybody telling: sealing, ranks that nobody reports any more, retention.
#include <algorithm>
#include <fmt/format.h>

#include "core/log.h"
#include "core/text.h"
#include "ingest/state_detail.h"

namespace vetta::ingest {
namespace {

constexpr std::size_t seal_slice = 200;
constexpr Duration retention_every = std::chrono::minutes(1);
constexpr Duration series_seal_delay = std::chrono::minutes(10);
constexpr std::size_t loose_slice = 5000;

bool has_open_ranks(const std::vector<records::Incarnation>& incarnations) {
  return std::ranges::any_of(incarnations, [](const auto& i) { return i.ranks > 0 && !i.end; });
}

}  // namespace

Result<void> Ingest::tick(Time now) {
  const std::lock_guard guard(state_->mutex);
  Result<void> first;
  const auto note = [&](Result<void> done) {
    if (first && !done) first = std::move(done);
  };
  // What gives room comes first, and nothing that fails stops what comes after it.
  if (now - state_->last_retention >= retention_every) {
    state_->last_retention = now;
    note(state_->store.retain(now - state_->options.keep_series));
    note(state_->remove_old(now));
    note(state_->give_up_unplaced(now));
    note(state_->store.seal(now - series_seal_delay));
    note(state_->store.sync());
  }
  note(state_->seal_ended(now));
  if (!first) ++state_->meters.errors;
  return first;
}

Result<void> Ingest::State::seal_ended(Time now) {
  std::vector<records::AttemptRow> rows;
  std::vector<bool> is_open;
  {
    auto reader = VETTA_TRY(records.read());
    rows = VETTA_TRY(reader.unsealed_ended_before(now - options.seal_grace, seal_slice));
    for (const auto& row : rows)
      is_open.push_back(has_open_ranks(VETTA_TRY(reader.incarnations(row.id))));
  }
  if (rows.empty()) return {};
  Taken taken;
  Result<void> full;
  const auto seal_all = [&](records::Writer& writer) -> Result<void> {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Time end = rows[i].attempt.end.value_or(rows[i].as_of);
      if (is_open[i] && now < end + options.rank_grace) continue;
      if (is_open[i]) VETTA_TRY(writer.end_ranks(rows[i].id, end));
      auto sealed = files.seal(rows[i].attempt.key);
      if (!sealed && sealed.error().code == Code::exhausted) {
        full = std::move(sealed);  // there may be room later
        return {};
      }
      if (!sealed) VETTA_TRY(note_unsealed(writer, rows[i], now, sealed.error()));
      VETTA_TRY(writer.set_sealed(rows[i].id, true));
    }
    return {};
  };
  VETTA_TRY(write(seal_all, taken));
  return full;
}

/// A file that cannot be closed well is told once and left as it is.
Result<void> Ingest::State::note_unsealed(records::Writer& writer, const records::AttemptRow& row,
                                          Time now, const Error& error) {
  const auto& key = row.attempt.key;
  log::error("seal_marks", error.text(), {{"job", std::to_string(key.job_id)}});
  model::Event gap;
  gap.time = now;
  gap.kind = model::EventKind::gap;
  gap.attempt = key;
  gap.message = "the job's file of marks cannot be read in full: " + one_line(error.message);
  gap.source = "vettad";
  gap.dedup = fmt::format("seal:{}:{}:{}", key.cluster, key.job_id, epoch_nanoseconds(key.submit));
  return add_event(writer, std::move(gap), row.id, key.cluster);
}

Result<void> Ingest::State::remove_old(Time now) {
  Taken taken;
  const auto remove = [&](records::Writer& writer) -> Result<void> {
    const auto removed = VETTA_TRY(writer.remove_ended_before(
        now - options.keep, options.retention_slice,
        [&](const model::AttemptKey& key) { return files.remove(key); }));
    if (removed > 0) {
      placed.clear();
      allocations_kept.clear();
    }
    VETTA_TRY(writer.remove_loose_before(now - options.keep, loose_slice));
    return {};
  };
  return write(remove, taken);
}

Result<void> Ingest::State::give_up_unplaced(Time now) {
  Taken taken;
  std::vector<records::Unplaced> given_up;
  {
    auto reader = VETTA_TRY(records.read());
    given_up = VETTA_TRY(reader.unplaced_before(now - options.keep_unplaced, loose_slice));
  }
  if (given_up.empty()) return {};
  const auto give_up = [&](records::Writer& writer) -> Result<void> {
    for (const auto& row : given_up) {
      model::Event gap;
      gap.time = row.seen;
      gap.kind = model::EventKind::gap;
      gap.rank_id = row.rank_id;
      gap.message = fmt::format(
          "a rank of job {} was given up: Slurm never showed this job as one of "
          "its user on its node",
          row.job_id);
      gap.source = "vettad";
      gap.dedup = fmt::format("unplaced:{:016x}", row.rank_id);
      VETTA_TRY(add_event(writer, std::move(gap), std::nullopt, row.cluster));
      VETTA_TRY(writer.remove_unplaced(row.id));
    }
    return {};
  };
  return write(give_up, taken);
}

}  // namespace vetta::ingest
