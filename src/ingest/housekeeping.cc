// SPDX-License-Identifier: Apache-2.0
// What is due without anybody telling: sealing, ranks that nobody reports any more, retention.
#include <algorithm>
#include <fmt/format.h>

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
  auto done = state_->seal_ended(now);
  if (done && now - state_->last_retention >= retention_every) {
    done = state_->retain(now);
    if (done) state_->last_retention = now;
  }
  if (!done) ++state_->meters.errors;
  return done;
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
  return write(
      [&](records::Writer& writer) -> Result<void> {
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const Time end = rows[i].attempt.end.value_or(rows[i].as_of);
          if (is_open[i] && now < end + options.rank_grace) continue;
          if (is_open[i]) VETTA_TRY(writer.end_ranks(rows[i].id, end));
          VETTA_TRY(files.seal(rows[i].attempt.key));
          VETTA_TRY(writer.set_sealed(rows[i].id, true));
        }
        return {};
      },
      taken);
}

Result<void> Ingest::State::retain(Time now) {
  Taken taken;
  std::vector<std::string> clusters;
  std::vector<records::Unplaced> given_up;
  {
    auto reader = VETTA_TRY(records.read());
    clusters = VETTA_TRY(reader.clusters());
    for (const auto& cluster : clusters) {
      for (auto& row : VETTA_TRY(reader.unplaced(cluster)))
        if (row.seen < now - options.keep_unplaced) given_up.push_back(std::move(row));
    }
  }
  const auto remove_old = [&](records::Writer& writer) -> Result<void> {
    for (const auto& row : given_up) {
      model::Event gap;
      gap.time = row.seen;
      gap.kind = model::EventKind::gap;
      gap.rank_id = row.rank_id;
      gap.message =
          fmt::format("a rank of job {} was given up: Slurm never showed this job", row.job_id);
      gap.source = "vettad";
      gap.dedup = fmt::format("unplaced:{:016x}", row.rank_id);
      VETTA_TRY(add_event(writer, std::move(gap), std::nullopt, row.cluster));
      VETTA_TRY(writer.remove_unplaced(row.id));
    }
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
  VETTA_TRY(write(remove_old, taken));
  VETTA_TRY(store.seal(now - series_seal_delay));
  VETTA_TRY(store.sync());
  return store.retain(now - options.keep_series);
}

}  // namespace vetta::ingest
