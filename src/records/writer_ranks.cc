// SPDX-License-Identifier: Apache-2.0
// Ranks, events and findings.
#include <fmt/format.h>

#include "records/database_detail.h"
#include "records/rank_columns_detail.h"
#include "records/reader.h"
#include "records/writer.h"

namespace vetta::records {

Result<std::uint32_t> Writer::incarnation(AttemptId id, std::string_view step_id,
                                          std::uint32_t elastic_restart, Time start) {
  {
    auto statement = VETTA_TRY(
        database_.prepare("SELECT number,start FROM incarnations WHERE attempt=? AND step_id=? AND "
                          "elastic_restart=?"));
    statement.bind(id).bind(step_id).bind(elastic_restart);
    if (VETTA_TRY(statement.step())) {
      const auto number = static_cast<std::uint32_t>(statement.integer());
      if (statement.time() <= start) return number;
      auto earlier = VETTA_TRY(
          database_.prepare("UPDATE incarnations SET start=? WHERE attempt=? AND number=?"));
      earlier.bind(start).bind(id).bind(number);
      VETTA_TRY(earlier.run());
      return number;
    }
  }
  auto statement = VETTA_TRY(database_.prepare(
      "INSERT INTO incarnations(attempt,number,step_id,elastic_restart,start) "
      "SELECT ?1,coalesce(max(number)+1,0),?2,?3,?4 FROM incarnations WHERE attempt=?1 "
      "RETURNING number"));
  statement.bind(id).bind(step_id).bind(elastic_restart).bind(start);
  if (!VETTA_TRY(statement.step()))
    return fail(Code::internal, "the database gave no incarnation number");
  const auto number = static_cast<std::uint32_t>(statement.integer());
  VETTA_TRY(statement.step());  // RETURNING rows come before the statement is done
  return number;
}

Result<void> Writer::upsert_rank(AttemptId id, const model::Rank& rank) {
  static const std::string sql = [] {
    std::string parameters;
    RankRow row;
    std::uint32_t source = 0;
    visit_rank(row, source, [&](std::string_view, const auto&) {
      parameters += parameters.empty() ? "?" : ",?";
    });
    // A registration may be repeated and completed (the probe knows more than the plugin); what is
    // known stays.
    return fmt::format(
        "INSERT INTO ranks({}) VALUES({}) ON CONFLICT(rank_id) DO UPDATE SET "
        "rank=iif(excluded.is_probed OR rank<0,excluded.rank,rank),"
        "local_rank=max(local_rank,excluded.local_rank),"
        "world_size=max(world_size,excluded.world_size),task=max(task,excluded.task),"
        "devices=iif(devices='',excluded.devices,devices),"
        "source=iif(excluded.is_probed AND NOT is_probed,excluded.source,source),"
        "is_probed=max(is_probed,excluded.is_probed),"
        "\"end\"=coalesce(\"end\",excluded.\"end\"),"
        "exit_code=coalesce(exit_code,excluded.exit_code),"
        "exit_signal=coalesce(exit_signal,excluded.exit_signal)",
        rank_column_names(), parameters);
  }();
  auto statement = VETTA_TRY(database_.prepare(sql));
  const RankRow row{rank, id, 0};
  const auto source = static_cast<std::uint32_t>(rank.source);
  visit_rank(row, source, [&](std::string_view, const auto& value) { statement.bind(value); });
  return statement.run();
}

Result<bool> Writer::end_rank(std::uint64_t rank_id, Time end, std::optional<int> exit_code,
                              std::optional<int> exit_signal) {
  // An end with an exit replaces one without.
  auto statement = VETTA_TRY(database_.prepare(
      "UPDATE ranks SET \"end\"=?2,exit_code=?3,exit_signal=?4 WHERE rank_id=?1 AND "
      "(\"end\" IS NULL OR (exit_code IS NULL AND exit_signal IS NULL AND "
      "(?3 IS NOT NULL OR ?4 IS NOT NULL)))"));
  statement.bind(rank_id).bind(end).bind(exit_code).bind(exit_signal);
  VETTA_TRY(statement.run());
  return database_.changes() > 0;
}

Result<void> Writer::end_ranks(AttemptId id, Time end) {
  auto statement = VETTA_TRY(database_.prepare(
      "UPDATE ranks SET \"end\"=max(start,?2) WHERE attempt=?1 AND \"end\" IS NULL"));
  statement.bind(id).bind(end);
  return statement.run();
}

Result<void> Writer::set_now(std::uint64_t rank_id, const model::RankNow& now) {
  auto statement = VETTA_TRY(database_.prepare(
      "UPDATE ranks SET now_step=?2,now_phase=?3,now_since=?4,now_after=?5 WHERE rank_id=?1 AND "
      "(now_since IS NULL OR (now_after,now_since)<(?5,?4))"));
  std::optional<std::uint32_t> phase;
  if (now.phase) phase = static_cast<std::uint32_t>(*now.phase);
  statement.bind(rank_id).bind(now.step).bind(phase).bind(now.since).bind(now.after);
  return statement.run();
}

Result<void> Writer::set_overwritten(std::uint64_t rank_id, std::uint64_t marks) {
  auto statement = VETTA_TRY(
      database_.prepare("UPDATE ranks SET overwritten=?2 WHERE rank_id=?1 AND overwritten<?2"));
  statement.bind(rank_id).bind(marks);
  return statement.run();
}

Result<std::optional<std::uint64_t>> Writer::add(const model::Event& event,
                                                 std::optional<AttemptId> attempt,
                                                 std::string_view cluster) {
  auto statement = VETTA_TRY(database_.prepare(
      "INSERT INTO events(time,kind,cluster,attempt,node,rank,rank_id,exit_code,exit_signal,"
      "message,detail,source,dedup) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?) "
      "ON CONFLICT(dedup) DO NOTHING"));
  statement.bind(event.time).bind(model::name(event.kind)).bind(cluster).bind(attempt);
  statement.bind(event.node).bind(event.rank).bind(event.rank_id).bind(event.exit_code);
  statement.bind(event.exit_signal).bind(event.message).bind(event.detail).bind(event.source);
  if (event.dedup.empty()) {
    statement.bind_null();
  } else {
    statement.bind(event.dedup);
  }
  VETTA_TRY(statement.run());
  if (database_.changes() == 0) return std::nullopt;
  return static_cast<std::uint64_t>(database_.last_row());
}

Result<void> Writer::add_to_count(const model::Event& event, std::uint64_t more,
                                  std::optional<AttemptId> attempt, std::string_view cluster) {
  // Such a message read as a number is the count that it begins with.
  auto statement = VETTA_TRY(database_.prepare(
      "UPDATE events SET message=(CAST(message AS INTEGER)+?2)||' '||?3 WHERE dedup=?1"));
  statement.bind(event.dedup).bind(more).bind(event.message);
  VETTA_TRY(statement.run());
  if (database_.changes() > 0) return {};
  auto first = event;
  first.message = fmt::format("{} {}", more, event.message);
  VETTA_TRY(add(first, attempt, cluster));
  return {};
}

Result<void> Writer::adopt_events(std::uint64_t rank_id, AttemptId id) {
  auto statement = VETTA_TRY(database_.prepare(
      "UPDATE events SET attempt=?2 WHERE rank_id=?1 AND rank_id<>0 AND attempt IS NULL"));
  statement.bind(rank_id).bind(id);
  return statement.run();
}

Result<std::uint64_t> Writer::add(const model::Finding& finding, std::optional<AttemptId> attempt) {
  auto statement = VETTA_TRY(database_.prepare(
      "INSERT INTO findings(time,kind,attempt,node,rank,message,json) VALUES(?,?,?,?,?,?,?)"));
  statement.bind(finding.time).bind(finding.kind).bind(attempt).bind(finding.node);
  statement.bind(finding.rank).bind(finding.message).bind(finding.json);
  VETTA_TRY(statement.run());
  return static_cast<std::uint64_t>(database_.last_row());
}

}  // namespace vetta::records
