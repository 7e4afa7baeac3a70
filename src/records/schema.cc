// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <fmt/format.h>

#include "records/schema_detail.h"

namespace vetta::records {
namespace {

constexpr int application_id = 0x56455454;  // "VETT"

// Times are nanoseconds since the epoch, spans nanoseconds; texts hold bytes as they came.
constexpr const char* tables = R"sql(
CREATE TABLE clusters(name TEXT PRIMARY KEY, snapshot_at INTEGER) WITHOUT ROWID;
CREATE TABLE attempts(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  cluster TEXT NOT NULL, job_id INTEGER NOT NULL, submit INTEGER NOT NULL,
  array_job_id INTEGER, array_task_id INTEGER, array_tasks TEXT NOT NULL,
  het_job_id INTEGER, het_offset INTEGER, restart INTEGER NOT NULL, sluid TEXT NOT NULL,
  state TEXT NOT NULL, is_final INTEGER NOT NULL, state_text TEXT NOT NULL, reason TEXT NOT NULL,
  user TEXT NOT NULL, account TEXT NOT NULL, "partition" TEXT NOT NULL, qos TEXT NOT NULL,
  name TEXT NOT NULL, uid INTEGER, experiment TEXT NOT NULL,
  eligible INTEGER, start INTEGER, "end" INTEGER, expected_start INTEGER,
  suspended TEXT NOT NULL, suspended_total INTEGER, time_limit INTEGER,
  nodes TEXT NOT NULL, node_count INTEGER, cpus INTEGER, tasks INTEGER, memory_bytes INTEGER,
  gpus INTEGER, tres TEXT NOT NULL,
  exit_code INTEGER, exit_signal INTEGER, derived_exit_code INTEGER, derived_exit_signal INTEGER,
  work_dir TEXT NOT NULL, command TEXT NOT NULL, std_out TEXT NOT NULL, std_err TEXT NOT NULL,
  comment TEXT NOT NULL, dependency TEXT NOT NULL, priority INTEGER, preempted_by INTEGER,
  source INTEGER NOT NULL, as_of INTEGER NOT NULL,
  described_by INTEGER NOT NULL, described_at INTEGER NOT NULL,
  number INTEGER NOT NULL, is_superseded INTEGER NOT NULL, is_sealed INTEGER NOT NULL,
  gap TEXT NOT NULL, controller_hash INTEGER NOT NULL, accounting_hash INTEGER NOT NULL,
  UNIQUE(cluster, job_id, submit));
CREATE TABLE incarnations(
  attempt INTEGER NOT NULL, number INTEGER NOT NULL, step_id TEXT NOT NULL,
  elastic_restart INTEGER NOT NULL, start INTEGER NOT NULL,
  PRIMARY KEY(attempt, number), UNIQUE(attempt, step_id, elastic_restart)) WITHOUT ROWID;
CREATE TABLE allocations(
  attempt INTEGER NOT NULL, node TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER,
  cpus INTEGER, memory_bytes INTEGER, cpu_ids TEXT NOT NULL, devices TEXT NOT NULL,
  PRIMARY KEY(attempt, node, start)) WITHOUT ROWID;
CREATE TABLE steps(
  attempt INTEGER NOT NULL, step_id TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
  start INTEGER, "end" INTEGER, exit_code INTEGER, exit_signal INTEGER, nodes TEXT NOT NULL,
  tasks INTEGER, max_rss_bytes INTEGER, cpu_time INTEGER,
  PRIMARY KEY(attempt, step_id)) WITHOUT ROWID;
CREATE TABLE ranks(
  rank_id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, incarnation INTEGER NOT NULL,
  job_id INTEGER NOT NULL, step_id TEXT NOT NULL, slurm_restart INTEGER NOT NULL,
  elastic_restart INTEGER NOT NULL, rank INTEGER NOT NULL, local_rank INTEGER NOT NULL,
  world_size INTEGER NOT NULL, task INTEGER NOT NULL, node TEXT NOT NULL, uid INTEGER NOT NULL,
  pid INTEGER NOT NULL, devices TEXT NOT NULL, source INTEGER NOT NULL, is_probed INTEGER NOT NULL,
  start INTEGER NOT NULL, "end" INTEGER, exit_code INTEGER, exit_signal INTEGER,
  overwritten INTEGER NOT NULL);
CREATE TABLE events(
  id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, kind TEXT NOT NULL,
  cluster TEXT NOT NULL, attempt INTEGER, node TEXT NOT NULL, rank INTEGER NOT NULL,
  rank_id INTEGER NOT NULL, exit_code INTEGER, exit_signal INTEGER, message TEXT NOT NULL,
  detail TEXT NOT NULL, source TEXT NOT NULL, dedup TEXT UNIQUE);
CREATE TABLE findings(
  id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, kind TEXT NOT NULL,
  attempt INTEGER, node TEXT NOT NULL, rank INTEGER NOT NULL, message TEXT NOT NULL,
  json TEXT NOT NULL);
CREATE TABLE nodes(
  cluster TEXT NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL, as_of INTEGER NOT NULL,
  value BLOB NOT NULL, PRIMARY KEY(cluster, name)) WITHOUT ROWID;
CREATE TABLE partitions(
  cluster TEXT NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL, as_of INTEGER NOT NULL,
  value BLOB NOT NULL, PRIMARY KEY(cluster, name)) WITHOUT ROWID;
CREATE TABLE cursors(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE agents(
  agent_id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, node TEXT NOT NULL, version TEXT NOT NULL,
  last_batch INTEGER NOT NULL, dropped_batches INTEGER NOT NULL, sequences TEXT NOT NULL);
CREATE TABLE unplaced(
  id INTEGER PRIMARY KEY AUTOINCREMENT, rank_id INTEGER NOT NULL, cluster TEXT NOT NULL,
  job_id INTEGER NOT NULL, seen INTEGER NOT NULL, frame BLOB NOT NULL);
)sql";

// attempts_list holds every column that a list is filtered by, so that a scan reads it alone.
constexpr const char* indexes = R"sql(
CREATE INDEX attempts_list ON attempts(
  submit, id, is_superseded, state, user, account, "partition", cluster, "end", name);
CREATE INDEX attempts_user ON attempts(user, submit, id, is_superseded, state);
CREATE INDEX attempts_state ON attempts(is_superseded, state, submit, id);
CREATE INDEX attempts_open ON attempts(cluster, submit, job_id, gap) WHERE is_final = 0;
CREATE INDEX attempts_unsealed ON attempts("end") WHERE is_final = 1 AND is_sealed = 0;
CREATE INDEX attempts_end ON attempts("end") WHERE is_final = 1;
CREATE INDEX attempts_array ON attempts(array_job_id, array_task_id)
  WHERE array_job_id IS NOT NULL;
CREATE INDEX attempts_het ON attempts(het_job_id, het_offset) WHERE het_job_id IS NOT NULL;
CREATE INDEX allocations_node ON allocations(node, start);
CREATE INDEX ranks_attempt ON ranks(attempt, incarnation, rank);
CREATE INDEX events_attempt ON events(attempt, id) WHERE attempt IS NOT NULL;
CREATE INDEX events_rank ON events(rank_id) WHERE rank_id <> 0;
CREATE INDEX events_node ON events(node, id) WHERE node <> '';
CREATE INDEX events_loose ON events(time) WHERE attempt IS NULL;
CREATE INDEX findings_attempt ON findings(attempt);
CREATE INDEX unplaced_job ON unplaced(cluster, job_id);
CREATE INDEX unplaced_rank ON unplaced(rank_id);
CREATE INDEX agents_last ON agents(last_batch);
)sql";

// Where a rank stays, if it does: written at most every ten seconds and for few.
constexpr const char* rank_places = R"sql(
ALTER TABLE ranks ADD COLUMN now_step INTEGER;
ALTER TABLE ranks ADD COLUMN now_phase INTEGER;
ALTER TABLE ranks ADD COLUMN now_since INTEGER;
ALTER TABLE ranks ADD COLUMN now_after INTEGER;
)sql";

// A user's own jobs, by whom the kernel says that they are.
constexpr const char* own_jobs = R"sql(
CREATE INDEX attempts_uid ON attempts(uid, submit, id, is_superseded, state);
)sql";

// Attempts whose end nobody told: retention asks for them.
constexpr const char* endless = R"sql(
ALTER TABLE attempts ADD COLUMN gap_at INTEGER;
CREATE INDEX attempts_endless ON attempts(max(submit, as_of, described_at, coalesce(gap_at, 0)))
  WHERE "end" IS NULL AND (is_final = 1 OR gap <> '');
)sql";

// The list of what is not over, in its order; is_final is there so that a count reads the index
// alone.
constexpr const char* active = R"sql(
CREATE INDEX attempts_active ON attempts(submit, id, is_superseded, state, is_final)
  WHERE is_final = 0;
)sql";

// Jobs, nodes and partitions are told apart: one question may fail while the others are answered.
constexpr const char* listings = R"sql(
ALTER TABLE clusters ADD COLUMN nodes_at INTEGER;
ALTER TABLE clusters ADD COLUMN partitions_at INTEGER;
)sql";

constexpr std::array steps{tables, indexes, rank_places, own_jobs, endless, active, listings};

Result<void> migrate_one(Database& database, const char* step, std::size_t number) {
  VETTA_TRY(database.execute("BEGIN IMMEDIATE"));
  auto done = database.execute(step);
  if (done) done = database.execute(fmt::format("PRAGMA user_version = {}", number).c_str());
  if (done) done = database.execute("COMMIT");
  if (!done && database.in_transaction()) static_cast<void>(database.execute("ROLLBACK"));
  return done;
}

}  // namespace

std::string_view time_column(Listing listing) {
  switch (listing) {
    case Listing::jobs: return "snapshot_at";
    case Listing::nodes: return "nodes_at";
    case Listing::partitions: return "partitions_at";
  }
  return "snapshot_at";
}

std::span<const char* const> schema_steps() {
  return steps;
}

Result<void> migrate(Database& database, std::span<const char* const> to) {
  const auto have = VETTA_TRY(database.number("PRAGMA user_version"));
  const auto owner = VETTA_TRY(database.number("PRAGMA application_id"));
  const auto tables_there = VETTA_TRY(database.number("SELECT count(*) FROM sqlite_master"));
  if (owner != application_id && tables_there > 0) {
    return fail(Code::conflict, "this database belongs to another program",
                "name another file; Vetta makes its own");
  }
  if (have < 0 || static_cast<std::size_t>(have) > to.size()) {
    return fail(Code::conflict,
                fmt::format("the records have schema {}, this Vetta knows schemas up to {}", have,
                            to.size()),
                "start the Vetta that wrote them, or a later one; nothing was changed");
  }
  VETTA_TRY(database.execute(fmt::format("PRAGMA application_id = {}", application_id).c_str()));
  for (auto step = static_cast<std::size_t>(have); step < to.size(); ++step) {
    auto done = migrate_one(database, to[step], step + 1);
    if (!done) {
      return std::unexpected(
          std::move(done.error()).while_(fmt::format("bring the records to schema {}", step + 1)));
    }
  }
  return {};
}

}  // namespace vetta::records
