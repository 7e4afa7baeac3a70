// SPDX-License-Identifier: Apache-2.0
#include "query/query.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "core/text.h"

namespace vetta::query {
namespace {

using records::AttemptId;
using records::AttemptRow;

std::unexpected<Error> no_such_job(std::string_view id) {
  return fail(Code::not_found, fmt::format("no job {} is known", id),
              "look at the id (vetta job list); jobs older than the retention are gone");
}

std::string print_cursor(const std::optional<records::JobCursor>& cursor) {
  if (!cursor) return {};
  return fmt::format("{}.{}", epoch_nanoseconds(cursor->submit), cursor->id);
}

Result<std::optional<records::JobCursor>> parse_cursor(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto parts = split(text, ".");
  if (parts.size() == 2) {
    const auto submit = parse_int(parts[0]);
    const auto id = parse_int(parts[1]);
    if (submit && id) return records::JobCursor{from_epoch_nanoseconds(*submit), *id};
  }
  return fail(Code::invalid, fmt::format("'{}' is no cursor of a page", one_line(text, 60)),
              "take the cursor from the page before, as it is");
}

/// The newest chain of attempts (one job) in rows that may hold several jobs of one id.
std::vector<AttemptRow> newest_chain(std::vector<AttemptRow> rows) {
  if (rows.empty()) return rows;
  std::size_t end = 1;
  const auto& newest = rows.front().attempt.key;
  const auto is_same_job = [&](const AttemptRow& row) {
    return row.attempt.key.cluster == newest.cluster && row.attempt.key.job_id == newest.job_id;
  };
  while (end < rows.size() && is_same_job(rows[end]) && rows[end].is_superseded &&
         rows[end].number < rows[end - 1].number)
    ++end;
  rows.resize(end);
  std::ranges::reverse(rows);
  return rows;
}

Result<std::vector<AttemptRow>> rows_of(records::Reader& reader, const JobId& id) {
  if (id.array_task) return reader.array_attempts(id.cluster, id.job_id, id.array_task);
  if (id.het_offset) return reader.het_attempts(id.cluster, id.job_id, id.het_offset);
  auto rows = VETTA_TRY(reader.attempts(id.cluster, id.job_id));
  // An array whose own id no task has (yet): its newest task stands for it.
  if (rows.empty()) rows = VETTA_TRY(reader.array_attempts(id.cluster, id.job_id, std::nullopt));
  return rows;
}

model::StepTable join(std::map<std::int32_t, model::RankSteps> ranks) {
  model::StepTable table;
  for (auto& [rank, steps] : ranks) {
    std::ranges::stable_sort(steps.marks, [](const model::Mark& a, const model::Mark& b) {
      return std::pair(a.step, a.start) < std::pair(b.step, b.start);
    });
    table.ranks.push_back(std::move(steps));
  }
  return table;
}

/// The incarnation that was asked for, else the last one in which a rank has a probe.
std::uint32_t choose_incarnation(const std::vector<records::RankRow>& ranks,
                                 std::optional<std::uint32_t> wanted) {
  if (wanted) return *wanted;
  std::optional<std::uint32_t> last;
  std::uint32_t any = 0;
  for (const auto& row : ranks) {
    any = std::max(any, row.rank.incarnation);
    if (row.rank.is_probed) last = std::max(last.value_or(0), row.rank.incarnation);
  }
  return last.value_or(any);
}

}  // namespace

Query::Query(const records::Records& records, const series::AttemptFiles& files,
             const series::Store& store, Options options)
    : records_(records), files_(files), store_(store), options_(options) {}

bool Query::sees_all(const model::Viewer& viewer) const {
  return viewer.is_operator || options_.visibility == Visibility::open;
}

bool Query::may_see(const model::Viewer& viewer, const model::Attempt& attempt) const {
  if (sees_all(viewer)) return true;
  return viewer.uid && viewer.uid == attempt.uid;
}

bool Query::may_see(const model::Viewer& viewer, const model::Event& event) const {
  if (sees_all(viewer)) return true;
  // A rank that is not placed yet is somebody's, too.
  if (!event.attempt) return viewer.uid && event.rank_id == 0;
  auto reader = records_.read();
  if (!reader) return false;
  const auto row = reader->attempt(*event.attempt);
  return row && *row && may_see(viewer, (*row)->attempt);
}

Result<std::pair<records::Reader, AttemptRow>> Query::reach(const model::Viewer& viewer,
                                                            AttemptId id) const {
  auto reader = VETTA_TRY(records_.read());
  auto row = VETTA_TRY(reader.attempt(id));
  if (!row || !may_see(viewer, row->attempt)) return no_such_job(fmt::format("row {}", id));
  return std::pair(std::move(reader), std::move(*row));
}

Result<JobsAnswer> Query::jobs(const model::Viewer& viewer, const JobsRequest& request) const {
  records::JobFilter filter = request.filter;
  if (!sees_all(viewer)) {
    if (!viewer.uid) return JobsAnswer();
    filter.uid = viewer.uid;
  }
  const auto after = VETTA_TRY(parse_cursor(request.cursor));
  const std::size_t limit = std::clamp<std::size_t>(request.limit, 1, options_.page_max);
  auto reader = VETTA_TRY(records_.read());
  auto page = VETTA_TRY(reader.jobs(filter, after, limit));
  JobsAnswer answer;
  answer.jobs = std::move(page.rows);
  answer.next = print_cursor(page.next);
  if (request.with_counts) answer.counts = VETTA_TRY(reader.count_jobs(filter));
  return answer;
}

Result<AttemptRow> Query::job(const model::Viewer& viewer, const JobId& id) const {
  auto rows = VETTA_TRY(attempts(viewer, id));
  if (!id.attempt) return std::move(rows.back());
  const auto at = std::ranges::find(rows, *id.attempt, &AttemptRow::number);
  if (at != rows.end()) return std::move(*at);
  JobId whole = id;
  whole.attempt.reset();
  return fail(Code::not_found,
              fmt::format("job {} has no attempt {}: {} {} known", print(whole), *id.attempt,
                          rows.size(), rows.size() == 1 ? "is" : "are"),
              "leave the attempt away for the latest");
}

Result<AttemptRow> Query::job(const model::Viewer& viewer, AttemptId id) const {
  return std::move(VETTA_TRY(reach(viewer, id)).second);
}

Result<std::vector<AttemptRow>> Query::attempts(const model::Viewer& viewer,
                                                const JobId& id) const {
  auto reader = VETTA_TRY(records_.read());
  auto rows = VETTA_TRY(rows_of(reader, id));
  std::erase_if(rows, [&](const AttemptRow& row) { return !may_see(viewer, row.attempt); });
  if (rows.empty()) return no_such_job(print(id));
  return newest_chain(std::move(rows));
}

Result<std::vector<model::Allocation>> Query::allocations(const model::Viewer& viewer,
                                                          AttemptId id) const {
  auto [reader, row] = VETTA_TRY(reach(viewer, id));
  return reader.allocations(id);
}

Result<std::vector<model::Step>> Query::steps(const model::Viewer& viewer, AttemptId id) const {
  auto [reader, row] = VETTA_TRY(reach(viewer, id));
  return reader.steps(id);
}

Result<std::vector<records::Incarnation>> Query::incarnations(const model::Viewer& viewer,
                                                              AttemptId id) const {
  auto [reader, row] = VETTA_TRY(reach(viewer, id));
  return reader.incarnations(id);
}

Result<std::vector<records::RankRow>> Query::ranks(const model::Viewer& viewer, AttemptId id,
                                                   std::optional<std::uint32_t> incarnation) const {
  auto [reader, row] = VETTA_TRY(reach(viewer, id));
  return reader.ranks(id, incarnation);
}

Result<std::vector<series::RankMarks>> Query::last_marks(const model::AttemptKey& key,
                                                         std::uint32_t incarnation,
                                                         std::size_t last_n,
                                                         std::size_t marks_max) const {
  auto marks = files_.last_marks(key, incarnation, last_n, marks_max);
  if (marks || marks.error().code != Code::exhausted) return marks;
  return fail(
      Code::exhausted,
      fmt::format("the last {} steps of all ranks are more than {} marks", last_n, marks_max),
      "ask for fewer of them (?last=100)");
}

Result<model::StepTable> Query::step_table(const model::Viewer& viewer, AttemptId id,
                                           std::optional<std::uint32_t> incarnation,
                                           std::size_t last_n, bool is_judged) const {
  auto [reader, row] = VETTA_TRY(reach(viewer, id));
  const auto rank_rows = VETTA_TRY(reader.ranks(id));
  const auto chosen = choose_incarnation(rank_rows, incarnation);
  std::map<std::uint64_t, const records::RankRow*> by_id;
  std::int32_t world_size = -1;
  for (const auto& rank : rank_rows) {
    by_id[rank.rank.rank_id] = &rank;
    if (rank.rank.incarnation == chosen) world_size = std::max(world_size, rank.rank.world_size);
  }
  std::map<std::int32_t, model::RankSteps> ranks;
  const auto steps_of = [&](const series::RankRef& ref) -> model::RankSteps& {
    // The records know the rank's number best: it may have come after the first marks.
    const auto at = by_id.find(ref.rank_id);
    const auto* known = at == by_id.end() ? nullptr : at->second;
    const std::int32_t number = known != nullptr ? known->rank.rank : ref.rank;
    auto& steps = ranks[number];
    steps.rank = number;
    if (known != nullptr) {
      steps.node = known->rank.node;
      steps.end = known->rank.end;
    }
    return steps;
  };
  const auto& key = row.attempt.key;
  const std::size_t marks_max = is_judged ? options_.judged_max : options_.marks_max;
  if (last_n > 0) {
    for (auto& last : VETTA_TRY(last_marks(key, chosen, last_n, marks_max))) {
      auto& marks = steps_of(last.rank).marks;
      marks.insert(marks.end(), last.marks.begin(), last.marks.end());
    }
  } else {
    std::size_t count = 0;
    series::ScanFilter filter;
    filter.incarnation = chosen;
    const auto take = [&](const series::RankRef& ref, const model::Mark& mark) {
      steps_of(ref).marks.push_back(mark);
      return ++count <= marks_max;
    };
    VETTA_TRY(files_.scan_marks(key, filter, take));
    if (count > marks_max) {
      return fail(Code::exhausted,
                  fmt::format("the job has more than {} marks of steps", marks_max),
                  "ask for the last steps only (?last=100)");
    }
  }
  auto table = join(std::move(ranks));
  for (auto& rank : table.ranks) {
    if (last_n > 0 && rank.marks.size() > last_n)
      rank.marks.erase(rank.marks.begin(), rank.marks.end() - static_cast<std::ptrdiff_t>(last_n));
  }
  table.world_size = world_size;
  table.incarnation = chosen;
  return table;
}

Result<std::vector<RankSampleSeries>> Query::rank_samples(const model::Viewer& viewer, AttemptId id,
                                                          const series::ScanFilter& filter) const {
  auto [reader, row] = VETTA_TRY(reach(viewer, id));
  std::map<std::uint64_t, RankSampleSeries> by_rank;
  std::size_t count = 0;
  const auto take = [&](const series::RankRef& ref, const model::RankSample& sample) {
    auto& out = by_rank[ref.rank_id];
    out.rank = ref;
    out.samples.push_back(sample);
    return ++count <= options_.marks_max;
  };
  VETTA_TRY(files_.scan_samples(row.attempt.key, filter, take));
  if (count > options_.marks_max) {
    return fail(Code::exhausted,
                fmt::format("the job has more than {} samples in this span", options_.marks_max),
                "ask for a shorter span or for one rank");
  }
  std::vector<RankSampleSeries> out;
  for (auto& [id_of_rank, samples] : by_rank) {
    std::ranges::sort(samples.samples, {}, &model::RankSample::time);
    out.push_back(std::move(samples));
  }
  std::ranges::sort(out, {}, [](const RankSampleSeries& s) {
    return std::tuple(s.rank.incarnation, s.rank.rank, s.rank.rank_id);
  });
  return out;
}

Result<std::optional<series::AttemptFileInfo>> Query::marks_info(const model::Viewer& viewer,
                                                                 AttemptId id) const {
  auto [reader, row] = VETTA_TRY(reach(viewer, id));
  return files_.info(row.attempt.key);
}

Result<std::vector<model::Event>> Query::events(const model::Viewer& viewer,
                                                const records::EventFilter& filter) const {
  auto reader = VETTA_TRY(records_.read());
  if (sees_all(viewer)) return reader.events(filter);
  if (!viewer.uid) return std::vector<model::Event>();
  records::EventFilter seen = filter;
  seen.uid = viewer.uid;
  return reader.events(seen);
}

Result<std::vector<model::Finding>> Query::findings(const model::Viewer& viewer,
                                                    std::optional<AttemptId> id) const {
  if (id) {
    auto [reader, row] = VETTA_TRY(reach(viewer, *id));
    return reader.findings(id);
  }
  auto reader = VETTA_TRY(records_.read());
  if (sees_all(viewer)) return reader.findings(std::nullopt);
  if (!viewer.uid) return std::vector<model::Finding>();
  return reader.findings(std::nullopt, viewer.uid);
}

// The machine itself is no secret: every viewer sees its state.

Result<std::vector<std::string>> Query::clusters(const model::Viewer&) const {
  auto reader = VETTA_TRY(records_.read());
  return reader.clusters();
}

Result<std::optional<Time>> Query::snapshot_time(const model::Viewer&, std::string_view cluster,
                                                 records::Listing listing) const {
  auto reader = VETTA_TRY(records_.read());
  return reader.snapshot_time(cluster, listing);
}

Result<std::vector<records::Known<model::Node>>> Query::nodes(const model::Viewer&,
                                                              std::string_view cluster) const {
  auto reader = VETTA_TRY(records_.read());
  return reader.nodes(cluster);
}

Result<std::vector<records::Known<model::Partition>>> Query::partitions(
    const model::Viewer&, std::string_view cluster) const {
  auto reader = VETTA_TRY(records_.read());
  return reader.partitions(cluster);
}

Result<std::vector<AttemptRow>> Query::node_jobs(const model::Viewer& viewer,
                                                 std::string_view cluster, std::string_view node,
                                                 std::optional<Time> from,
                                                 std::optional<Time> to) const {
  auto reader = VETTA_TRY(records_.read());
  const bool sees_own = !sees_all(viewer);
  if (sees_own && !viewer.uid) return std::vector<AttemptRow>();
  return reader.node_attempts(cluster, node, from, to, sees_own ? viewer.uid : std::nullopt,
                              options_.page_max);
}

std::vector<series::Latest> Query::node_latest(const model::Viewer&, std::string_view cluster,
                                               std::string_view metric) const {
  return store_.latest(metric, cluster);
}

Result<std::vector<records::AgentRow>> Query::agents(const model::Viewer&) const {
  auto reader = VETTA_TRY(records_.read());
  return reader.agents();
}

}  // namespace vetta::query
