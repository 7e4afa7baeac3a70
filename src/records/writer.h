// SPDX-License-Identifier: Apache-2.0
// Changes to the records, all of them idempotent: telling the same thing twice, or two things in
// another order, leaves the same rows.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "records/types.h"

namespace vetta::records {

class Database;
class Reader;

/// What an upsert of an attempt did.
struct Upsert {
  AttemptId id = 0;
  bool is_new = false;
  bool is_known_view = false;                  ///< this source has said exactly this before
  bool is_changed = false;                     ///< also true when new
  std::optional<model::Attempt> before;        ///< when changed and not new
  model::Attempt after;                        ///< when changed
  ViewSource source = ViewSource::controller;  ///< who told the state of `after`
  /// Earlier attempts of the same job that are over because this one is there; with their ends.
  std::vector<std::pair<AttemptId, Time>> superseded;
};

struct NodeChange {
  std::optional<model::Node> before;
  model::Node after;
};

class Writer {
 public:
  Writer(Database& database, Reader& reader) : database_(database), reader_(reader) {}

  // Attempts
  /// Merges one view into the attempt (records/merge.h says how). A final state is never
  /// overwritten by an older view or a less trusted source.
  /// `is_stale`: a newer snapshot of the controller is kept already.
  [[nodiscard]] Result<Upsert> upsert(const model::Attempt& attempt, ViewSource source, Time as_of,
                                      bool is_stale = false);
  /// The allocations that the attempt holds at `as_of`: new ones begin, those not named any more
  /// end at `as_of`.
  [[nodiscard]] Result<void> set_allocations(AttemptId id,
                                             std::span<const model::Allocation> allocations,
                                             Time as_of);
  /// Adds or completes allocations without ending others (accounting).
  [[nodiscard]] Result<void> add_allocations(AttemptId id,
                                             std::span<const model::Allocation> allocations);
  /// Ends the attempt's open allocations (and cuts those that end later).
  [[nodiscard]] Result<void> close_allocations(AttemptId id, Time end);
  [[nodiscard]] Result<void> upsert_steps(AttemptId id, std::span<const model::Step> steps);
  /// Why the end is not known, and since when; no reason: it is not missing.
  [[nodiscard]] Result<void> set_gap(AttemptId id, std::string_view reason, Time at);
  [[nodiscard]] Result<void> set_sealed(AttemptId id, bool is_sealed);

  // Ranks
  /// The number of incarnation (step, elastic restart), given at first sight.
  [[nodiscard]] Result<std::uint32_t> incarnation(AttemptId id, std::string_view step_id,
                                                  std::uint32_t elastic_restart, Time start);
  /// New, or completed by what is known now; the incarnation of a known rank does not change.
  [[nodiscard]] Result<void> upsert_rank(AttemptId id, const model::Rank& rank);
  /// True if the end was not known before. A known exit is never overwritten by an unknown one.
  [[nodiscard]] Result<bool> end_rank(std::uint64_t rank_id, Time end, std::optional<int> exit_code,
                                      std::optional<int> exit_signal);
  /// Ends all ranks of an attempt that are still open; their exits stay unknown.
  [[nodiscard]] Result<void> end_ranks(AttemptId id, Time end);
  /// Where the rank is; an older place never replaces a newer one.
  [[nodiscard]] Result<void> set_now(std::uint64_t rank_id, const model::RankNow& now);
  [[nodiscard]] Result<void> set_overwritten(std::uint64_t rank_id, std::uint64_t marks);

  // Events and findings
  /// The new event's id, or nothing if its `dedup` is known already.
  [[nodiscard]] Result<std::optional<std::uint64_t>> add(const model::Event& event,
                                                         std::optional<AttemptId> attempt,
                                                         std::string_view cluster);
  /// The event of this `dedup` begins with how many it stands for, "N message"; that grows by
  /// `more`.
  [[nodiscard]] Result<void> add_to_count(const model::Event& event, std::uint64_t more,
                                          std::optional<AttemptId> attempt,
                                          std::string_view cluster);
  /// Ties events of this rank that came before its job was known to the attempt.
  [[nodiscard]] Result<void> adopt_events(std::uint64_t rank_id, AttemptId id);
  [[nodiscard]] Result<std::uint64_t> add(const model::Finding& finding,
                                          std::optional<AttemptId> attempt);

  // Slurm as last seen
  /// Replaces the cluster's nodes; returns those whose states, reason or existence changed.
  [[nodiscard]] Result<std::vector<NodeChange>> set_nodes(std::string_view cluster,
                                                          std::span<const model::Node> nodes,
                                                          Time as_of);
  [[nodiscard]] Result<void> set_partitions(std::string_view cluster,
                                            std::span<const model::Partition> partitions,
                                            Time as_of);
  /// The listing was told as of then. Time does not go back.
  [[nodiscard]] Result<void> set_snapshot_time(std::string_view cluster, Listing listing,
                                               Time as_of);
  [[nodiscard]] Result<void> set_cursor(std::string_view name, std::int64_t value);

  // Agents
  /// False if this batch is known already. Batches may come in any order.
  [[nodiscard]] Result<bool> is_new_batch(std::uint64_t agent_id, std::uint64_t sequence);
  [[nodiscard]] Result<void> add_batch(const AgentRow& agent, std::uint64_t sequence);
  /// A registration takes the place of the rank's earlier one, whose `seen` stays. Of the other
  /// rows the rank keeps the newest `rest_max`. Returns by how many rows there are more now.
  [[nodiscard]] Result<std::int64_t> add_unplaced(const Unplaced& what, std::size_t rest_max);
  [[nodiscard]] Result<void> remove_unplaced(std::int64_t id);

  /// Deletes at most `limit` attempts that ended before `before`, with all that belongs to them.
  /// One whose end nobody told counts from when it was last spoken of, or missed.
  /// `remove_files` is called for each before the deletion is kept; its error stops the slice.
  /// Returns how many were deleted.
  [[nodiscard]] Result<std::size_t> remove_ended_before(
      Time before, std::size_t limit,
      const std::function<Result<void>(const model::AttemptKey&)>& remove_files);
  /// Deletes events that belong to no attempt, and findings likewise, older than `before`.
  [[nodiscard]] Result<std::size_t> remove_loose_before(Time before, std::size_t limit);

  /// The same questions as a Reader's, within this transaction.
  [[nodiscard]] Reader& reader() { return reader_; }

 private:
  [[nodiscard]] Result<void> update_chain(const model::AttemptKey& key, Upsert& upsert);

  Database& database_;
  Reader& reader_;
};

}  // namespace vetta::records
