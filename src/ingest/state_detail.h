// SPDX-License-Identifier: Apache-2.0
// What Ingest holds, and the parts its takes share.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "ingest/ingest.h"
#include "ingest/place_detail.h"

namespace vetta::ingest {

/// Where a placed rank's marks go.
struct PlacedRank {
  records::AttemptId attempt = 0;
  model::AttemptKey key;
  series::RankRef ref;
};

/// Attempts of one cluster by job id and submit time.
using AttemptIds = std::map<std::pair<std::uint64_t, Time>, records::AttemptId>;

void add(Taken& to, const Taken& what);

struct Ingest::State {
  State(records::Records& r, series::AttemptFiles& f, series::Store& s, Hooks h, Options o)
      : records(r), files(f), store(s), hooks(std::move(h)), options(o) {}

  records::Records& records;
  series::AttemptFiles& files;
  series::Store& store;
  Hooks hooks;
  Options options;

  mutable std::mutex mutex;  ///< of everything below, and of the order of all takes
  Meters meters;
  /// A cache of ranks known to be placed; dropped as a whole when it grows too large.
  std::unordered_map<std::uint64_t, PlacedRank> placed;
  /// Hash of the allocations last kept, so that unchanged ones cost nothing.
  std::unordered_map<records::AttemptId, std::size_t> allocations_kept;
  std::set<std::uint64_t> changed_jobs;  ///< by the take under way: ranks may wait for them
  std::set<std::string> settled;         ///< clusters all of whose waiting ranks were looked at
  std::map<std::string, std::uint64_t> unplaced_rows;                  ///< at most, by cluster
  std::unordered_map<records::AttemptId, std::uint64_t> event_counts;  ///< a cache
  bool is_full_told = false;             ///< that `store` takes no new series
  std::vector<model::Event> new_events;  ///< of the write under way
  Time last_retention;

  mutable std::mutex unkept_mutex;  ///< of this alone
  std::optional<Error> unkept;      ///< of the newest snapshot

  /// Runs one transaction; its events go out when it is kept. Caches are dropped if it is not.
  [[nodiscard]] Result<void> write(const std::function<Result<void>(records::Writer&)>& change,
                                   Taken& taken);

  [[nodiscard]] Result<void> add_event(records::Writer& writer, model::Event event,
                                       std::optional<records::AttemptId> attempt,
                                       const std::string& cluster);
  /// What follows from a changed attempt: events, closed allocations.
  [[nodiscard]] Result<void> follow(records::Writer& writer, const records::Upsert& upsert,
                                    Taken& taken);

  [[nodiscard]] Result<const PlacedRank*> find_rank(records::Reader& reader, std::uint64_t rank_id);
  /// Registers a rank if its job is known and takes it.
  [[nodiscard]] Result<Placing> place_rank(records::Writer& writer, const std::string& cluster,
                                           const model::Rank& rank);
  /// Takes up what was kept for ranks of the changed jobs; the first time, of all jobs.
  [[nodiscard]] Result<void> settle_jobs(const std::string& cluster, Taken& taken);
  /// Takes up what was kept for these ranks, which are placed now.
  [[nodiscard]] Result<void> settle_ranks(const std::set<std::uint64_t>& rank_ids, Taken& taken);
  [[nodiscard]] Result<void> settle_frame(const records::Unplaced& unplaced, Taken& taken);

  /// Ends, samples and events of one batch that are kept in records, for ranks that are placed.
  [[nodiscard]] Result<void> apply_ends(records::Writer& writer, const std::string& cluster,
                                        std::span<const model::RankEnd> ends);
  [[nodiscard]] Result<void> apply_events(records::Writer& writer, const model::Hello& agent,
                                          std::span<const model::Event> events);
  /// Whether an agent's event finds no room any more.
  [[nodiscard]] Result<bool> is_full(records::Reader& reader, const model::Event& event,
                                     std::optional<records::AttemptId> attempt);
  [[nodiscard]] Result<void> apply_places(records::Writer& writer,
                                          std::span<const model::RankPlace> places);
  [[nodiscard]] Result<void> append_files(const model::Batch& batch, Taken& taken);
  /// An attempt's file was none of marks: a gap of the attempt.
  [[nodiscard]] Result<void> note_set_aside(const model::AttemptKey& key,
                                            records::AttemptId attempt, const std::string& path,
                                            Taken& taken);
  [[nodiscard]] Result<void> append_nodes(const model::Hello& agent, const model::Batch& batch,
                                          Taken& taken);
  [[nodiscard]] Result<void> keep_unplaced(records::Writer& writer, const model::Hello& agent,
                                           const model::Batch& batch,
                                           const std::set<std::uint64_t>& unplaced);
  [[nodiscard]] Result<void> apply_batch(records::Writer& writer, const model::Hello& agent,
                                         const model::Batch& batch,
                                         const std::set<std::uint64_t>& unplaced);

  /// Parts of a snapshot; a stale one is older than what is kept already.
  [[nodiscard]] Result<void> keep_nodes(records::Writer& writer, const slurm::Snapshot& snapshot);
  [[nodiscard]] Result<AttemptIds> keep_jobs(records::Writer& writer,
                                             const slurm::Snapshot& snapshot, bool is_stale,
                                             Taken& taken);
  [[nodiscard]] Result<void> keep_allocations(records::Writer& writer,
                                              const slurm::Snapshot& snapshot, bool is_stale,
                                              const AttemptIds& ids);
  [[nodiscard]] Result<Taken> take_snapshot(const slurm::Snapshot& snapshot);
  [[nodiscard]] Result<Taken> take_accounting(const slurm::Accounting& accounting);
  [[nodiscard]] Result<model::Ack> take_batch(const model::Hello& agent, const model::Batch& batch,
                                              bool& nudge);
  [[nodiscard]] Result<void> seal_ended(Time now);
  [[nodiscard]] Result<void> note_unsealed(records::Writer& writer, const records::AttemptRow& row,
                                           Time now, const Error& error);
  [[nodiscard]] Result<void> remove_old(Time now);
  [[nodiscard]] Result<void> give_up_unplaced(Time now);
};

}  // namespace vetta::ingest
