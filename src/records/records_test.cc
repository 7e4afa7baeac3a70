// SPDX-License-Identifier: Apache-2.0
#include "records/records.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <thread>

#include "records/database_detail.h"
#include "records/filter_detail.h"
#include "records/schema_detail.h"

namespace vetta::records {
namespace {

using model::Attempt;
using model::JobState;

Time at(std::int64_t seconds) {
  return from_epoch_seconds(1'700'000'000 + seconds);
}

Attempt job(std::uint64_t id, JobState state = JobState::running, std::int64_t submit = 0) {
  Attempt a;
  a.key = {"alps", id, at(submit)};
  a.state = state;
  a.user = fmt::format("user{}", id % 7);
  a.uid = static_cast<std::uint32_t>(1000 + id % 7);
  a.account = fmt::format("acct{}", id % 3);
  a.partition = id % 2 == 0 ? "gpu" : "cpu,gpu";
  a.name = fmt::format("train-{}", id);
  a.nodes = "n001";
  if (state != JobState::pending) a.start = at(submit + 1);
  if (model::is_final(state)) a.end = at(submit + 100);
  return a;
}

class RecordsTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(testing::TempDir()) /
           fmt::format("records-{}-{}", getpid(), counter_++);
    std::filesystem::create_directories(dir_);
    open();
  }

  void TearDown() override {
    records_.reset();
    std::filesystem::remove_all(dir_);
  }

  void open() {
    records_.reset();
    auto opened = Records::open({.path = dir_ / "records.db", .is_synced = false});
    ASSERT_TRUE(opened) << opened.error().text();
    records_ = std::move(*opened);
  }

  Upsert upsert(const Attempt& attempt, ViewSource source = ViewSource::controller,
                Time as_of = at(1000)) {
    Upsert out;
    const auto change = [&](Writer& writer) -> Result<void> {
      out = VETTA_TRY(writer.upsert(attempt, source, as_of));
      return {};
    };
    const auto done = records_->write(change);
    EXPECT_TRUE(done) << done.error().text();
    return out;
  }

  void write(const std::function<Result<void>(Writer&)>& change) {
    const auto done = records_->write(change);
    ASSERT_TRUE(done) << done.error().text();
  }

  Reader read() { return records_->read().value(); }

  std::filesystem::path dir_;
  std::unique_ptr<Records> records_;
  static inline int counter_ = 0;
};

TEST_F(RecordsTest, KeepsEveryFieldAndEveryByte) {
  Attempt a = job(4711);
  a.array = model::Array{4700, 11, "12-15%2"};
  a.het = model::Het{4711, 1};
  a.restart = 3;
  a.sluid = "s1X";
  a.name = std::string("na\xff\xfe'\";\n|\x1f me", 14);
  a.comment = "ü \\ \t";
  a.suspended = {{at(5), at(6)}, {at(8), {}}};
  a.time_limit = std::chrono::hours(3);
  a.memory_bytes = 1ULL << 50U;
  a.exit_code = 0;
  a.priority = -5;
  a.expected_start = at(77);
  const auto id = upsert(a).id;
  open();
  const auto row = read().attempt(id).value().value();
  EXPECT_EQ(row.attempt.name, a.name);
  EXPECT_EQ(row.attempt.comment, a.comment);
  EXPECT_EQ(row.attempt.array->task_id, 11U);
  EXPECT_EQ(row.attempt.array->tasks, "12-15%2");
  EXPECT_EQ(row.attempt.het->offset, 1U);
  ASSERT_EQ(row.attempt.suspended.size(), 2U);
  EXPECT_EQ(row.attempt.suspended[0].end, at(6));
  EXPECT_EQ(row.attempt.time_limit, a.time_limit);
  EXPECT_EQ(row.attempt.memory_bytes, a.memory_bytes);
  EXPECT_EQ(row.attempt.exit_code, 0);
  EXPECT_FALSE(row.attempt.exit_signal);
  EXPECT_EQ(row.attempt.priority, -5);
  EXPECT_EQ(row.attempt.expected_start, at(77));
}

TEST_F(RecordsTest, TheSameViewTwiceChangesNothing) {
  EXPECT_TRUE(upsert(job(1)).is_new);
  const auto again = upsert(job(1), ViewSource::controller, at(2000));
  EXPECT_FALSE(again.is_changed);
  EXPECT_FALSE(again.is_new);
  auto ended = job(1, JobState::failed);
  const auto end = upsert(ended, ViewSource::controller, at(3000));
  EXPECT_TRUE(end.is_changed);
  ASSERT_TRUE(end.before);
  EXPECT_EQ(end.before->state, JobState::running);
  EXPECT_EQ(end.after.state, JobState::failed);
  EXPECT_FALSE(upsert(job(1), ViewSource::controller, at(500)).is_changed);
}

TEST_F(RecordsTest, ARequeueIsANewAttemptAndEndsTheOldOne) {
  const auto old = upsert(job(5, JobState::running, 0)).id;
  auto again = job(5, JobState::pending, 50);
  again.restart = 1;
  const auto upserted = upsert(again, ViewSource::controller, at(60));
  ASSERT_EQ(upserted.superseded.size(), 1U);
  EXPECT_EQ(upserted.superseded[0].first, old);
  const auto rows = read().attempts("alps", 5).value();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].number, 2U);
  EXPECT_FALSE(rows[0].is_superseded);
  EXPECT_EQ(rows[1].number, 1U);
  EXPECT_TRUE(rows[1].is_superseded);
  EXPECT_EQ(rows[1].attempt.state, JobState::requeued);
  EXPECT_EQ(rows[1].attempt.end, at(50));
  EXPECT_EQ(rows[1].source, ViewSource::inferred);
  // Accounting knows better.
  auto truth = job(5, JobState::node_fail, 0);
  truth.end = at(48);
  upsert(truth, ViewSource::accounting, at(90));
  EXPECT_EQ(read().attempt(old).value()->attempt.state, JobState::node_fail);
  EXPECT_EQ(read().attempt(old).value()->attempt.end, at(48));
}

TEST_F(RecordsTest, AWrappedJobIdIsAnotherJob) {
  upsert(job(5, JobState::completed, 0));
  upsert(job(5, JobState::running, 9'000'000));
  const auto rows = read().attempts("", 5).value();
  ASSERT_EQ(rows.size(), 0U) << "no cluster is known before a snapshot of it";
  write([](Writer& w) { return w.set_snapshot_time("alps", Listing::jobs, at(0)); });
  const auto known = read().attempts("", 5).value();
  ASSERT_EQ(known.size(), 2U);
  EXPECT_EQ(known[0].number, 1U);
  EXPECT_FALSE(known[1].is_superseded);
  EXPECT_EQ(read().jobs({}, {}, 10).value().rows.size(), 2U);
}

TEST_F(RecordsTest, PagesAndFilters) {
  const auto fill = [](Writer& writer) -> Result<void> {
    for (std::uint64_t id = 1; id <= 100; ++id) {
      const auto state = id % 4 == 0 ? JobState::completed : JobState::running;
      VETTA_TRY(writer.upsert(job(id, state, static_cast<std::int64_t>(id / 10)),
                              ViewSource::controller, at(1000)));
    }
    return {};
  };
  write(fill);
  std::optional<JobCursor> cursor;
  std::vector<AttemptId> seen;
  do {
    const auto page = read().jobs({}, cursor, 7).value();
    for (const auto& row : page.rows) seen.push_back(row.id);
    cursor = page.next;
  } while (cursor);
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_TRUE(std::is_sorted(seen.rbegin(), seen.rend()));
  const auto count = [&](const JobFilter& filter) {
    const auto page = read().jobs(filter, {}, 1000).value();
    EXPECT_EQ(read().count_jobs(filter).value().total, page.rows.size());
    return page.rows.size();
  };
  EXPECT_EQ(count({.users = {"user3"}}), 14U);
  EXPECT_EQ(count({.states = {JobState::completed}}), 25U);
  EXPECT_EQ(count({.partitions = {"gpu"}}), 100U);
  EXPECT_EQ(count({.partitions = {"cpu"}}), 50U);
  EXPECT_EQ(count({.partitions = {"cp"}}), 0U);
  EXPECT_EQ(count({.accounts = {"acct0", "acct1"}}), 67U);
  EXPECT_EQ(count({.name_contains = "TRAIN-10"}), 2U);
  EXPECT_EQ(count({.name_contains = "%"}), 0U);
  EXPECT_EQ(count({.active_only = true}), 75U);
  EXPECT_EQ(count({.cluster = "other"}), 0U);
  EXPECT_EQ(count({.to = at(3)}), 29U);
  EXPECT_EQ(count({.from = at(109)}), 78U);
}

TEST_F(RecordsTest, NoListReadsWholeRowsToSortOrToCountThem) {
  auto database = Database::open({.path = dir_ / "plans.db", .is_writer = true}).value();
  ASSERT_TRUE(migrate(*database, schema_steps()));
  const auto plan_of = [&](const std::string& sql) {
    auto statement = database->prepare("EXPLAIN QUERY PLAN " + sql).value();
    std::string plan;
    while (statement.step().value()) {
      for (int column = 0; column < 3; ++column) statement.skip();
      plan += statement.text() + "\n";
    }
    return plan;
  };
  const std::vector<JobFilter> filters{
      {},
      {.cluster = "alps"},
      {.active_only = true},
      {.all_attempts = true},
      {.users = {"a"}},
      {.users = {"a", "b"}},
      {.users = {"a"}, .states = {JobState::running}},
      {.accounts = {"a"}},
      {.states = {JobState::running}},
      {.states = {JobState::running, JobState::pending}},
      {.partitions = {"gpu"}, .name_contains = "train"},
      {.uid = 7},
      {.from = at(0), .to = at(1)},
  };
  for (const auto& filter : filters) {
    const Conditions conditions(filter, std::nullopt);
    const auto page = plan_of(conditions.ids());
    EXPECT_TRUE(page.contains("COVERING INDEX") || !page.contains("TEMP B-TREE")) << page;
    const auto counts = plan_of(conditions.counts());
    EXPECT_TRUE(counts.contains("COVERING INDEX")) << conditions.counts() << "\n" << counts;
  }
}

TEST_F(RecordsTest, AllocationsCloseOnceAndStayClosed) {
  const auto id = upsert(job(1)).id;
  model::Allocation n1, n2;
  n1.node = "n001";
  n2.node = "n002";
  n1.span = n2.span = {at(1), {}};
  n1.cpus = 4;
  n1.devices = {"gpu:0"};
  const std::array both{n1, n2};
  write([&](Writer& w) { return w.set_allocations(id, both, at(2)); });
  write([&](Writer& w) { return w.set_allocations(id, std::span(both).first(1), at(10)); });
  write([&](Writer& w) { return w.close_allocations(id, at(20)); });
  write([&](Writer& w) { return w.set_allocations(id, both, at(5)); });
  const auto held = read().allocations(id).value();
  ASSERT_EQ(held.size(), 2U);
  EXPECT_EQ(held[0].span.end, at(20));
  EXPECT_EQ(held[0].devices, std::vector<std::string>{"gpu:0"});
  EXPECT_EQ(held[1].span.end, at(10));
  EXPECT_EQ(read().node_attempts("alps", "n002", {}, at(5)).value().size(), 1U);
  EXPECT_EQ(read().node_attempts("alps", "n002", at(11), {}).value().size(), 0U);
}

TEST_F(RecordsTest, EventsAreUniqueAndRise) {
  model::Event e;
  e.time = at(1);
  e.kind = model::EventKind::gap;
  e.dedup = "same";
  std::vector<std::optional<std::uint64_t>> ids;
  const auto add = [&](Writer& w) -> Result<void> {
    ids.push_back(VETTA_TRY(w.add(e, std::nullopt, "alps")));
    ids.push_back(VETTA_TRY(w.add(e, std::nullopt, "alps")));
    e.dedup.clear();
    ids.push_back(VETTA_TRY(w.add(e, std::nullopt, "alps")));
    ids.push_back(VETTA_TRY(w.add(e, std::nullopt, "alps")));
    return {};
  };
  write(add);
  EXPECT_TRUE(ids[0]);
  EXPECT_FALSE(ids[1]);
  EXPECT_TRUE(*ids[3] > *ids[2]);
  EXPECT_EQ(read().events({.after_id = *ids[0]}).value().size(), 2U);
}

TEST_F(RecordsTest, BatchesAreKnownInAnyOrder) {
  const AgentRow agent{.agent_id = ~0ULL, .cluster = "alps", .node = "n001"};
  const auto add = [&](std::uint64_t sequence) {
    bool is_new = false;
    const auto change = [&](Writer& w) -> Result<void> {
      is_new = VETTA_TRY(w.is_new_batch(agent.agent_id, sequence));
      return w.add_batch(agent, sequence);
    };
    write(change);
    return is_new;
  };
  EXPECT_TRUE(add(3));
  EXPECT_TRUE(add(1));
  EXPECT_FALSE(add(3));
  open();
  EXPECT_FALSE(add(1));
  EXPECT_TRUE(add(2));
}

TEST_F(RecordsTest, NodesTellWhatChanged) {
  model::Node node;
  node.name = "n\xff";
  node.states = {"IDLE"};
  node.gres = {
      {.name = "gpu", .type = "h100", .total = 4, .allocated = 2, .allocated_indices = {0, 3}}};
  node.load = 0.5;
  std::vector<NodeChange> changes;
  const auto set = [&](Writer& w) -> Result<void> {
    changes = VETTA_TRY(w.set_nodes("alps", std::span(&node, 1), at(1)));
    return {};
  };
  write(set);
  EXPECT_EQ(changes.size(), 1U);
  node.load = 0.7;
  write(set);
  EXPECT_EQ(changes.size(), 0U);
  node.states = {"IDLE", "DRAIN"};
  write(set);
  ASSERT_EQ(changes.size(), 1U);
  ASSERT_TRUE(changes[0].before);
  EXPECT_EQ(changes[0].before->load, 0.7);
  open();
  const auto nodes = read().nodes("alps").value();
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].value.name, node.name);
  EXPECT_EQ(nodes[0].value.gres[0].allocated_indices, (std::vector<std::uint32_t>{0, 3}));
  write([](Writer& w) -> Result<void> {
    VETTA_TRY(w.set_nodes("alps", {}, at(2)));
    return {};
  });
  EXPECT_TRUE(read().nodes("alps").value().empty());
}

TEST_F(RecordsTest, RetentionTakesAllThatBelongsToAnAttempt) {
  const auto old = upsert(job(1, JobState::completed, 0)).id;
  const auto young = upsert(job(2, JobState::completed, 5000)).id;
  upsert(job(3, JobState::running, 0));
  model::Rank rank;
  rank.rank_id = 99;
  model::Event event;
  write([&](Writer& w) -> Result<void> {
    VETTA_TRY(w.incarnation(old, "0", 0, at(1)));
    VETTA_TRY(w.upsert_rank(old, rank));
    VETTA_TRY(w.add(event, old, "alps"));
    return {};
  });
  std::vector<model::AttemptKey> removed;
  std::size_t count = 0;
  write([&](Writer& w) -> Result<void> {
    const auto files = [&](const model::AttemptKey& key) -> Result<void> {
      removed.push_back(key);
      return {};
    };
    count = VETTA_TRY(w.remove_ended_before(at(1000), 10, files));
    return {};
  });
  EXPECT_EQ(count, 1U);
  ASSERT_EQ(removed.size(), 1U);
  EXPECT_EQ(removed[0].job_id, 1U);
  EXPECT_FALSE(read().attempt(old).value());
  EXPECT_TRUE(read().attempt(young).value());
  EXPECT_FALSE(read().rank(99).value());
  EXPECT_TRUE(read().events({}).value().empty());
}

TEST_F(RecordsTest, RetentionTakesWhatNobodyTellsTheEndOf) {
  const Time day0 = at(0), day100 = at(100LL * 86'400), day110 = at(110LL * 86'400);
  const auto vanished = upsert(job(1), ViewSource::controller, day0).id;
  const auto alive = upsert(job(2), ViewSource::controller, day0).id;
  const auto missed_now = upsert(job(3), ViewSource::controller, day0).id;
  auto endless = job(4, JobState::cancelled);
  endless.end.reset();
  const auto without_end = upsert(endless, ViewSource::controller, day0).id;
  std::size_t count = 0;
  write([&](Writer& w) -> Result<void> {
    VETTA_TRY(w.set_gap(vanished, "gone", at(60)));
    VETTA_TRY(w.set_gap(missed_now, "gone", day110));  // it ran all the time
    count = VETTA_TRY(w.remove_ended_before(day100, 10, {}));
    return {};
  });
  EXPECT_EQ(count, 2U);
  EXPECT_FALSE(read().attempt(vanished).value());
  EXPECT_FALSE(read().attempt(without_end).value());
  EXPECT_TRUE(read().attempt(alive).value());
  EXPECT_TRUE(read().attempt(missed_now).value());
}

TEST_F(RecordsTest, AccountingDoesNotStateHowAJobThatLivesStands) {
  upsert(job(1), ViewSource::controller, at(10));
  upsert(job(1, JobState::resizing), ViewSource::accounting, at(20));
  const auto id = upsert(job(1), ViewSource::controller, at(30)).id;
  EXPECT_EQ(read().attempt(id).value()->attempt.state, JobState::running);
  EXPECT_EQ(read().attempt(id).value()->source, ViewSource::controller);
}

TEST_F(RecordsTest, EventsOfAnAttemptsNodesFillTheLimitAlone) {
  const auto id = upsert(job(1)).id;
  write([&](Writer& w) -> Result<void> {
    std::vector<model::Allocation> held(1);
    held[0].node = "n001";
    held[0].span.start = at(1);
    VETTA_TRY(w.set_allocations(id, held, at(10)));
    model::Event event;
    event.kind = model::EventKind::node_state;
    for (const char* node : {"n001", "", "n001", "n002", "n003", "n002"}) {
      event.node = node;
      VETTA_TRY(w.add(event, std::nullopt, "alps"));
    }
    return {};
  });
  const auto found = read().events({.nodes_of = id, .newest_first = true, .limit = 2}).value();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].id, 3U);
  EXPECT_EQ(found[1].node, "");
  EXPECT_EQ(read().events({.nodes_of = id}).value().size(), 3U);
}

TEST_F(RecordsTest, AFailedWriteLeavesNothing) {
  const auto change = [](Writer& w) -> Result<void> {
    VETTA_TRY(w.upsert(job(1), ViewSource::controller, at(1)));
    return fail(Code::internal, "on purpose");
  };
  EXPECT_FALSE(records_->write(change));
  EXPECT_EQ(read().count_jobs({}).value().total, 0U);
  EXPECT_TRUE(upsert(job(1)).is_new);
}

TEST_F(RecordsTest, AReaderSeesOneMoment) {
  upsert(job(1));
  auto reader = read();
  EXPECT_EQ(reader.count_jobs({}).value().total, 1U);
  upsert(job(2));
  EXPECT_EQ(reader.count_jobs({}).value().total, 1U);
  EXPECT_EQ(read().count_jobs({}).value().total, 2U);
}

TEST_F(RecordsTest, ASecondProcessIsRefused) {
  const auto second = Records::open({.path = dir_ / "records.db"});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::conflict);
}

TEST_F(RecordsTest, AFullDiskSaysSoAndLosesNothing) {
  records_.reset();
  auto small =
      Records::open({.path = dir_ / "records.db", .is_synced = false, .file_bytes_max = 400'000});
  ASSERT_TRUE(small);
  records_ = std::move(*small);
  std::uint64_t kept = 0;
  Result<void> done;
  for (std::uint64_t id = 1; id < 10'000 && done; ++id) {
    const auto change = [&](Writer& w) -> Result<void> {
      auto large = job(id);
      large.comment.assign(3000, 'x');
      VETTA_TRY(w.upsert(large, ViewSource::controller, at(1)));
      return {};
    };
    done = records_->write(change);
    if (done) ++kept;
  }
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::exhausted);
  EXPECT_NE(done.error().text().find("free space"), std::string::npos) << done.error().text();
  EXPECT_GT(kept, 10U);
  EXPECT_EQ(read().count_jobs({}).value().total, kept);
  open();
  EXPECT_EQ(read().count_jobs({}).value().total, kept);
}

TEST_F(RecordsTest, ALockHeldElsewhereSaysSo) {
  records_.reset();
  auto opened = Records::open(
      {.path = dir_ / "records.db", .wait_max = std::chrono::milliseconds(1), .is_synced = false});
  ASSERT_TRUE(opened);
  records_ = std::move(*opened);
  upsert(job(1));
  auto other =
      Database::open({.path = dir_ / "records.db", .is_writer = true, .cache_bytes = 1U << 20U});
  ASSERT_TRUE(other);
  ASSERT_TRUE((*other)->execute("BEGIN IMMEDIATE"));
  const auto change = [](Writer& w) { return w.set_cursor("x", 1); };
  const auto refused = records_->write(change);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);
  EXPECT_NE(refused.error().text().find("fuser"), std::string::npos) << refused.error().text();
  ASSERT_TRUE((*other)->execute("ROLLBACK"));
  EXPECT_TRUE(records_->write(change));
  EXPECT_EQ(read().count_jobs({}).value().total, 1U);
}

TEST_F(RecordsTest, ADamagedFileSaysWhatToDo) {
  records_.reset();
  const auto path = dir_ / "other.db";
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  const std::string junk(8192, 'j');
  ASSERT_EQ(::write(fd, junk.data(), junk.size()), 8192);
  ::close(fd);
  const auto opened = Records::open({.path = path});
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().text().find("move it away"), std::string::npos) << opened.error().text();
}

TEST_F(RecordsTest, PoolHasALimit) {
  records_.reset();
  auto opened = Records::open(
      {.path = dir_ / "records.db", .readers = 1, .wait_max = std::chrono::milliseconds(1)});
  ASSERT_TRUE(opened);
  auto first = (*opened)->read();
  ASSERT_TRUE(first);
  const auto second = (*opened)->read();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::unavailable);
}

TEST(Schema, AnOlderDatabaseIsBroughtUp) {
  const auto dir = std::filesystem::path(testing::TempDir()) / fmt::format("schema-{}", getpid());
  std::filesystem::create_directories(dir);
  const auto path = dir / "old.db";
  const auto steps = schema_steps();
  {
    auto database = Database::open({.path = path, .is_writer = true, .cache_bytes = 1U << 20U});
    ASSERT_TRUE(database);
    ASSERT_TRUE(migrate(**database, steps.first(1)));
    EXPECT_EQ((*database)->number("PRAGMA user_version").value(), 1);
    ASSERT_TRUE(
        (*database)->execute("INSERT INTO cursors(name,value) VALUES('accounting:alps',42)"));
    ASSERT_TRUE((*database)->execute(
        "INSERT INTO ranks VALUES(5,1,0,1,'0',0,0,3,1,8,3,'n001',0,77,'',1,1,5,NULL,0,NULL,0)"));
    EXPECT_EQ((*database)
                  ->number("SELECT count(*) FROM sqlite_master WHERE name='attempts_list'")
                  .value(),
              0);
  }
  {
    auto records = Records::open({.path = path});
    ASSERT_TRUE(records) << records.error().text();
    EXPECT_EQ((*records)->read()->cursor("accounting:alps").value(), 42);
    const auto rank = (*records)->read()->rank(5).value();
    ASSERT_TRUE(rank);
    EXPECT_EQ(rank->rank.node, "n001");
    EXPECT_FALSE(rank->now) << "missing is not zero";
  }
  {
    auto database = Database::open({.path = path, .is_writer = true, .cache_bytes = 1U << 20U});
    EXPECT_EQ((*database)->number("PRAGMA user_version").value(), Records::schema_version());
    // A step that fails leaves the schema before it.
    std::vector<const char*> broken(steps.begin(), steps.end());
    broken.push_back("CREATE TABLE x(y); NONSENSE;");
    EXPECT_FALSE(migrate(**database, broken));
    EXPECT_EQ((*database)->number("PRAGMA user_version").value(), Records::schema_version());
    EXPECT_EQ((*database)->number("SELECT count(*) FROM sqlite_master WHERE name='x'").value(), 0);
    ASSERT_TRUE((*database)->execute("PRAGMA user_version = 999"));
  }
  const auto later = Records::open({.path = path});
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, Code::conflict);
  EXPECT_NE(later.error().text().find("schema 999"), std::string::npos) << later.error().text();
  std::filesystem::remove_all(dir);
}

TEST_F(RecordsTest, ReadersWorkBesideTheWriter) {
  std::atomic<bool> is_done = false;
  std::atomic<std::uint64_t> reads = 0;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      std::uint64_t last = 0;
      while (!is_done) {
        const auto total = records_->read()->count_jobs({}).value().total;
        EXPECT_GE(total, last);
        last = total;
        ++reads;
      }
    });
  }
  for (std::uint64_t id = 1; id <= 100; ++id) upsert(job(id));
  while (reads < 10) std::this_thread::yield();
  is_done = true;
  readers.clear();
  EXPECT_EQ(read().count_jobs({}).value().total, 100U);
}

}  // namespace
}  // namespace vetta::records
