// SPDX-License-Identifier: Apache-2.0
// Attempts and what hangs on them. Ranks, events and the rest are in writer_*.cc.
#include "records/writer.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "records/attempt_columns_detail.h"
#include "records/reader.h"

namespace vetta::records {
namespace {

struct Stored {
  AttemptId id = 0;
  Told told;
  Kept kept;
};

Result<Stored> read_stored(Database& database, AttemptId id) {
  static const std::string sql =
      fmt::format("SELECT id,{} FROM attempts WHERE id=?", attempt_column_names());
  auto statement = VETTA_TRY(database.prepare(sql));
  statement.bind(id);
  Stored out;
  if (!VETTA_TRY(statement.step())) {
    return fail(Code::not_found, fmt::format("no attempt has row {}", id));
  }
  out.id = statement.integer();
  read_attempt(statement, out.told, out.kept);
  return out;
}

Result<AttemptId> insert(Database& database, const Told& told, const Kept& kept) {
  static const std::string sql = fmt::format("INSERT INTO attempts({}) VALUES({})",
                                             attempt_column_names(), attempt_parameters());
  auto statement = VETTA_TRY(database.prepare(sql));
  bind_attempt(statement, told, kept);
  VETTA_TRY(statement.run());
  return database.last_row();
}

/// Writes what differs.
Result<void> update(Database& database, const Stored& before, const Told& told, const Kept& kept) {
  const auto chosen = changed_columns(before.told, before.kept, told, kept);
  if (std::ranges::find(chosen, true) == chosen.end()) return {};
  auto statement = VETTA_TRY(
      database.prepare(fmt::format("UPDATE attempts SET {} WHERE id=?", assignments(chosen))));
  bind_chosen(statement, told, kept, chosen);
  statement.bind(before.id);
  return statement.run();
}

std::int64_t& hash_in(Kept& kept, ViewSource source) {
  return source == ViewSource::accounting ? kept.accounting_hash : kept.controller_hash;
}

std::string devices_text(const std::vector<std::string>& devices) {
  return fmt::format("{}", fmt::join(devices, "\n"));
}

struct OpenAllocation {
  std::string node;
  Time start;
};

}  // namespace

Result<Upsert> Writer::upsert(const model::Attempt& attempt, ViewSource source, Time as_of,
                              bool is_stale) {
  const auto hash = hash_of(attempt);
  Upsert out;
  {
    auto statement =
        VETTA_TRY(database_.prepare("SELECT id,controller_hash,accounting_hash FROM attempts "
                                    "WHERE cluster=? AND job_id=? AND submit=?"));
    statement.bind(attempt.key.cluster).bind(attempt.key.job_id).bind(attempt.key.submit);
    if (VETTA_TRY(statement.step())) {
      out.id = statement.integer();
      const auto controller_hash = statement.integer();
      const auto accounting_hash = statement.integer();
      if (hash == (source == ViewSource::accounting ? accounting_hash : controller_hash)) {
        out.is_known_view = true;
        return out;
      }
    }
  }
  const Told view = told(attempt, source, as_of);
  if (out.id == 0) {
    Kept kept;
    hash_in(kept, source) = hash;
    Told begun = first(view);
    out.id = VETTA_TRY(insert(database_, begun, kept));
    out.is_new = true;
    out.is_changed = true;
    out.source = source;
    out.after = std::move(begun.attempt);
    VETTA_TRY(update_chain(attempt.key, out));
    return out;
  }
  const Stored before = VETTA_TRY(read_stored(database_, out.id));
  Told merged = merge(before.told, view, is_stale);
  Kept kept = before.kept;
  if (!is_stale) hash_in(kept, source) = hash;
  if (model::is_final(merged.attempt.state)) kept.gap.clear();
  out.is_changed = hash_of(merged.attempt) != hash_of(before.told.attempt);
  VETTA_TRY(update(database_, before, merged, kept));
  if (!out.is_changed) return out;
  out.before = before.told.attempt;
  out.source = merged.source;
  out.after = std::move(merged.attempt);
  VETTA_TRY(update_chain(attempt.key, out));
  return out;
}

/// Numbers the attempts of one job id and ends those that a later one has replaced. A function of
/// the rows alone, so that the order in which they came does not matter.
Result<void> Writer::update_chain(const model::AttemptKey& key, Upsert& upsert) {
  std::vector<AttemptId> ids;
  {
    auto statement = VETTA_TRY(
        database_.prepare("SELECT id FROM attempts WHERE cluster=? AND job_id=? ORDER BY submit"));
    statement.bind(key.cluster).bind(key.job_id);
    while (VETTA_TRY(statement.step())) ids.push_back(statement.integer());
  }
  if (ids.size() < 2) return {};
  std::vector<Stored> rows;
  for (const auto id : ids) rows.push_back(VETTA_TRY(read_stored(database_, id)));
  std::uint32_t number = 1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Stored before = rows[i];
    Told& told = rows[i].told;
    Kept& kept = rows[i].kept;
    const bool has_next = i + 1 < rows.size();
    kept.number = number;
    kept.is_superseded = has_next && continues(told.attempt, rows[i + 1].told.attempt);
    if (has_next && !model::is_final(told.attempt.state)) {
      const Time next_submit = rows[i + 1].told.attempt.key.submit;
      if (kept.is_superseded) {
        model::Attempt over = told.attempt;
        over.state = model::JobState::requeued;
        over.state_text = "REQUEUED";
        over.end = std::max(next_submit, over.start.value_or(next_submit));
        told = merge(told, records::told(over, ViewSource::inferred, told.as_of));
        upsert.superseded.emplace_back(before.id, *over.end);
      } else {
        kept.gap = "its job id was given to a later job; how it ended is not known";
      }
    }
    number = kept.is_superseded ? number + 1 : 1;
    VETTA_TRY(update(database_, before, told, kept));
  }
  return {};
}

Result<void> Writer::set_allocations(AttemptId id, std::span<const model::Allocation> allocations,
                                     Time as_of) {
  VETTA_TRY(add_allocations(id, allocations));
  std::set<std::string_view> held;
  for (const auto& allocation : allocations) held.insert(allocation.node);
  std::vector<OpenAllocation> released;
  {
    auto statement = VETTA_TRY(database_.prepare(
        "SELECT node,start FROM allocations WHERE attempt=? AND \"end\" IS NULL"));
    statement.bind(id);
    while (VETTA_TRY(statement.step())) {
      OpenAllocation open{statement.text(), statement.time()};
      if (!held.contains(open.node)) released.push_back(std::move(open));
    }
  }
  for (const auto& open : released) {
    auto statement = VETTA_TRY(database_.prepare(
        "UPDATE allocations SET \"end\"=? WHERE attempt=? AND node=? AND start=?"));
    statement.bind(std::max(as_of, open.start)).bind(id).bind(open.node).bind(open.start);
    VETTA_TRY(statement.run());
  }
  return {};
}

Result<void> Writer::add_allocations(AttemptId id, std::span<const model::Allocation> allocations) {
  for (const auto& a : allocations) {
    auto statement = VETTA_TRY(database_.prepare(
        "INSERT INTO allocations(attempt,node,start,\"end\",cpus,memory_bytes,cpu_ids,devices) "
        "VALUES(?,?,?,?,?,?,?,?) ON CONFLICT(attempt,node,start) DO UPDATE SET "
        "\"end\"=coalesce(\"end\",excluded.\"end\"), cpus=coalesce(excluded.cpus,cpus),"
        "memory_bytes=coalesce(excluded.memory_bytes,memory_bytes),"
        "cpu_ids=iif(excluded.cpu_ids='',cpu_ids,excluded.cpu_ids),"
        "devices=iif(excluded.devices='',devices,excluded.devices) "
        "WHERE coalesce(\"end\",excluded.\"end\") IS NOT \"end\" OR "
        "coalesce(excluded.cpus,cpus) IS NOT cpus OR "
        "coalesce(excluded.memory_bytes,memory_bytes) IS NOT memory_bytes OR "
        "excluded.cpu_ids<>cpu_ids OR excluded.devices<>devices"));
    statement.bind(id).bind(a.node).bind(a.span.start).bind(a.span.end).bind(a.cpus);
    statement.bind(a.memory_bytes).bind(a.cpu_ids).bind(devices_text(a.devices));
    VETTA_TRY(statement.run());
  }
  // Of an attempt that is over already they are over too.
  auto statement = VETTA_TRY(database_.prepare(
      "UPDATE allocations SET \"end\"=max(start,(SELECT \"end\" FROM attempts WHERE id=?1)) "
      "WHERE attempt=?1 AND \"end\" IS NULL AND "
      "EXISTS(SELECT 1 FROM attempts WHERE id=?1 AND is_final=1 AND \"end\" IS NOT NULL)"));
  statement.bind(id);
  return statement.run();
}

Result<void> Writer::close_allocations(AttemptId id, Time end) {
  auto statement = VETTA_TRY(database_.prepare(
      "UPDATE allocations SET \"end\"=max(start,?2) "
      "WHERE attempt=?1 AND (\"end\" IS NULL OR \"end\">?2) AND \"end\" IS NOT max(start,?2)"));
  statement.bind(id).bind(end);
  return statement.run();
}

Result<void> Writer::upsert_steps(AttemptId id, std::span<const model::Step> steps) {
  for (const auto& s : steps) {
    // A final state is not overwritten by a step that still runs.
    auto statement = VETTA_TRY(database_.prepare(
        "INSERT INTO steps(attempt,step_id,name,state,start,\"end\",exit_code,exit_signal,nodes,"
        "tasks,max_rss_bytes,cpu_time) VALUES(?,?,?,?,?,?,?,?,?,?,?,?) "
        "ON CONFLICT(attempt,step_id) DO UPDATE SET name=excluded.name,"
        "state=iif(\"end\" IS NOT NULL AND excluded.\"end\" IS NULL,state,excluded.state),"
        "start=coalesce(excluded.start,start),\"end\"=coalesce(excluded.\"end\",\"end\"),"
        "exit_code=coalesce(excluded.exit_code,exit_code),"
        "exit_signal=coalesce(excluded.exit_signal,exit_signal),"
        "nodes=iif(excluded.nodes='',nodes,excluded.nodes),tasks=coalesce(excluded.tasks,tasks),"
        "max_rss_bytes=coalesce(excluded.max_rss_bytes,max_rss_bytes),"
        "cpu_time=coalesce(excluded.cpu_time,cpu_time)"));
    statement.bind(id).bind(s.step_id).bind(s.name).bind(model::name(s.state)).bind(s.start);
    statement.bind(s.end).bind(s.exit_code).bind(s.exit_signal).bind(s.nodes).bind(s.tasks);
    statement.bind(s.max_rss_bytes).bind(s.cpu_time);
    VETTA_TRY(statement.run());
  }
  return {};
}

Result<void> Writer::set_gap(AttemptId id, std::string_view reason, Time at) {
  auto statement = VETTA_TRY(database_.prepare(
      "UPDATE attempts SET gap=?2,gap_at=iif(?2='',NULL,?3) WHERE id=?1 AND gap<>?2"));
  statement.bind(id).bind(reason).bind(at);
  return statement.run();
}

Result<void> Writer::set_sealed(AttemptId id, bool is_sealed) {
  auto statement = VETTA_TRY(
      database_.prepare("UPDATE attempts SET is_sealed=?2 WHERE id=?1 AND is_sealed<>?2"));
  statement.bind(id).bind(is_sealed);
  return statement.run();
}

}  // namespace vetta::records
