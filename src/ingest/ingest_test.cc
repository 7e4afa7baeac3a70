// SPDX-License-Identifier: Apache-2.0
#include "ingest/ingest.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <map>

#include "ingest/stand_detail.h"

namespace vetta::ingest {
namespace {

using model::Attempt;
using model::JobState;
using model::Knowledge;

Attempt job(std::uint64_t id, JobState state, std::int64_t submit = 0) {
  Attempt a;
  a.key = {"alps", id, at(submit)};
  a.state = state;
  a.user = "ada";
  a.uid = 1000;
  if (state != JobState::pending) {
    a.start = at(submit + 10);
    a.nodes = "n[001-002]";
  }
  if (model::is_final(state)) a.end = at(submit + 1000);
  return a;
}

slurm::Snapshot snapshot(std::int64_t time, std::vector<Attempt> jobs) {
  slurm::Snapshot s;
  s.cluster = "alps";
  s.at = at(time);
  s.jobs.knowledge = Knowledge::known;
  s.allocations.knowledge = Knowledge::known;
  for (const auto& a : jobs) {
    if (!model::holds_nodes(a.state)) continue;
    auto& held = s.allocations.value.emplace_back();
    held.key = a.key;
    for (const char* node : {"n001", "n002"}) {
      auto& allocation = held.allocations.emplace_back();
      allocation.node = node;
      allocation.span = {*a.start, {}};
      allocation.cpus = 8;
    }
  }
  s.jobs.value = std::move(jobs);
  return s;
}

slurm::Accounting accounting(std::int64_t until, std::vector<Attempt> attempts) {
  slurm::Accounting a;
  a.cluster = "alps";
  a.until = at(until);
  a.attempts.knowledge = Knowledge::known;
  for (auto& attempt : attempts) a.attempts.value.push_back({std::move(attempt), {}});
  return a;
}

model::Hello hello(const std::string& node = "n001") {
  model::Hello h;
  h.cluster = "alps";
  h.node = node;
  return h;
}

model::Rank rank(std::uint64_t id, std::uint64_t job_id, std::int32_t number = 0,
                 std::int64_t start = 15) {
  model::Rank r;
  r.rank_id = id;
  r.job_id = job_id;
  r.step_id = "0";
  r.rank = number;
  r.world_size = 2;
  r.node = "n001";
  r.uid = 1000;
  r.is_probed = true;
  r.start = at(start);
  return r;
}

std::vector<model::Mark> marks(std::uint64_t first, std::uint64_t last) {
  std::vector<model::Mark> out;
  for (auto s = first; s <= last; ++s) {
    auto& m = out.emplace_back();
    m.sequence = s;
    m.step = static_cast<std::int64_t>(s);
    m.start = at(20 + static_cast<std::int64_t>(s));
    m.duration = std::chrono::seconds(1);
  }
  return out;
}

model::Batch batch(std::uint64_t sequence) {
  model::Batch b;
  b.agent_id = 42;
  b.sequence = sequence;
  return b;
}

class IngestTest : public testing::Test {
 protected:
  records::AttemptRow row(std::uint64_t id, std::int64_t submit = 0) {
    return stand_.records->read()
        ->attempt(model::AttemptKey{"alps", id, at(submit)})
        .value()
        .value();
  }

  std::size_t mark_count(std::uint64_t id, std::int64_t submit = 0) {
    std::size_t count = 0;
    const auto take = [&](const series::RankRef&, const model::Mark&) {
      ++count;
      return true;
    };
    EXPECT_TRUE(stand_.files->scan_marks({"alps", id, at(submit)}, series::ScanFilter(), take));
    return count;
  }

  Stand stand_{"ingest"};
};

TEST_F(IngestTest, ARankOfAnUnknownJobWaitsAndLosesNothing) {
  auto first = batch(1);
  first.ranks = {rank(7, 1)};
  first.marks = {{7, 0, marks(1, 10)}};
  model::RankSample sample;
  sample.time = at(20);
  sample.rss_bytes = 5;
  first.rank_samples = {{7, {sample}}};
  first.ends = {{7, at(300), 3, {}}};
  model::Event oom;
  oom.rank_id = 7;
  oom.kind = model::EventKind::oom_kill;
  oom.dedup = "oom-1";
  first.events = {oom};
  const auto ack = stand_.ingest->take(hello(), first).value();
  EXPECT_EQ(ack.unplaced, std::vector<std::uint64_t>{7});
  EXPECT_EQ(stand_.nudges, 1);
  EXPECT_EQ(mark_count(1), 0U);
  stand_.open();
  ASSERT_TRUE(stand_.ingest->take(snapshot(30, {job(1, JobState::running)})));
  // The agent sends the marks again; everything else is here.
  auto second = batch(2);
  second.marks = {{7, 2, marks(1, 10)}};
  const auto again = stand_.ingest->take(hello(), second).value();
  EXPECT_TRUE(again.unplaced.empty());
  EXPECT_EQ(mark_count(1), 10U);
  EXPECT_EQ(stand_.files->info(row(1).attempt.key).value()->samples, 1U);
  const auto known = stand_.records->read()->rank(7).value().value();
  EXPECT_EQ(known.rank.exit_code, 3);
  EXPECT_EQ(known.overwritten, 2U);
  records::EventFilter filter;
  filter.attempt = row(1).id;
  const auto events = stand_.records->read()->events(filter).value();
  std::map<model::EventKind, int> kinds;
  for (const auto& e : events) ++kinds[e.kind];
  EXPECT_EQ(kinds[model::EventKind::oom_kill], 1);
  EXPECT_EQ(kinds[model::EventKind::rank_exit], 1);
  EXPECT_EQ(kinds[model::EventKind::job_state], 1);
  EXPECT_TRUE(stand_.records->read()->unplaced("alps")->empty());
}

TEST_F(IngestTest, ARankThatWaitsTakesBoundedRoom) {
  stand_.options.unplaced_rest_max = 3;
  stand_.options.unplaced_rows_max = 6;
  stand_.open();
  const auto rows = [&] { return stand_.records->read()->unplaced("alps")->size(); };
  for (std::uint64_t sequence = 1; sequence <= 10; ++sequence) {
    auto b = batch(sequence);
    b.ranks = {rank(7, 1)};
    model::RankSample sample;
    sample.time = at(20 + static_cast<std::int64_t>(sequence));
    sample.rss_bytes = sequence;
    b.rank_samples = {{7, {sample}}};
    ASSERT_TRUE(stand_.ingest->take(hello(), b));
  }
  EXPECT_EQ(rows(), 4U) << "one registration, three samples";
  EXPECT_EQ(stand_.ingest->meters().taken.unplaced_dropped, 7U);
  auto many = batch(11);
  for (std::uint64_t id = 20; id < 30; ++id) many.ranks.push_back(rank(id, 2));
  EXPECT_EQ(stand_.ingest->take(hello(), many).value().unplaced.size(), 10U);
  EXPECT_EQ(rows(), 6U) << "all ranks together";
  ASSERT_TRUE(stand_.ingest->take(snapshot(30, {job(1, JobState::running)})));
  EXPECT_EQ(rows(), 2U) << "those of job 2";
  std::vector<std::uint64_t> kept;
  const auto take = [&](const series::RankRef&, const model::RankSample& s) {
    kept.push_back(s.rss_bytes.value_or(0));
    return true;
  };
  ASSERT_TRUE(stand_.files->scan_samples(row(1).attempt.key, series::ScanFilter(), take));
  EXPECT_EQ(kept, (std::vector<std::uint64_t>{8, 9, 10})) << "the newest";
}

TEST_F(IngestTest, WhatWaitedIsTakenUpAfterAStartToo) {
  auto b = batch(1);
  b.ranks = {rank(7, 1)};
  b.ends = {{7, at(300), 3, {}}};
  ASSERT_TRUE(stand_.ingest->take(hello(), b));
  // A stop between the snapshot and what follows from it: the job is kept, the rank still waits.
  ASSERT_TRUE(stand_.records->write([&](records::Writer& w) -> Result<void> {
    VETTA_TRY(w.upsert(job(1, JobState::running), records::ViewSource::controller, at(12)));
    return w.set_snapshot_time("alps", records::Listing::jobs, at(12));
  }));
  stand_.open();
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  EXPECT_EQ(stand_.records->read()->rank(7).value()->rank.exit_code, 3);
  EXPECT_TRUE(stand_.records->read()->unplaced("alps")->empty());
}

TEST_F(IngestTest, WhereARankIsIsKeptAndNeverTurnsBack) {
  const auto now_of = [&] { return stand_.records->read()->rank(7).value().value().now; };
  auto b = batch(1);
  b.ranks = {rank(7, 1)};
  b.places = {{7, {15, model::Phase::data, at(20), 14}}};
  const auto ack = stand_.ingest->take(hello(), b).value();
  EXPECT_EQ(ack.unplaced, std::vector<std::uint64_t>{7});
  ASSERT_TRUE(stand_.ingest->take(snapshot(30, {job(1, JobState::running)})));
  ASSERT_TRUE(stand_.ingest->take(hello(), batch(2)));  // takes up what waited
  EXPECT_EQ(now_of(), (model::RankNow{15, model::Phase::data, at(20), 14}));
  const auto tell = [&](std::uint64_t sequence, const model::RankNow& now) {
    auto other = batch(sequence);
    other.places = {{7, now}};
    EXPECT_TRUE(stand_.ingest->take(hello(), other).value().unplaced.empty());
  };
  tell(3, {{}, {}, at(40), 16});
  EXPECT_EQ(now_of(), (model::RankNow{{}, {}, at(40), 16})) << "between steps, in no phase";
  tell(4, {15, model::Phase::data, at(20), 14});
  tell(5, {17, model::Phase::forward, at(30), 16});
  EXPECT_EQ(now_of(), (model::RankNow{{}, {}, at(40), 16})) << "older news";
  tell(6, {18, static_cast<model::Phase>(77), at(90), 17});
  EXPECT_EQ(now_of(), (model::RankNow{{}, {}, at(40), 16})) << "no phase of this version";
  auto repeated = batch(7);
  repeated.ranks = {rank(7, 1)};
  ASSERT_TRUE(stand_.ingest->take(hello(), repeated));
  EXPECT_TRUE(now_of()) << "a registration that comes again leaves it";
}

TEST_F(IngestTest, APlaceOfAnUnknownRankIsToldToTheAgent) {
  auto b = batch(1);
  b.places = {{7, {15, {}, at(20), 14}}};
  EXPECT_EQ(stand_.ingest->take(hello(), b).value().unplaced, std::vector<std::uint64_t>{7});
}

TEST_F(IngestTest, ABatchThatComesAgainCountsOnce) {
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  auto b = batch(1);
  b.ranks = {rank(7, 1)};
  b.marks = {{7, 0, marks(1, 5)}};
  model::NodeSample sample;
  sample.time = at(1);
  sample.load_1m = 0.5;
  b.node_samples = {sample};
  model::Event e;
  e.kind = model::EventKind::exception;
  e.rank_id = 7;
  b.events = {e};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(stand_.ingest->take(hello(), b).value().sequence, 1U);
    if (i == 1) stand_.open();
  }
  EXPECT_EQ(mark_count(1), 5U);
  EXPECT_EQ(stand_.store->latest("load_1m", "alps").size(), 1U);
  records::EventFilter filter;
  filter.kinds = {model::EventKind::exception};
  EXPECT_EQ(stand_.records->read()->events(filter)->size(), 1U);
}

TEST_F(IngestTest, NoRoomForANodesSeriesHoldsUpNothingElse) {
  stand_.series_max = 1;
  stand_.open();
  const auto tell = [&](std::uint64_t sequence, const std::string& node) {
    auto b = batch(sequence);
    model::NodeSample sample;
    sample.time = at(1);
    sample.load_1m = 0.5;
    b.node_samples = {sample, sample};
    auto& e = b.events.emplace_back();
    e.kind = model::EventKind::oom_kill;
    e.dedup = node;
    const auto ack = stand_.ingest->take(hello(node), b);
    ASSERT_TRUE(ack) << ack.error().text();
    EXPECT_EQ(ack->sequence, sequence);
  };
  tell(1, "n001");
  EXPECT_EQ(stand_.ingest->meters().taken.refused, 0U);
  tell(2, "n002");
  EXPECT_EQ(stand_.ingest->meters().taken.refused, 2U);
  EXPECT_EQ(stand_.store->latest("load_1m").size(), 1U);
  records::EventFilter filter;
  filter.kinds = {model::EventKind::oom_kill};
  EXPECT_EQ(stand_.records->read()->events(filter)->size(), 2U);
}

TEST_F(IngestTest, EventsOfOneJobAreBoundedAndTheRestIsCounted) {
  stand_.options.events_max = 20;
  stand_.open();
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  const auto tell = [&](std::uint64_t sequence, std::uint64_t rank_id, int count) {
    auto b = batch(sequence);
    if (rank_id == 7) b.ranks = {rank(7, 1)};
    for (int i = 0; i < count; ++i) {
      auto& e = b.events.emplace_back();
      e.kind = model::EventKind::exception;
      e.rank_id = rank_id;
      e.dedup = fmt::format("{}-{}-{}", rank_id, sequence, i);
      e.message = std::string(100'000, 'x');
    }
    ASSERT_TRUE(stand_.ingest->take(hello(), b));
  };
  tell(1, 7, 25);
  stand_.open();
  tell(2, 7, 5);
  tell(3, 7, 5);
  records::EventFilter filter;
  filter.attempt = row(1).id;
  const auto events = stand_.records->read()->events(filter).value();
  EXPECT_EQ(events.size(), 21U);
  for (const auto& e : events) EXPECT_LE(e.message.size(), 4096U);
  EXPECT_EQ(events.back().message, "16 further events of this job were not kept: 20 are");
  EXPECT_EQ(stand_.ingest->meters().taken.events_dropped, 10U) << "since the start";
  // Slurm's own word is always kept.
  ASSERT_TRUE(stand_.ingest->take(accounting(2000, {job(1, JobState::failed)})));
  EXPECT_EQ(stand_.records->read()->events(filter)->size(), 22U);
  tell(4, 99, 5);  // a rank that waits: a tenth of it
  filter.attempt.reset();
  EXPECT_EQ(stand_.records->read()->events(filter)->size(), 24U);
}

TEST_F(IngestTest, ARestartOfRanksIsAnotherIncarnation) {
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  auto b = batch(1);
  auto again = rank(9, 1);
  again.elastic_restart = 1;
  b.ranks = {rank(7, 1, 0), rank(8, 1, 1), again};
  ASSERT_TRUE(stand_.ingest->take(hello(), b));
  const auto all = stand_.records->read()->incarnations(row(1).id).value();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].ranks, 2U);
  EXPECT_EQ(all[1].elastic_restart, 1U);
  EXPECT_EQ(stand_.records->read()->rank(9).value()->rank.incarnation, 1U);
}

TEST_F(IngestTest, RanksGoToTheirOwnAttempt) {
  auto second = job(1, JobState::running, 2000);
  second.restart = 1;
  auto b = batch(1);
  auto late = rank(8, 1, 0, 2015);
  late.slurm_restart = 1;
  b.ranks = {rank(7, 1), late};
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  EXPECT_EQ(stand_.ingest->take(hello(), b).value().unplaced, std::vector<std::uint64_t>{8});
  ASSERT_TRUE(stand_.ingest->take(snapshot(2020, {second})));
  EXPECT_EQ(stand_.records->read()->rank(7).value()->attempt, row(1, 0).id);
  EXPECT_EQ(stand_.records->read()->rank(8).value()->attempt, row(1, 2000).id);
  // The first attempt is over: its nodes are free from then on.
  for (const auto& held : value_of(stand_.records->read()->allocations(row(1, 0).id)))
    EXPECT_EQ(held.span.end, at(2000));
}

TEST_F(IngestTest, ARankGoesToNoJobOfAnotherUser) {
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  auto b = batch(1);
  auto foreign = rank(7, 1), of_root = rank(8, 1, 1);
  foreign.uid = 1001;
  of_root.uid = 0;
  b.ranks = {foreign, of_root};
  b.marks = {{7, 0, marks(1, 10)}};
  model::Event e;
  e.kind = model::EventKind::exception;
  e.rank_id = 7;
  e.attempt = model::AttemptKey{"alps", 1, at(0)};
  b.events = {e};
  EXPECT_EQ(stand_.ingest->take(hello(), b).value().unplaced, (std::vector<std::uint64_t>{7, 8}));
  EXPECT_EQ(mark_count(1), 0U);
  EXPECT_TRUE(stand_.records->read()->ranks(row(1).id)->empty());
  records::EventFilter filter;
  filter.attempt = row(1).id;
  filter.kinds = {model::EventKind::exception};
  EXPECT_TRUE(stand_.records->read()->events(filter)->empty());
  EXPECT_EQ(stand_.ingest->meters().taken.ranks_of_other_user, 2U);
  EXPECT_EQ(stand_.nudges, 0) << "Slurm's answer would not change it";
  // The same job id under its own user is placed, and so are ranks of a job whose user is unknown.
  auto own = batch(2);
  own.ranks = {rank(9, 1)};
  EXPECT_TRUE(stand_.ingest->take(hello(), own).value().unplaced.empty());
  auto nobodys = job(2, JobState::running);
  nobodys.uid.reset();
  ASSERT_TRUE(stand_.ingest->take(snapshot(13, {job(1, JobState::running), nobodys})));
  auto third = batch(3);
  third.ranks = {rank(10, 2)};
  EXPECT_TRUE(stand_.ingest->take(hello(), third).value().unplaced.empty());
}

TEST_F(IngestTest, ARankGoesToNoJobThatDoesNotHoldItsNode) {
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  auto b = batch(1);
  auto elsewhere = rank(7, 1);
  elsewhere.node = "n009";
  b.ranks = {elsewhere};
  EXPECT_EQ(stand_.ingest->take(hello("n009"), b).value().unplaced, std::vector<std::uint64_t>{7});
  EXPECT_EQ(stand_.ingest->meters().taken.ranks_off_node, 1U);
  // The job grows onto that node.
  auto s = snapshot(20, {job(1, JobState::running)});
  auto& more = s.allocations.value[0].allocations.emplace_back();
  more.node = "n009";
  more.span = {at(14), {}};
  ASSERT_TRUE(stand_.ingest->take(s));
  EXPECT_EQ(stand_.records->read()->rank(7).value()->attempt, row(1).id);
  // Long before the job had the node, it was another's.
  auto early = job(2, JobState::running);
  early.start = at(2000);
  ASSERT_TRUE(stand_.ingest->take(snapshot(2010, {early})));
  auto second = batch(2);
  second.ranks = {rank(8, 2, 0, 15)};
  EXPECT_EQ(stand_.ingest->take(hello(), second).value().unplaced, std::vector<std::uint64_t>{8});
}

TEST_F(IngestTest, AnEmptyAnswerNeverMeansGone) {
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  auto blind = snapshot(20, {});
  blind.jobs.knowledge = Knowledge::could_not_ask;
  blind.allocations.knowledge = Knowledge::could_not_ask;
  ASSERT_TRUE(stand_.ingest->take(blind));
  EXPECT_EQ(row(1).gap, "");
  ASSERT_TRUE(stand_.ingest->take(snapshot(30, {})));
  EXPECT_EQ(row(1).attempt.state, JobState::running);
  EXPECT_NE(row(1).gap.find("no longer"), std::string::npos);
  ASSERT_TRUE(stand_.ingest->take(snapshot(40, {job(1, JobState::running)})));
  EXPECT_EQ(row(1).gap, "");
  ASSERT_TRUE(stand_.ingest->take(snapshot(50, {})));
  ASSERT_TRUE(stand_.ingest->take(accounting(60, {job(1, JobState::timeout)})));
  EXPECT_EQ(row(1).gap, "");
  EXPECT_EQ(row(1).attempt.state, JobState::timeout);
  for (const auto& held : value_of(stand_.records->read()->allocations(row(1).id)))
    EXPECT_EQ(held.span.end, at(1000));
  auto failed = accounting(70, {});
  failed.attempts.knowledge = Knowledge::could_not_ask;
  EXPECT_FALSE(stand_.ingest->take(failed));
  EXPECT_EQ(stand_.ingest->accounting_watermark("alps").value(), at(60));
}

TEST_F(IngestTest, AccountingAloneMakesAttemptsWithAllocations) {
  ASSERT_TRUE(stand_.ingest->take(accounting(60, {job(1, JobState::failed)})));
  const auto held = stand_.records->read()->allocations(row(1).id).value();
  ASSERT_EQ(held.size(), 2U);
  EXPECT_EQ(held[1].node, "n002");
  EXPECT_EQ(held[1].span.start, at(10));
  EXPECT_EQ(held[1].span.end, at(1000));
  ASSERT_EQ(stand_.events.size(), 2U);
  EXPECT_EQ(stand_.events[1].message, "RUNNING → FAILED");
  EXPECT_GT(stand_.events[1].id, stand_.events[0].id);
}

TEST_F(IngestTest, SealsWhenAllRanksHaveEnded) {
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  auto b = batch(1);
  b.ranks = {rank(7, 1), rank(8, 1, 1)};
  b.marks = {{7, 0, marks(1, 5)}};
  b.ends = {{7, at(990), 0, {}}};
  ASSERT_TRUE(stand_.ingest->take(hello(), b));
  ASSERT_TRUE(stand_.ingest->take(snapshot(1001, {job(1, JobState::completed)})));
  ASSERT_TRUE(stand_.ingest->tick(at(1100)));
  EXPECT_FALSE(row(1).is_sealed) << "rank 8 has not ended";
  ASSERT_TRUE(stand_.ingest->tick(at(1000 + 15 * 60 + 1)));
  EXPECT_TRUE(row(1).is_sealed);
  EXPECT_TRUE(stand_.files->info(row(1).attempt.key).value()->is_sealed);
  const auto lost = stand_.records->read()->rank(8).value().value();
  EXPECT_EQ(lost.rank.end, at(1000));
  EXPECT_FALSE(lost.rank.exit_code);
  // Marks that were still on the node are taken all the same, and so is the true exit.
  auto late = batch(2);
  late.marks = {{8, 0, marks(1, 3)}};
  late.ends = {{8, at(995), {}, 9}};
  ASSERT_TRUE(stand_.ingest->take(hello(), late));
  EXPECT_EQ(mark_count(1), 8U);
  EXPECT_EQ(stand_.records->read()->rank(8).value()->rank.exit_signal, 9);
}

TEST_F(IngestTest, NodesThatComeAndGoWithWorkAreNoNews) {
  auto s = snapshot(1, {});
  s.nodes.knowledge = Knowledge::known;
  model::Node node;
  node.name = "n001";
  const auto tell = [&](std::int64_t time, std::vector<std::string> states, std::string reason) {
    node.states = std::move(states);
    node.reason = std::move(reason);
    s.at = at(time);
    s.nodes.value = {node};
    stand_.events.clear();
    EXPECT_TRUE(stand_.ingest->take(s));
    return stand_.events.size();
  };
  EXPECT_EQ(tell(1, {"IDLE"}, ""), 0U);
  EXPECT_EQ(tell(2, {"MIXED"}, ""), 0U);
  EXPECT_EQ(tell(3, {"MIXED", "DRAIN"}, "bad fan"), 1U);
  EXPECT_EQ(stand_.events[0].message, "usable → DRAIN: bad fan");
  EXPECT_EQ(tell(4, {"IDLE", "DRAIN"}, "bad fan"), 0U);
  EXPECT_EQ(tell(2, {"IDLE"}, ""), 0U) << "an older snapshot";
  EXPECT_EQ(tell(5, {"IDLE"}, ""), 1U);
}

TEST_F(IngestTest, RetentionIsInSlicesAndTakesFiles) {
  for (std::uint64_t id = 1; id <= 5; ++id) {
    ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(id, JobState::running)})));
    auto b = batch(id);
    b.ranks = {rank(100 + id, id)};
    b.marks = {{100 + id, 0, marks(1, 5)}};
    ASSERT_TRUE(stand_.ingest->take(hello(), b));
    ASSERT_TRUE(stand_.ingest->take(accounting(2000, {job(id, JobState::completed)})));
  }
  stand_.options.retention_slice = 2;
  stand_.open();
  const Time later = at(91 * 24 * 3600);
  std::vector<std::uint64_t> left;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(stand_.ingest->tick(later + std::chrono::minutes(2 * i)));
    left.push_back(stand_.records->read()->count_jobs(records::JobFilter()).value().total);
  }
  EXPECT_EQ(left, (std::vector<std::uint64_t>{3, 1, 0, 0}));
  EXPECT_EQ(mark_count(1), 0U);
  EXPECT_FALSE(std::filesystem::exists(stand_.files->path(job(1, JobState::running).key)));
}

TEST_F(IngestTest, ADamagedFileHoldsUpNeitherTheOthersNorTheRetention) {
  auto b = batch(1);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    b.ranks.push_back(rank(100 + id, id));
    b.marks.push_back({100 + id, 0, marks(1, 5)});
  }
  const auto jobs = [](JobState state) {
    return std::vector{job(1, state), job(2, state), job(3, state)};
  };
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, jobs(JobState::running))));
  ASSERT_TRUE(stand_.ingest->take(hello(), b));
  stand_.close();
  stand_.open();
  std::ofstream(stand_.files->path(row(1).attempt.key)) << "no marks at all";
  auto second = batch(2);
  for (std::uint64_t id = 1; id <= 3; ++id) second.marks.push_back({100 + id, 0, marks(6, 10)});
  second.ends = {{101, at(900), 0, {}}, {102, at(900), 0, {}}, {103, at(900), 0, {}}};
  ASSERT_TRUE(stand_.ingest->take(hello(), second));
  EXPECT_EQ(stand_.ingest->meters().taken.refused, 0U);
  EXPECT_EQ(mark_count(1), 5U) << "what is acknowledged is kept, in a new file";
  EXPECT_EQ(mark_count(2), 10U);
  const auto aside = stand_.files->path(row(1).attempt.key).native() + ".damaged-1";
  EXPECT_EQ(std::filesystem::file_size(aside), 15U);
  ASSERT_TRUE(stand_.ingest->take(accounting(2000, jobs(JobState::completed))));
  ASSERT_TRUE(stand_.ingest->tick(at(2000)));
  for (std::uint64_t id = 1; id <= 3; ++id) EXPECT_TRUE(row(id).is_sealed) << id;
  EXPECT_TRUE(stand_.files->info(row(3).attempt.key).value()->is_sealed);
  records::EventFilter filter;
  filter.kinds = {model::EventKind::gap};
  const auto gaps = stand_.records->read()->events(filter).value();
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_EQ(gaps[0].attempt, row(1).attempt.key);
  EXPECT_NE(gaps[0].message.find(aside), std::string::npos) << gaps[0].message;
  ASSERT_TRUE(stand_.ingest->tick(at(91 * 24 * 3600)));
  EXPECT_EQ(stand_.records->read()->count_jobs(records::JobFilter()).value().total, 0U);
  EXPECT_FALSE(std::filesystem::exists(aside));
}

TEST_F(IngestTest, AnEndedAttemptsDamagedFileIsToldAndLeftAsItIs) {
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  auto b = batch(1);
  b.ranks = {rank(101, 1)};
  b.marks = {{101, 0, marks(1, 5)}};
  b.ends = {{101, at(900), 0, {}}};
  ASSERT_TRUE(stand_.ingest->take(hello(), b));
  stand_.open();
  const auto path = stand_.files->path(row(1).attempt.key);
  std::ofstream{path};  // emptied
  EXPECT_EQ(mark_count(1), 0U);
  ASSERT_TRUE(stand_.ingest->take(accounting(2000, {job(1, JobState::completed)})));
  ASSERT_TRUE(stand_.ingest->tick(at(2000)));
  EXPECT_TRUE(row(1).is_sealed);
  records::EventFilter filter;
  filter.kinds = {model::EventKind::gap};
  EXPECT_EQ(stand_.records->read()->events(filter).value().size(), 1U);
  EXPECT_EQ(std::filesystem::file_size(path), 0U);
}

TEST_F(IngestTest, OldSeriesGoThoughANewerWindowCannotBeSealed) {
  constexpr std::int64_t day = 24 * 3600;
  auto b = batch(1);
  model::NodeSample sample;
  sample.load_1m = 0.5;
  for (const std::int64_t seconds : {std::int64_t{1}, 40 * day}) {
    sample.time = at(seconds);
    b.node_samples.push_back(sample);
  }
  ASSERT_TRUE(stand_.ingest->take(hello(), b));
  const auto journals = [&] {
    std::vector<std::filesystem::path> out;
    for (const auto& entry : std::filesystem::directory_iterator(stand_.dir / "series"))
      if (entry.path().extension() == ".journal") out.push_back(entry.path());
    std::ranges::sort(out);
    return out;
  };
  ASSERT_EQ(journals().size(), 2U);
  const auto newer = journals()[1];
  // Nothing can be written there, as on a full disk: a folder has the sealed file's name.
  std::filesystem::create_directories(std::filesystem::path(newer).replace_extension(".sealed"));
  EXPECT_FALSE(stand_.ingest->tick(at(41 * day)));
  EXPECT_EQ(journals(), std::vector{newer});
  EXPECT_EQ(stand_.store->latest("load_1m", "alps").size(), 1U);
}

TEST_F(IngestTest, ASnapshotThatFindsNoRoomIsToldUntilOneIsKept) {
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  EXPECT_FALSE(stand_.ingest->snapshot_unkept());
  stand_.close();
  stand_.records_bytes_max = std::filesystem::file_size(stand_.dir / "records.db") + 40'000;
  stand_.open();
  std::vector<Attempt> many;
  for (std::uint64_t id = 1; id <= 2000; ++id) many.push_back(job(id, JobState::running));
  ASSERT_FALSE(stand_.ingest->take(snapshot(15, many)));
  const auto why = stand_.ingest->snapshot_unkept();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, Code::exhausted) << why->text();
  ASSERT_TRUE(stand_.ingest->take(snapshot(18, {job(1, JobState::running)})));
  EXPECT_FALSE(stand_.ingest->snapshot_unkept());
}

TEST_F(IngestTest, AListWithARecordThatCouldNotBeReadMissesNobody) {
  ASSERT_TRUE(stand_.ingest->take(snapshot(12, {job(1, JobState::running)})));
  auto partial = snapshot(15, {job(2, JobState::running)});
  partial.jobs.refused = {{.line = 1, .reason = "SubmitTime is no time"}};
  ASSERT_TRUE(stand_.ingest->take(partial));
  EXPECT_EQ(row(1).gap, "");
  ASSERT_TRUE(stand_.ingest->take(snapshot(18, {job(2, JobState::running)})));
  EXPECT_NE(row(1).gap, "");
  partial = snapshot(21, {job(1, JobState::running)});
  partial.jobs.refused = {{.line = 2, .reason = "SubmitTime is no time"}};
  ASSERT_TRUE(stand_.ingest->take(partial));
  EXPECT_EQ(row(1).gap, "") << "it is back";
  EXPECT_EQ(row(2).gap, "");
}

TEST_F(IngestTest, HetRanksUnderTheLeadersIdGoByNode) {
  auto leader = job(10, JobState::running);
  leader.het = model::Het{10, 0};
  auto component = job(11, JobState::running);
  component.het = model::Het{10, 1};
  auto s = snapshot(12, {leader, component});
  s.allocations.value[0].allocations.resize(1);
  s.allocations.value[0].allocations[0].node = "a001";
  s.allocations.value[1].allocations.resize(1);
  s.allocations.value[1].allocations[0].node = "b001";
  ASSERT_TRUE(stand_.ingest->take(s));
  auto b = batch(1);
  auto on_component = rank(7, 10, 1);
  on_component.node = "b001";
  auto on_leader = rank(8, 10, 0);
  on_leader.node = "a001";
  b.ranks = {on_component, on_leader};
  ASSERT_TRUE(stand_.ingest->take(hello(), b));
  EXPECT_EQ(stand_.records->read()->rank(7).value()->attempt, row(11).id);
  EXPECT_EQ(stand_.records->read()->rank(8).value()->attempt, row(10).id);
}

}  // namespace
}  // namespace vetta::ingest
