// SPDX-License-Identifier: Apache-2.0
// Questions to the records. Every list has a limit. Rights are not judged here but in `query`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "records/types.h"

namespace vetta::records {

class Database;

/// A leased connection with a snapshot of its own; goes back to the pool at its end.
class Reader {
 public:
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  // Jobs
  [[nodiscard]] Result<JobPage> jobs(const JobFilter& filter, const std::optional<JobCursor>& after,
                                     std::size_t limit);
  /// Counts at most `rows_max` matching rows.
  [[nodiscard]] Result<JobCounts> count_jobs(const JobFilter& filter,
                                             std::uint64_t rows_max = 100'000);
  [[nodiscard]] Result<std::optional<AttemptRow>> attempt(AttemptId id);
  [[nodiscard]] Result<std::optional<AttemptRow>> attempt(const model::AttemptKey& key);
  /// All attempts under one raw job id, newest submit first, also those of an older job whose id
  /// came round again. An empty cluster means any.
  [[nodiscard]] Result<std::vector<AttemptRow>> attempts(std::string_view cluster,
                                                         std::uint64_t job_id,
                                                         std::size_t limit = 1000);
  /// Attempts of an array or a heterogeneous job, by its own id (and task or offset), newest first.
  [[nodiscard]] Result<std::vector<AttemptRow>> array_attempts(std::string_view cluster,
                                                               std::uint64_t array_job_id,
                                                               std::optional<std::uint32_t> task,
                                                               std::size_t limit = 1000);
  [[nodiscard]] Result<std::vector<AttemptRow>> het_attempts(std::string_view cluster,
                                                             std::uint64_t het_job_id,
                                                             std::optional<std::uint32_t> offset,
                                                             std::size_t limit = 1000);
  [[nodiscard]] Result<std::vector<model::Allocation>> allocations(AttemptId id);
  /// Whether the attempt holds or held this node at some time of [from, to] (at all, without them);
  /// nothing if none of its allocations is known.
  [[nodiscard]] Result<std::optional<bool>> held(AttemptId id, std::string_view node,
                                                 std::optional<Time> from = {},
                                                 std::optional<Time> to = {});
  [[nodiscard]] Result<std::vector<model::Step>> steps(AttemptId id);

  // Ranks
  [[nodiscard]] Result<std::vector<Incarnation>> incarnations(AttemptId id);
  /// Ordered by incarnation and rank; all incarnations if none is named.
  [[nodiscard]] Result<std::vector<RankRow>> ranks(AttemptId id,
                                                   std::optional<std::uint32_t> incarnation = {},
                                                   std::size_t limit = 100'000);
  [[nodiscard]] Result<std::optional<RankRow>> rank(std::uint64_t rank_id);

  // Events and findings
  [[nodiscard]] Result<std::vector<model::Event>> events(const EventFilter& filter);
  [[nodiscard]] Result<std::uint64_t> last_event_id();
  /// Counts at most `rows_max`: of an attempt, of a rank that belongs to none yet.
  [[nodiscard]] Result<std::uint64_t> count_events_of(AttemptId id, std::uint64_t rows_max);
  [[nodiscard]] Result<std::uint64_t> count_events(std::uint64_t rank_id, std::uint64_t rows_max);
  /// Newest first; of one attempt, of one user's jobs, or all.
  [[nodiscard]] Result<std::vector<model::Finding>> findings(std::optional<AttemptId> attempt,
                                                             std::optional<std::uint32_t> uid = {},
                                                             std::size_t limit = 1000);

  // Slurm as last seen
  [[nodiscard]] Result<std::vector<std::string>> clusters();
  /// When Slurm last answered with a snapshot of this cluster.
  /// When Slurm last told the listing; empty: not yet.
  [[nodiscard]] Result<std::optional<Time>> snapshot_time(std::string_view cluster,
                                                          Listing listing);
  [[nodiscard]] Result<std::vector<Known<model::Node>>> nodes(std::string_view cluster);
  [[nodiscard]] Result<std::vector<Known<model::Partition>>> partitions(std::string_view cluster);
  /// Attempts that hold or held this node, newest first; of one user, or all.
  [[nodiscard]] Result<std::vector<AttemptRow>> node_attempts(
      std::string_view cluster, std::string_view node, std::optional<Time> from,
      std::optional<Time> to, std::optional<std::uint32_t> uid = {}, std::size_t limit = 1000);
  [[nodiscard]] Result<std::optional<std::int64_t>> cursor(std::string_view name);
  [[nodiscard]] Result<std::vector<AgentRow>> agents();

  // For ingest
  /// Attempts not known to have ended.
  [[nodiscard]] Result<std::vector<OpenAttempt>> open_attempts(std::string_view cluster);
  [[nodiscard]] Result<std::vector<AttemptRow>> unsealed_ended_before(Time end, std::size_t limit);
  [[nodiscard]] Result<std::vector<Unplaced>> unplaced(std::string_view cluster,
                                                       std::size_t limit = 100'000);
  /// Registrations of one job's ranks; everything of one rank, its registration last; what has
  /// waited since before `seen`.
  [[nodiscard]] Result<std::vector<Unplaced>> unplaced_of_job(std::string_view cluster,
                                                              std::uint64_t job_id,
                                                              std::size_t limit = 100'000);
  [[nodiscard]] Result<std::vector<Unplaced>> unplaced_of_rank(std::uint64_t rank_id,
                                                               std::size_t limit = 1000);
  [[nodiscard]] Result<std::vector<Unplaced>> unplaced_before(Time seen, std::size_t limit);
  /// Jobs that ranks wait for.
  [[nodiscard]] Result<std::vector<std::uint64_t>> unplaced_jobs(std::string_view cluster,
                                                                 std::size_t limit = 100'000);
  /// Counts at most `rows_max`.
  [[nodiscard]] Result<std::uint64_t> count_unplaced(std::string_view cluster,
                                                     std::uint64_t rows_max);
  [[nodiscard]] Result<bool> has_unplaced(std::uint64_t rank_id);

 private:
  friend class Records;
  friend class Writer;
  struct Lease;
  explicit Reader(std::unique_ptr<Lease> lease);
  std::unique_ptr<Lease> lease_;
};

}  // namespace vetta::records
