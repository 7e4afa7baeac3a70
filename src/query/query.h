// SPDX-License-Identifier: Apache-2.0
// Questions of people and programs to records and series, with the viewer's rights judged here and
// nowhere else. Every answer has a limit. Code::not_found also stands for what the viewer may not
// see, so that nothing is learned from it.
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "model/rank.h"
#include "model/viewer.h"
#include "query/job_id.h"
#include "records/records.h"
#include "series/attempt_file.h"
#include "series/store.h"

namespace vetta::query {

/// Who sees whose jobs; operators see everything.
enum class Visibility : std::uint8_t {
  open,  ///< everybody sees all jobs, as squeue shows them by default
  own,   ///< users see their own jobs
};

struct Options {
  Visibility visibility = Visibility::open;
  std::size_t page_max = 1000;
  /// Marks of one step table, samples of one answer; beyond it: Code::exhausted. A mark takes about
  /// 1 kB while its answer is written.
  std::size_t marks_max = 250'000;
  std::size_t judged_max = 5'000'000;  ///< the same for a table that is judged, not answered
};

struct JobsRequest {
  records::JobFilter filter;
  std::string cursor;       ///< of the page before; empty: the first page
  std::size_t limit = 100;  ///< at most Options::page_max
  bool with_counts = true;
};

struct JobsAnswer {
  std::vector<records::AttemptRow> jobs;  ///< newest submit first
  std::string next;                       ///< cursor of the next page; empty: no more
  records::JobCounts counts;              ///< over the whole filter
};

struct RankSampleSeries {
  series::RankRef rank;
  std::vector<model::RankSample> samples;  ///< ordered by time
};

class Query {
 public:
  /// `records`, `files` and `store` must outlive it.
  Query(const records::Records& records, const series::AttemptFiles& files,
        const series::Store& store, Options options = {});

  [[nodiscard]] Result<JobsAnswer> jobs(const model::Viewer& viewer,
                                        const JobsRequest& request) const;
  /// The attempt that an id means: the latest unless the id names one.
  [[nodiscard]] Result<records::AttemptRow> job(const model::Viewer& viewer, const JobId& id) const;
  [[nodiscard]] Result<records::AttemptRow> job(const model::Viewer& viewer,
                                                records::AttemptId id) const;
  /// All attempts of the job that an id means, oldest first; the id's attempt number is ignored.
  [[nodiscard]] Result<std::vector<records::AttemptRow>> attempts(const model::Viewer& viewer,
                                                                  const JobId& id) const;
  [[nodiscard]] Result<std::vector<model::Allocation>> allocations(const model::Viewer& viewer,
                                                                   records::AttemptId id) const;
  [[nodiscard]] Result<std::vector<model::Step>> steps(const model::Viewer& viewer,
                                                       records::AttemptId id) const;
  [[nodiscard]] Result<std::vector<records::Incarnation>> incarnations(const model::Viewer& viewer,
                                                                       records::AttemptId id) const;
  [[nodiscard]] Result<std::vector<records::RankRow>> ranks(
      const model::Viewer& viewer, records::AttemptId id,
      std::optional<std::uint32_t> incarnation = {}) const;
  /// Marks of one incarnation (the last one that has probed ranks, if none is named), rank by rank;
  /// the last `last_n` of each rank, or all for 0. Several registrations under one rank number in
  /// one incarnation are joined, ordered by step. `is_judged`: for the larger limit.
  [[nodiscard]] Result<model::StepTable> step_table(const model::Viewer& viewer,
                                                    records::AttemptId id,
                                                    std::optional<std::uint32_t> incarnation = {},
                                                    std::size_t last_n = 0,
                                                    bool is_judged = false) const;
  [[nodiscard]] Result<std::vector<RankSampleSeries>> rank_samples(
      const model::Viewer& viewer, records::AttemptId id, const series::ScanFilter& filter) const;
  /// Bytes, marks and what the cap refused; empty if no mark ever came.
  [[nodiscard]] Result<std::optional<series::AttemptFileInfo>> marks_info(
      const model::Viewer& viewer, records::AttemptId id) const;

  [[nodiscard]] Result<std::vector<model::Event>> events(const model::Viewer& viewer,
                                                         const records::EventFilter& filter) const;
  /// Whether this viewer may see this event: for EventHub subscribers.
  [[nodiscard]] bool may_see(const model::Viewer& viewer, const model::Event& event) const;
  [[nodiscard]] Result<std::vector<model::Finding>> findings(
      const model::Viewer& viewer, std::optional<records::AttemptId> id) const;

  [[nodiscard]] Result<std::vector<std::string>> clusters(const model::Viewer& viewer) const;
  [[nodiscard]] Result<std::optional<Time>> snapshot_time(const model::Viewer& viewer,
                                                          std::string_view cluster,
                                                          records::Listing listing) const;
  [[nodiscard]] Result<std::vector<records::Known<model::Node>>> nodes(
      const model::Viewer& viewer, std::string_view cluster) const;
  [[nodiscard]] Result<std::vector<records::Known<model::Partition>>> partitions(
      const model::Viewer& viewer, std::string_view cluster) const;
  /// Jobs that held a node within the window, newest first.
  [[nodiscard]] Result<std::vector<records::AttemptRow>> node_jobs(
      const model::Viewer& viewer, std::string_view cluster, std::string_view node,
      std::optional<Time> from = {}, std::optional<Time> to = {}) const;
  /// The newest value of a node metric (named as the NodeSample field) per node.
  [[nodiscard]] std::vector<series::Latest> node_latest(const model::Viewer& viewer,
                                                        std::string_view cluster,
                                                        std::string_view metric) const;
  [[nodiscard]] Result<std::vector<records::AgentRow>> agents(const model::Viewer& viewer) const;

 private:
  [[nodiscard]] bool sees_all(const model::Viewer& viewer) const;
  [[nodiscard]] bool may_see(const model::Viewer& viewer, const model::Attempt& attempt) const;
  [[nodiscard]] Result<std::pair<records::Reader, records::AttemptRow>> reach(
      const model::Viewer& viewer, records::AttemptId id) const;

  [[nodiscard]] Result<std::vector<series::RankMarks>> last_marks(const model::AttemptKey& key,
                                                                  std::uint32_t incarnation,
                                                                  std::size_t last_n,
                                                                  std::size_t marks_max) const;

  const records::Records& records_;
  const series::AttemptFiles& files_;
  const series::Store& store_;
  Options options_;
};

}  // namespace vetta::query
