// SPDX-License-Identifier: Apache-2.0
// Slurm as last seen, agents' sequences, and retention.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>

#include "core/interval_set.h"
#include "core/text.h"
#include "records/codec_detail.h"
#include "records/database_detail.h"
#include "records/reader.h"
#include "records/schema_detail.h"
#include "records/writer.h"

namespace vetta::records {
namespace {

constexpr std::size_t sequence_intervals_max = 64;

std::string print(const IntervalSet& set) {
  std::string out;
  for (const auto& i : set.intervals())
    out += fmt::format("{}{}-{}", out.empty() ? "" : ",", i.first, i.last);
  return out;
}

IntervalSet parse_intervals(std::string_view text) {
  IntervalSet set;
  if (text.empty()) return set;
  for (const auto part : split(text, ",")) {
    const auto edges = split(part, "-");
    if (edges.size() != 2) continue;
    const auto first = parse_uint(edges[0]);
    const auto last = parse_uint(edges[1]);
    if (first && last && *first <= *last) set.add(IntervalSet::Interval{*first, *last});
  }
  return set;
}

Result<IntervalSet> sequences_of(Database& database, std::uint64_t agent_id) {
  auto statement = VETTA_TRY(database.prepare("SELECT sequences FROM agents WHERE agent_id=?"));
  statement.bind(agent_id);
  if (!VETTA_TRY(statement.step())) return IntervalSet();
  return parse_intervals(statement.text());
}

bool is_worth_telling(const model::Node& before, const model::Node& after) {
  return before.states != after.states || before.reason != after.reason;
}

struct SlotSql {
  std::string_view read, put, drop;
};

constexpr SlotSql node_sql{
    .read = "SELECT name,position,value FROM nodes WHERE cluster=?",
    .put = "INSERT OR REPLACE INTO nodes(cluster,name,position,as_of,value) VALUES(?,?,?,?,?)",
    .drop = "DELETE FROM nodes WHERE cluster=? AND name=?",
};
constexpr SlotSql partition_sql{
    .read = "SELECT name,position,value FROM partitions WHERE cluster=?",
    .put = "INSERT OR REPLACE INTO partitions(cluster,name,position,as_of,value) VALUES(?,?,?,?,?)",
    .drop = "DELETE FROM partitions WHERE cluster=? AND name=?",
};

/// A cluster's nodes or partitions as they are kept; brought up to date in Slurm's order.
class Slots {
 public:
  static Result<Slots> read(Database& database, const SlotSql& sql, std::string_view cluster) {
    Slots out(database, sql, cluster);
    auto statement = VETTA_TRY(database.prepare(sql.read));
    statement.bind(cluster);
    while (VETTA_TRY(statement.step())) {
      std::string name = statement.text();
      Slot slot;
      slot.position = statement.integer();
      slot.value = statement.text();
      out.slots_.emplace(std::move(name), std::move(slot));
    }
    return out;
  }

  /// Keeps the next one, if it is not kept so already; tells what was kept, null for a new one.
  Result<const std::string*> put(std::string_view name, std::string_view value, Time as_of) {
    const std::int64_t position = next_++;
    const auto at = slots_.find(name);
    const bool is_known = at != slots_.end();
    if (is_known) at->second.is_seen = true;
    if (!is_known || at->second.value != value || at->second.position != position) {
      auto statement = VETTA_TRY(database_.prepare(sql_.put));
      statement.bind(cluster_).bind(name).bind(position).bind(as_of).bind_blob(value);
      VETTA_TRY(statement.run());
    }
    return is_known ? &at->second.value : nullptr;
  }

  /// Drops those that were not put.
  Result<void> drop_others() {
    for (const auto& [name, slot] : slots_) {
      if (slot.is_seen) continue;
      auto statement = VETTA_TRY(database_.prepare(sql_.drop));
      statement.bind(cluster_).bind(name);
      VETTA_TRY(statement.run());
    }
    return {};
  }

 private:
  struct Slot {
    std::int64_t position = 0;
    std::string value;
    bool is_seen = false;
  };

  Slots(Database& database, const SlotSql& sql, std::string_view cluster)
      : database_(database), sql_(sql), cluster_(cluster) {}

  Database& database_;
  const SlotSql& sql_;
  std::string_view cluster_;
  std::map<std::string, Slot, std::less<>> slots_;
  std::int64_t next_ = 0;
};

constexpr std::array owned_by_attempt{"incarnations", "allocations", "steps",
                                      "ranks",        "events",      "findings"};

}  // namespace

Result<std::vector<NodeChange>> Writer::set_nodes(std::string_view cluster,
                                                  std::span<const model::Node> nodes, Time as_of) {
  auto slots = VETTA_TRY(Slots::read(database_, node_sql, cluster));
  std::vector<NodeChange> changes;
  for (const auto& node : nodes) {
    const std::string* kept = VETTA_TRY(slots.put(node.name, encode(node), as_of));
    auto before = kept != nullptr ? decode_node(*kept) : std::nullopt;
    if (!before || is_worth_telling(*before, node)) changes.push_back({std::move(before), node});
  }
  VETTA_TRY(slots.drop_others());
  return changes;
}

Result<void> Writer::set_partitions(std::string_view cluster,
                                    std::span<const model::Partition> partitions, Time as_of) {
  auto slots = VETTA_TRY(Slots::read(database_, partition_sql, cluster));
  for (const auto& partition : partitions)
    VETTA_TRY(slots.put(partition.name, encode(partition), as_of));
  return slots.drop_others();
}

Result<void> Writer::set_snapshot_time(std::string_view cluster, Listing listing, Time as_of) {
  auto statement = VETTA_TRY(database_.prepare(
      fmt::format("INSERT INTO clusters(name,{0}) VALUES(?,?) ON CONFLICT(name) DO UPDATE SET "
                  "{0}=max(coalesce({0},0),excluded.{0})",
                  time_column(listing))));
  statement.bind(cluster).bind(as_of);
  return statement.run();
}

Result<void> Writer::set_cursor(std::string_view name, std::int64_t value) {
  auto statement = VETTA_TRY(database_.prepare(
      "INSERT INTO cursors(name,value) VALUES(?,?) ON CONFLICT(name) DO UPDATE SET "
      "value=excluded.value"));
  statement.bind(name).bind(value);
  return statement.run();
}

Result<bool> Writer::is_new_batch(std::uint64_t agent_id, std::uint64_t sequence) {
  return !VETTA_TRY(sequences_of(database_, agent_id)).contains(sequence);
}

Result<void> Writer::add_batch(const AgentRow& agent, std::uint64_t sequence) {
  auto sequences = VETTA_TRY(sequences_of(database_, agent.agent_id));
  sequences.add(sequence);
  sequences.limit(sequence_intervals_max);
  auto statement = VETTA_TRY(database_.prepare(
      "INSERT INTO agents(agent_id,cluster,node,version,last_batch,dropped_batches,sequences) "
      "VALUES(?,?,?,?,?,?,?) ON CONFLICT(agent_id) DO UPDATE SET version=excluded.version,"
      "last_batch=max(last_batch,excluded.last_batch),"
      "dropped_batches=max(dropped_batches,excluded.dropped_batches),"
      "sequences=excluded.sequences"));
  statement.bind(agent.agent_id).bind(agent.cluster).bind(agent.node).bind(agent.version);
  statement.bind(agent.last_batch).bind(agent.dropped_batches).bind(print(sequences));
  return statement.run();
}

Result<std::int64_t> Writer::add_unplaced(const Unplaced& what, std::size_t rest_max) {
  if (what.job_id != 0) {
    auto statement = VETTA_TRY(database_.prepare(
        "UPDATE unplaced SET job_id=?2,frame=?3 WHERE id=(SELECT min(id) FROM unplaced "
        "WHERE rank_id=?1 AND job_id<>0)"));
    statement.bind(what.rank_id).bind(what.job_id).bind_blob(what.frame);
    VETTA_TRY(statement.run());
    if (database_.changes() > 0) return 0;
  }
  auto statement = VETTA_TRY(database_.prepare(
      "INSERT INTO unplaced(rank_id,cluster,job_id,seen,frame) VALUES(?,?,?,?,?)"));
  statement.bind(what.rank_id).bind(what.cluster).bind(what.job_id).bind(what.seen);
  statement.bind_blob(what.frame);
  VETTA_TRY(statement.run());
  if (what.job_id != 0) return 1;
  auto oldest = VETTA_TRY(database_.prepare(
      "DELETE FROM unplaced WHERE rank_id=?1 AND job_id=0 AND id NOT IN (SELECT id FROM unplaced "
      "WHERE rank_id=?1 AND job_id=0 ORDER BY id DESC LIMIT ?2)"));
  oldest.bind(what.rank_id).bind(rest_max);
  VETTA_TRY(oldest.run());
  return 1 - database_.changes();
}

Result<void> Writer::remove_unplaced(std::int64_t id) {
  auto statement = VETTA_TRY(database_.prepare("DELETE FROM unplaced WHERE id=?"));
  statement.bind(id);
  return statement.run();
}

Result<std::size_t> Writer::remove_ended_before(
    Time before, std::size_t limit,
    const std::function<Result<void>(const model::AttemptKey&)>& remove_files) {
  std::vector<std::pair<AttemptId, model::AttemptKey>> old;
  {
    // Of an attempt whose end nobody told: when it was last spoken of.
    auto statement = VETTA_TRY(database_.prepare(
        "SELECT id,cluster,job_id,submit FROM attempts WHERE id IN ("
        "SELECT id FROM attempts WHERE is_final=1 AND \"end\"<?1 UNION ALL "
        "SELECT id FROM attempts WHERE \"end\" IS NULL AND (is_final=1 OR gap<>'') "
        "AND max(submit,as_of,described_at,coalesce(gap_at,0))<?1) ORDER BY \"end\" LIMIT ?2"));
    statement.bind(before).bind(limit);
    while (VETTA_TRY(statement.step())) {
      auto& [id, key] = old.emplace_back();
      statement.read(id);
      statement.read(key.cluster);
      statement.read(key.job_id);
      statement.read(key.submit);
    }
  }
  for (const auto& [id, key] : old) {
    if (remove_files) VETTA_TRY(remove_files(key));
    for (const char* table : owned_by_attempt) {
      auto statement =
          VETTA_TRY(database_.prepare(fmt::format("DELETE FROM {} WHERE attempt=?", table)));
      statement.bind(id);
      VETTA_TRY(statement.run());
    }
    auto statement = VETTA_TRY(database_.prepare("DELETE FROM attempts WHERE id=?"));
    statement.bind(id);
    VETTA_TRY(statement.run());
  }
  return old.size();
}

Result<std::size_t> Writer::remove_loose_before(Time before, std::size_t limit) {
  std::size_t removed = 0;
  for (const std::string_view sql :
       {"DELETE FROM events WHERE id IN (SELECT id FROM events WHERE attempt IS NULL AND time<?1 "
        "LIMIT ?2)",
        "DELETE FROM findings WHERE id IN (SELECT id FROM findings WHERE attempt IS NULL AND "
        "time<?1 LIMIT ?2)",
        "DELETE FROM agents WHERE agent_id IN (SELECT agent_id FROM agents WHERE last_batch<?1 "
        "LIMIT ?2)"}) {
    auto statement = VETTA_TRY(database_.prepare(sql));
    statement.bind(before).bind(limit);
    VETTA_TRY(statement.run());
    removed += static_cast<std::size_t>(database_.changes());
  }
  return removed;
}

}  // namespace vetta::records
