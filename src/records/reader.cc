// SPDX-License-Identifier: Apache-2.0
#include "records/reader.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/text.h"
#include "records/attempt_columns_detail.h"
#include "records/codec_detail.h"
#include "records/event_columns_detail.h"
#include "records/filter_detail.h"
#include "records/lease_detail.h"
#include "records/rank_columns_detail.h"
#include "records/schema_detail.h"

namespace vetta::records {
namespace {

std::string select_attempts(std::string_view rest) {
  return fmt::format("SELECT id,{} FROM attempts {}", attempt_column_names(), rest);
}

Result<std::vector<AttemptRow>> read_attempts(Statement& statement) {
  std::vector<AttemptRow> rows;
  while (VETTA_TRY(statement.step())) rows.push_back(read_attempt_row(statement));
  return rows;
}

Result<std::optional<AttemptRow>> read_one_attempt(Statement& statement) {
  if (!VETTA_TRY(statement.step())) return std::nullopt;
  return read_attempt_row(statement);
}

std::int64_t row_limit(std::size_t limit, std::size_t most) {
  return static_cast<std::int64_t>(std::min(limit, most));
}

}  // namespace

Reader::Reader(std::unique_ptr<Lease> lease) : lease_(std::move(lease)) {}

Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

Reader::~Reader() {
  if (!lease_ || !lease_->pool) return;
  if (lease_->database->in_transaction()) static_cast<void>(lease_->database->execute("ROLLBACK"));
  lease_->pool->give_back(std::move(lease_->owned));
}

Result<JobPage> Reader::jobs(const JobFilter& filter, const std::optional<JobCursor>& after,
                             std::size_t limit) {
  VETTA_TRY(check(filter));
  const Conditions conditions(filter, after);
  auto statement = VETTA_TRY(lease_->database->prepare(conditions.page()));
  conditions.bind(statement);
  statement.bind(row_limit(limit, 10'000) + 1);
  JobPage page;
  page.rows = VETTA_TRY(read_attempts(statement));
  if (page.rows.size() > std::min<std::size_t>(limit, 10'000)) {
    page.rows.pop_back();
    if (!page.rows.empty())
      page.next = JobCursor{page.rows.back().attempt.key.submit, page.rows.back().id};
  }
  return page;
}

Result<JobCounts> Reader::count_jobs(const JobFilter& filter, std::uint64_t rows_max) {
  VETTA_TRY(check(filter));
  const Conditions conditions(filter, std::nullopt);
  auto statement = VETTA_TRY(lease_->database->prepare(conditions.counts()));
  conditions.bind(statement);
  statement.bind(rows_max);
  JobCounts counts;
  while (VETTA_TRY(statement.step())) {
    const auto state = model::parse_job_state(statement.text());
    const auto jobs = statement.unsigned_integer();
    counts.states.push_back({state, jobs});
    counts.total += jobs;
  }
  counts.is_capped = counts.total >= rows_max;
  return counts;
}

Result<std::optional<AttemptRow>> Reader::attempt(AttemptId id) {
  static const std::string sql = select_attempts("WHERE id=?");
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(id);
  return read_one_attempt(statement);
}

Result<std::optional<AttemptRow>> Reader::attempt(const model::AttemptKey& key) {
  static const std::string sql = select_attempts("WHERE cluster=? AND job_id=? AND submit=?");
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(key.cluster).bind(key.job_id).bind(key.submit);
  return read_one_attempt(statement);
}

Result<std::vector<AttemptRow>> Reader::attempts(std::string_view cluster, std::uint64_t job_id,
                                                 std::size_t limit) {
  // Without a cluster: each of the few clusters through the one index.
  static const std::string sql = select_attempts(
      "WHERE cluster IN (SELECT name FROM clusters WHERE ?1='' OR name=?1 UNION SELECT ?1) "
      "AND job_id=?2 ORDER BY submit DESC, id DESC LIMIT ?3");
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(cluster).bind(job_id).bind(row_limit(limit, 10'000));
  return read_attempts(statement);
}

Result<std::vector<AttemptRow>> Reader::array_attempts(std::string_view cluster,
                                                       std::uint64_t array_job_id,
                                                       std::optional<std::uint32_t> task,
                                                       std::size_t limit) {
  static const std::string sql = select_attempts(
      "WHERE array_job_id=?2 AND (?3 IS NULL OR array_task_id=?3) AND (?1='' OR cluster=?1) "
      "ORDER BY submit DESC, id DESC LIMIT ?4");
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(cluster).bind(array_job_id).bind(task).bind(row_limit(limit, 100'000));
  return read_attempts(statement);
}

Result<std::vector<AttemptRow>> Reader::het_attempts(std::string_view cluster,
                                                     std::uint64_t het_job_id,
                                                     std::optional<std::uint32_t> offset,
                                                     std::size_t limit) {
  static const std::string sql = select_attempts(
      "WHERE het_job_id=?2 AND (?3 IS NULL OR het_offset=?3) AND (?1='' OR cluster=?1) "
      "ORDER BY submit DESC, id DESC LIMIT ?4");
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(cluster).bind(het_job_id).bind(offset).bind(row_limit(limit, 10'000));
  return read_attempts(statement);
}

Result<std::vector<model::Allocation>> Reader::allocations(AttemptId id) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT node,start,\"end\",cpus,memory_bytes,cpu_ids,devices FROM allocations "
      "WHERE attempt=? ORDER BY start,node LIMIT 200000"));
  statement.bind(id);
  std::vector<model::Allocation> out;
  while (VETTA_TRY(statement.step())) {
    auto& a = out.emplace_back();
    statement.read(a.node);
    statement.read(a.span.start);
    statement.read(a.span.end);
    statement.read(a.cpus);
    statement.read(a.memory_bytes);
    statement.read(a.cpu_ids);
    const std::string devices = statement.text();
    if (devices.empty()) continue;
    for (const auto device : split(devices, "\n")) a.devices.emplace_back(device);
  }
  return out;
}

Result<std::optional<bool>> Reader::held(AttemptId id, std::string_view node,
                                         std::optional<Time> from, std::optional<Time> to) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT EXISTS(SELECT 1 FROM allocations WHERE attempt=?1 AND node=?2 "
      "AND (?4 IS NULL OR start<=?4) AND (?3 IS NULL OR \"end\" IS NULL OR \"end\">=?3)),"
      "EXISTS(SELECT 1 FROM allocations WHERE attempt=?1)"));
  statement.bind(id).bind(node).bind(from).bind(to);
  if (!VETTA_TRY(statement.step())) return std::nullopt;
  const bool is_held = statement.integer() != 0;
  if (statement.integer() == 0) return std::nullopt;
  return is_held;
}

Result<std::vector<model::Step>> Reader::steps(AttemptId id) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT step_id,name,state,start,\"end\",exit_code,exit_signal,nodes,tasks,max_rss_bytes,"
      "cpu_time FROM steps WHERE attempt=? ORDER BY start,step_id LIMIT 100000"));
  statement.bind(id);
  std::vector<model::Step> out;
  while (VETTA_TRY(statement.step())) {
    auto& s = out.emplace_back();
    statement.read(s.step_id);
    statement.read(s.name);
    s.state = model::parse_job_state(statement.text());
    statement.read(s.start);
    statement.read(s.end);
    statement.read(s.exit_code);
    statement.read(s.exit_signal);
    statement.read(s.nodes);
    statement.read(s.tasks);
    statement.read(s.max_rss_bytes);
    statement.read(s.cpu_time);
  }
  return out;
}

Result<std::vector<Incarnation>> Reader::incarnations(AttemptId id) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT i.number,i.step_id,i.elastic_restart,i.start,count(r.rank_id),max(r.world_size),"
      "sum(r.rank_id IS NOT NULL AND r.\"end\" IS NULL),max(r.\"end\") "
      "FROM incarnations i LEFT JOIN ranks r ON r.attempt=i.attempt AND r.incarnation=i.number "
      "WHERE i.attempt=? GROUP BY i.number ORDER BY i.number LIMIT 100000"));
  statement.bind(id);
  std::vector<Incarnation> out;
  while (VETTA_TRY(statement.step())) {
    auto& i = out.emplace_back();
    statement.read(i.number);
    statement.read(i.step_id);
    statement.read(i.elastic_restart);
    statement.read(i.start);
    statement.read(i.ranks);
    std::optional<std::int32_t> world_size;
    statement.read(world_size);
    i.world_size = world_size.value_or(-1);
    const bool is_open = statement.integer() > 0;
    statement.read(i.end);
    if (is_open) i.end.reset();
  }
  return out;
}

Result<std::vector<RankRow>> Reader::ranks(AttemptId id, std::optional<std::uint32_t> incarnation,
                                           std::size_t limit) {
  static const std::string sql = fmt::format(
      "SELECT {} FROM ranks WHERE attempt=?1 AND (?2 IS NULL OR incarnation=?2) "
      "ORDER BY incarnation,rank,start,rank_id LIMIT ?3",
      rank_select_names());
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(id).bind(incarnation).bind(row_limit(limit, 1'000'000));
  std::vector<RankRow> out;
  while (VETTA_TRY(statement.step())) out.push_back(read_rank(statement));
  return out;
}

Result<std::optional<RankRow>> Reader::rank(std::uint64_t rank_id) {
  static const std::string sql =
      fmt::format("SELECT {} FROM ranks WHERE rank_id=?", rank_select_names());
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(rank_id);
  if (!VETTA_TRY(statement.step())) return std::nullopt;
  return read_rank(statement);
}

Result<std::vector<model::Event>> Reader::events(const EventFilter& filter) {
  const EventConditions conditions(filter);
  auto statement = VETTA_TRY(lease_->database->prepare(conditions.sql()));
  conditions.bind(statement);
  std::vector<model::Event> out;
  while (VETTA_TRY(statement.step())) out.push_back(read_event(statement));
  return out;
}

Result<std::uint64_t> Reader::count_events_of(AttemptId id, std::uint64_t rows_max) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT count(*) FROM (SELECT 1 FROM events WHERE attempt=? LIMIT ?)"));
  statement.bind(id).bind(rows_max);
  if (!VETTA_TRY(statement.step())) return 0;
  return statement.unsigned_integer();
}

Result<std::uint64_t> Reader::count_events(std::uint64_t rank_id, std::uint64_t rows_max) {
  auto statement = VETTA_TRY(
      lease_->database->prepare("SELECT count(*) FROM (SELECT 1 FROM events WHERE rank_id=? AND "
                                "rank_id<>0 AND attempt IS NULL LIMIT ?)"));
  statement.bind(rank_id).bind(rows_max);
  if (!VETTA_TRY(statement.step())) return 0;
  return statement.unsigned_integer();
}

Result<std::uint64_t> Reader::last_event_id() {
  const auto id = VETTA_TRY(lease_->database->number("SELECT max(id) FROM events"));
  return static_cast<std::uint64_t>(id);
}

Result<std::vector<model::Finding>> Reader::findings(std::optional<AttemptId> attempt,
                                                     std::optional<std::uint32_t> uid,
                                                     std::size_t limit) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT f.id,f.time,f.kind,f.node,f.rank,f.message,f.json,a.cluster,a.job_id,a.submit "
      "FROM findings f LEFT JOIN attempts a ON a.id=f.attempt "
      "WHERE (?1 IS NULL OR f.attempt=?1) AND (?2 IS NULL OR a.uid=?2) "
      "ORDER BY f.id DESC LIMIT ?3"));
  statement.bind(attempt).bind(uid).bind(row_limit(limit, 10'000));
  std::vector<model::Finding> out;
  while (VETTA_TRY(statement.step())) {
    auto& f = out.emplace_back();
    statement.read(f.id);
    statement.read(f.time);
    statement.read(f.kind);
    statement.read(f.node);
    statement.read(f.rank);
    statement.read(f.message);
    statement.read(f.json);
    if (statement.is_null()) continue;
    auto& key = f.attempt.emplace();
    statement.read(key.cluster);
    statement.read(key.job_id);
    statement.read(key.submit);
  }
  return out;
}

Result<std::vector<std::string>> Reader::clusters() {
  auto statement = VETTA_TRY(lease_->database->prepare("SELECT name FROM clusters ORDER BY name"));
  std::vector<std::string> out;
  while (VETTA_TRY(statement.step())) out.push_back(statement.text());
  return out;
}

Result<std::optional<Time>> Reader::snapshot_time(std::string_view cluster, Listing listing) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      fmt::format("SELECT {} FROM clusters WHERE name=?", time_column(listing))));
  statement.bind(cluster);
  std::optional<Time> at;
  if (VETTA_TRY(statement.step())) statement.read(at);
  return at;
}

Result<std::vector<Known<model::Node>>> Reader::nodes(std::string_view cluster) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT as_of,value FROM nodes WHERE cluster=? ORDER BY position,name LIMIT 1000000"));
  statement.bind(cluster);
  std::vector<Known<model::Node>> out;
  while (VETTA_TRY(statement.step())) {
    const Time as_of = statement.time();
    if (auto node = decode_node(statement.text())) out.push_back({std::move(*node), as_of});
  }
  return out;
}

Result<std::vector<Known<model::Partition>>> Reader::partitions(std::string_view cluster) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT as_of,value FROM partitions WHERE cluster=? ORDER BY position,name LIMIT 100000"));
  statement.bind(cluster);
  std::vector<Known<model::Partition>> out;
  while (VETTA_TRY(statement.step())) {
    const Time as_of = statement.time();
    if (auto partition = decode_partition(statement.text()))
      out.push_back({std::move(*partition), as_of});
  }
  return out;
}

Result<std::vector<AttemptRow>> Reader::node_attempts(
    std::string_view cluster, std::string_view node, std::optional<Time> from,
    std::optional<Time> to, std::optional<std::uint32_t> uid, std::size_t limit) {
  static const std::string sql = select_attempts(
      "WHERE id IN (SELECT attempt FROM allocations WHERE node=?2 "
      "AND (?4 IS NULL OR start<?4) AND (?3 IS NULL OR \"end\" IS NULL OR \"end\">?3) "
      "AND (?5 IS NULL OR (SELECT uid FROM attempts WHERE id=attempt)=?5) "
      "ORDER BY start DESC LIMIT ?6) AND (?1='' OR cluster=?1) "
      "ORDER BY submit DESC, id DESC LIMIT ?6");
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(cluster).bind(node).bind(from).bind(to).bind(uid);
  statement.bind(row_limit(limit, 10'000));
  return read_attempts(statement);
}

Result<std::optional<std::int64_t>> Reader::cursor(std::string_view name) {
  auto statement = VETTA_TRY(lease_->database->prepare("SELECT value FROM cursors WHERE name=?"));
  statement.bind(name);
  std::optional<std::int64_t> value;
  if (VETTA_TRY(statement.step())) statement.read(value);
  return value;
}

Result<std::vector<AgentRow>> Reader::agents() {
  // One row for each node: its last agent.
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT agent_id,cluster,node,version,max(last_batch),dropped_batches FROM agents "
      "GROUP BY cluster,node ORDER BY cluster,node LIMIT 100000"));
  std::vector<AgentRow> out;
  while (VETTA_TRY(statement.step())) {
    auto& a = out.emplace_back();
    statement.read(a.agent_id);
    statement.read(a.cluster);
    statement.read(a.node);
    statement.read(a.version);
    statement.read(a.last_batch);
    statement.read(a.dropped_batches);
  }
  return out;
}

Result<std::vector<OpenAttempt>> Reader::open_attempts(std::string_view cluster) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT id,job_id,submit,gap<>'' FROM attempts WHERE cluster=? AND is_final=0"));
  statement.bind(cluster);
  std::vector<OpenAttempt> out;
  while (VETTA_TRY(statement.step())) {
    auto& open = out.emplace_back();
    statement.read(open.id);
    statement.read(open.key.job_id);
    statement.read(open.key.submit);
    statement.read(open.has_gap);
    open.key.cluster = cluster;
  }
  return out;
}

Result<std::vector<AttemptRow>> Reader::unsealed_ended_before(Time end, std::size_t limit) {
  static const std::string sql =
      select_attempts("WHERE is_final=1 AND is_sealed=0 AND \"end\"<? ORDER BY \"end\" LIMIT ?");
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(end).bind(row_limit(limit, 10'000));
  return read_attempts(statement);
}

namespace {

constexpr std::string_view select_unplaced =
    "SELECT id,rank_id,cluster,job_id,seen,frame FROM unplaced ";

Result<std::vector<Unplaced>> read_unplaced(Statement& statement) {
  std::vector<Unplaced> out;
  while (VETTA_TRY(statement.step())) {
    auto& u = out.emplace_back();
    statement.read(u.id);
    statement.read(u.rank_id);
    statement.read(u.cluster);
    statement.read(u.job_id);
    statement.read(u.seen);
    statement.read(u.frame);
  }
  return out;
}

}  // namespace

Result<std::vector<Unplaced>> Reader::unplaced(std::string_view cluster, std::size_t limit) {
  static const std::string sql =
      fmt::format("{}WHERE cluster=? ORDER BY id LIMIT ?", select_unplaced);
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(cluster).bind(row_limit(limit, 1'000'000));
  return read_unplaced(statement);
}

Result<std::vector<Unplaced>> Reader::unplaced_of_job(std::string_view cluster,
                                                      std::uint64_t job_id, std::size_t limit) {
  static const std::string sql =
      fmt::format("{}WHERE cluster=? AND job_id=? ORDER BY id LIMIT ?", select_unplaced);
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(cluster).bind(job_id).bind(row_limit(limit, 1'000'000));
  return read_unplaced(statement);
}

Result<std::vector<Unplaced>> Reader::unplaced_of_rank(std::uint64_t rank_id, std::size_t limit) {
  static const std::string sql =
      fmt::format("{}WHERE rank_id=? ORDER BY job_id<>0,id LIMIT ?", select_unplaced);
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(rank_id).bind(row_limit(limit, 1'000'000));
  return read_unplaced(statement);
}

Result<std::vector<Unplaced>> Reader::unplaced_before(Time seen, std::size_t limit) {
  static const std::string sql = fmt::format("{}WHERE seen<? LIMIT ?", select_unplaced);
  auto statement = VETTA_TRY(lease_->database->prepare(sql));
  statement.bind(seen).bind(row_limit(limit, 1'000'000));
  return read_unplaced(statement);
}

Result<std::vector<std::uint64_t>> Reader::unplaced_jobs(std::string_view cluster,
                                                         std::size_t limit) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT DISTINCT job_id FROM unplaced WHERE cluster=? AND job_id<>0 LIMIT ?"));
  statement.bind(cluster).bind(row_limit(limit, 1'000'000));
  std::vector<std::uint64_t> out;
  while (VETTA_TRY(statement.step())) out.push_back(statement.unsigned_integer());
  return out;
}

Result<std::uint64_t> Reader::count_unplaced(std::string_view cluster, std::uint64_t rows_max) {
  auto statement = VETTA_TRY(lease_->database->prepare(
      "SELECT count(*) FROM (SELECT 1 FROM unplaced WHERE cluster=? LIMIT ?)"));
  statement.bind(cluster).bind(rows_max);
  if (!VETTA_TRY(statement.step())) return 0;
  return statement.unsigned_integer();
}

Result<bool> Reader::has_unplaced(std::uint64_t rank_id) {
  auto statement =
      VETTA_TRY(lease_->database->prepare("SELECT 1 FROM unplaced WHERE rank_id=? LIMIT 1"));
  statement.bind(rank_id);
  return statement.step();
}

}  // namespace vetta::records
