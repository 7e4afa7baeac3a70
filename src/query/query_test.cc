// SPDX-License-Identifier: Apache-2.0
#include "query/query.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include "query/event_hub.h"

namespace vetta::query {
namespace {

using model::Attempt;
using model::JobState;

Time at(std::int64_t seconds) {
  return from_epoch_seconds(1'700'000'000 + seconds);
}

Attempt job(std::uint64_t id, std::int64_t submit = 0, const std::string& user = "ada") {
  Attempt a;
  a.key = {"alps", id, at(submit)};
  a.state = JobState::running;
  a.start = at(submit + 1);
  a.user = user;
  a.uid = user == "ada" ? 1000 : 1001;
  return a;
}

class QueryTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(testing::TempDir()) /
           fmt::format("query-{}-{}", getpid(), counter_++);
    std::filesystem::create_directories(dir_);
    records_ = records::Records::open({.path = dir_ / "records.db", .is_synced = false}).value();
    files_ = series::AttemptFiles::open({.dir = dir_ / "marks", .is_synced = false}).value();
    store_ = series::Store::open({.dir = dir_ / "series"}).value();
    query_ = std::make_unique<Query>(*records_, *files_, *store_);
    own_ = std::make_unique<Query>(*records_, *files_, *store_,
                                   Options{.visibility = Visibility::own});
    write([](records::Writer& w) {
      return w.set_snapshot_time("alps", records::Listing::jobs, at(0));
    });
  }

  void TearDown() override {
    query_.reset();
    own_.reset();
    store_.reset();
    files_.reset();
    records_.reset();
    std::filesystem::remove_all(dir_);
  }

  void write(const std::function<Result<void>(records::Writer&)>& change) {
    const auto done = records_->write(change);
    ASSERT_TRUE(done) << done.error().text();
  }

  records::AttemptId add(const Attempt& attempt) {
    records::AttemptId id = 0;
    write([&](records::Writer& w) -> Result<void> {
      id = VETTA_TRY(w.upsert(attempt, records::ViewSource::controller, at(10))).id;
      return {};
    });
    return id;
  }

  Result<records::AttemptRow> find(std::string_view text) {
    return query_->job(operator_, parse_job_id(text).value());
  }

  void add_rank(records::AttemptId id, const model::Rank& rank,
                const std::vector<model::Mark>& marks, const Attempt& attempt) {
    write([&](records::Writer& w) { return w.upsert_rank(id, rank); });
    const series::MarkAppend part{{rank.rank_id, rank.incarnation, -1}, marks};
    ASSERT_TRUE(files_->append(attempt.key, std::span(&part, 1), {}));
  }

  const model::Viewer operator_{.uid = 0, .is_operator = true};
  const model::Viewer ada_{.uid = 1000};
  const model::Viewer bob_{.uid = 1001};
  std::filesystem::path dir_;
  std::unique_ptr<records::Records> records_;
  std::unique_ptr<series::AttemptFiles> files_;
  std::unique_ptr<series::Store> store_;
  std::unique_ptr<Query> query_, own_;
  static inline int counter_ = 0;
};

TEST(JobIds, AreReadAsPeopleTypeThem) {
  EXPECT_EQ(parse_job_id("4711").value(), (JobId{.job_id = 4711}));
  EXPECT_EQ(parse_job_id(" 4711_3 ").value().array_task, 3U);
  EXPECT_EQ(parse_job_id("4711+1").value().het_offset, 1U);
  const auto full = parse_job_id("al:ps:4711_0/2").value();
  EXPECT_EQ(full.cluster, "al:ps");
  EXPECT_EQ(full.array_task, 0U);
  EXPECT_EQ(full.attempt, 2U);
  for (const char* bad :
       {"", "x", "-1", "4711_", "4711_x", "4711/0", "4711/", ":4711", "0", "4711.0", "4711_1+1",
        "99999999999999999999", "4711_4294967296", "4711 1"})
    EXPECT_FALSE(parse_job_id(bad)) << bad;
  EXPECT_NE(parse_job_id("abc").error().text().find("4711_3"), std::string::npos);
}

TEST(JobIds, PrintAndParseAgree) {
  EXPECT_TRUE(rc::check("parse(print(id)) == id", [] {
    JobId id;
    id.job_id = *rc::gen::inRange<std::uint64_t>(1, 1ULL << 40U);
    if (*rc::gen::arbitrary<bool>()) id.cluster = "alps";
    if (*rc::gen::arbitrary<bool>()) id.attempt = *rc::gen::inRange<std::uint32_t>(1, 99);
    if (*rc::gen::arbitrary<bool>()) {
      id.array_task = *rc::gen::arbitrary<std::uint32_t>();
    } else if (*rc::gen::arbitrary<bool>()) {
      id.het_offset = *rc::gen::arbitrary<std::uint32_t>();
    }
    RC_ASSERT(parse_job_id(print(id)).value() == id);
  }));
}

TEST_F(QueryTest, FindsJobsByWhatPeopleType) {
  auto task = job(5003);
  task.array = model::Array{5000, 3, {}};
  auto waiting = job(5000);
  waiting.array = model::Array{5000, {}, "7-8"};
  waiting.state = JobState::pending;
  auto component = job(6001);
  component.het = model::Het{6000, 1};
  auto second = job(7000, 100);
  second.restart = 1;
  for (const auto& a : {task, waiting, component, job(7000), second}) add(a);
  EXPECT_EQ(find("5000_3")->attempt.key.job_id, 5003U);
  EXPECT_EQ(find("5000")->attempt.key.job_id, 5000U);
  EXPECT_EQ(find("5003")->attempt.array->task_id, 3U);
  EXPECT_EQ(find("6000+1")->attempt.key.job_id, 6001U);
  EXPECT_EQ(find("alps:7000")->attempt.key.submit, at(100));
  EXPECT_EQ(find("7000/1")->attempt.key.submit, at(0));
  EXPECT_EQ(find("7000/3").error().code, Code::not_found);
  EXPECT_EQ(find("other:7000").error().code, Code::not_found);
  EXPECT_EQ(find("9").error().code, Code::not_found);
  EXPECT_EQ(query_->attempts(operator_, parse_job_id("7000").value())->size(), 2U);
}

TEST_F(QueryTest, OwnVisibilityHidesOthersCompletely) {
  const auto adas = add(job(1, 0, "ada"));
  const auto bobs = add(job(2, 0, "bob"));
  EXPECT_TRUE(query_->job(bob_, adas));
  EXPECT_FALSE(own_->job(bob_, adas));
  EXPECT_EQ(own_->job(bob_, adas).error().code, Code::not_found);
  EXPECT_EQ(own_->job(bob_, 999).error().code, Code::not_found);
  EXPECT_TRUE(own_->job(bob_, bobs));
  EXPECT_TRUE(own_->job(operator_, adas));
  EXPECT_EQ(own_->jobs(bob_, {}).value().jobs.size(), 1U);
  EXPECT_EQ(own_->jobs(bob_, {}).value().counts.total, 1U);
  EXPECT_EQ(own_->jobs(bob_, {}).value().jobs[0].id, bobs);
  JobsRequest adas_jobs;
  adas_jobs.filter.users = {"ada"};
  EXPECT_TRUE(own_->jobs(bob_, adas_jobs).value().jobs.empty());
  EXPECT_EQ(own_->jobs(model::Viewer(), {}).value().jobs.size(), 0U);
  EXPECT_FALSE(own_->ranks(bob_, adas));
  EXPECT_FALSE(own_->allocations(bob_, adas));
  EXPECT_FALSE(own_->step_table(bob_, adas));
  EXPECT_FALSE(own_->steps(bob_, adas));
  EXPECT_FALSE(own_->incarnations(bob_, adas));
  EXPECT_FALSE(own_->rank_samples(bob_, adas, {}));
  EXPECT_FALSE(own_->marks_info(bob_, adas));
  EXPECT_FALSE(own_->findings(bob_, adas));
  model::Event event;
  event.attempt = job(1).key;
  write([&](records::Writer& w) -> Result<void> {
    VETTA_TRY(w.add(event, adas, "alps"));
    event.attempt.reset();
    VETTA_TRY(w.add(event, std::nullopt, "alps"));
    model::Finding finding;
    VETTA_TRY(w.add(finding, adas));
    return {};
  });
  EXPECT_EQ(own_->events(bob_, {}).value().size(), 1U);
  EXPECT_EQ(own_->events(ada_, {}).value().size(), 2U);
  EXPECT_EQ(own_->findings(bob_, std::nullopt).value().size(), 0U);
  EXPECT_EQ(own_->findings(ada_, std::nullopt).value().size(), 1U);
  EXPECT_TRUE(own_->events(model::Viewer(), {}).value().empty());
  EXPECT_TRUE(own_->may_see(bob_, event)) << "the machine is no secret";
  event.attempt = job(1).key;
  EXPECT_FALSE(own_->may_see(bob_, event));
  EXPECT_TRUE(own_->may_see(ada_, event));
}

TEST_F(QueryTest, WhatARankWithoutItsJobTellsIsForOperators) {
  model::Event event;
  event.kind = model::EventKind::exception;
  event.rank_id = 7;
  write([&](records::Writer& w) -> Result<void> {
    VETTA_TRY(w.add(event, std::nullopt, "alps"));
    return {};
  });
  EXPECT_TRUE(own_->events(ada_, {}).value().empty());
  EXPECT_FALSE(own_->may_see(ada_, event));
  EXPECT_EQ(own_->events(operator_, {}).value().size(), 1U);
  EXPECT_TRUE(own_->may_see(operator_, event));
  EXPECT_EQ(query_->events(ada_, {}).value().size(), 1U);
}

TEST_F(QueryTest, ALimitCountsWhatTheViewerMaySee) {
  const auto adas = add(job(1, 0, "ada"));
  const auto bobs = add(job(2, 0, "bob"));
  const auto oldest = add(job(3, 0, "ada"));
  const Query narrow(*records_, *files_, *store_, {.visibility = Visibility::own, .page_max = 1});
  write([&](records::Writer& w) -> Result<void> {
    VETTA_TRY(w.add(model::Event(), oldest, "alps"));
    VETTA_TRY(w.add(model::Finding(), adas));
    for (int i = 0; i < 1500; ++i) {
      VETTA_TRY(w.add(model::Event(), bobs, "alps"));
      VETTA_TRY(w.add(model::Finding(), bobs));
    }
    VETTA_TRY(w.add(model::Event(), adas, "alps"));
    std::vector<model::Allocation> held(1);
    held[0].node = "n1";
    held[0].span.start = at(1);
    VETTA_TRY(w.set_allocations(adas, held, at(10)));
    held[0].span.start = at(2);
    return w.set_allocations(bobs, held, at(10));
  });
  EXPECT_EQ(own_->events(ada_, {.limit = 1000}).value().size(), 2U);
  EXPECT_EQ(own_->events(ada_, {.newest_first = true, .limit = 1000}).value().size(), 2U);
  const auto page = own_->events(ada_, {.limit = 1}).value();
  ASSERT_EQ(page.size(), 1U);
  EXPECT_EQ(own_->events(ada_, {.after_id = page[0].id, .limit = 1}).value().size(), 1U);
  EXPECT_EQ(own_->findings(ada_, std::nullopt).value().size(), 1U);
  EXPECT_EQ(narrow.node_jobs(ada_, "alps", "n1").value().size(), 1U);
  EXPECT_EQ(narrow.node_jobs(operator_, "alps", "n1").value()[0].id, bobs);
}

TEST_F(QueryTest, PagesGoOnWhereTheyEnded) {
  for (std::uint64_t id = 1; id <= 25; ++id) add(job(id, static_cast<std::int64_t>(id / 5)));
  JobsRequest request;
  request.limit = 10;
  std::vector<std::uint64_t> seen;
  for (int pages = 0; pages < 3; ++pages) {
    const auto answer = query_->jobs(operator_, request).value();
    EXPECT_EQ(answer.counts.total, 25U);
    for (const auto& row : answer.jobs) seen.push_back(row.attempt.key.job_id);
    request.cursor = answer.next;
    if (pages == 0) add(job(99, 99));  // newer jobs do not disturb the pages behind
    if (pages == 0) request.with_counts = false;
    EXPECT_EQ(answer.next.empty(), pages == 2);
    if (!request.with_counts) break;
  }
  while (!request.cursor.empty()) {
    const auto answer = query_->jobs(operator_, request).value();
    for (const auto& row : answer.jobs) seen.push_back(row.attempt.key.job_id);
    request.cursor = answer.next;
  }
  EXPECT_EQ(seen.size(), 25U);
  EXPECT_TRUE(std::is_sorted(seen.rbegin(), seen.rend()));
  request.cursor = "x.y";
  EXPECT_EQ(query_->jobs(operator_, request).error().code, Code::invalid);
}

TEST_F(QueryTest, StepTablesJoinRegistrationsAndKnowTheirRank) {
  const auto attempt = job(1);
  const auto id = add(attempt);
  const auto marks = [](std::uint64_t first, std::uint64_t last, std::int64_t step) {
    std::vector<model::Mark> out;
    for (auto s = first; s <= last; ++s) {
      auto& m = out.emplace_back();
      m.sequence = s;
      m.step = step + static_cast<std::int64_t>(s);
      m.start = at(m.step);
    }
    return out;
  };
  model::Rank r;
  r.world_size = 4;
  r.node = "n001";
  r.is_probed = true;
  r.rank_id = 1;
  r.rank = 3;
  add_rank(id, r, marks(1, 10, 0), attempt);
  r.rank_id = 2;  // the same rank, registered again: it goes on
  add_rank(id, r, marks(1, 5, 10), attempt);
  r.rank_id = 3;
  r.rank = 0;
  add_rank(id, r, marks(1, 15, 0), attempt);
  r.rank_id = 4;
  r.incarnation = 1;
  r.is_probed = false;
  add_rank(id, r, {}, attempt);
  const auto table = query_->step_table(operator_, id).value();
  EXPECT_EQ(table.incarnation, 0U) << "the last one with a probe";
  EXPECT_EQ(table.world_size, 4);
  ASSERT_EQ(table.ranks.size(), 2U);
  EXPECT_EQ(table.ranks[0].rank, 0);
  EXPECT_EQ(table.ranks[1].rank, 3) << "marks came before the rank's number was known";
  EXPECT_EQ(table.ranks[1].marks.size(), 15U);
  EXPECT_EQ(table.ranks[1].marks.back().step, 15);
  const auto last = query_->step_table(operator_, id, 0, 4).value();
  ASSERT_EQ(last.ranks.size(), 2U);
  ASSERT_EQ(last.ranks[1].marks.size(), 4U);
  EXPECT_EQ(last.ranks[1].marks.front().step, 12);
  const Query narrow(*records_, *files_, *store_, {.marks_max = 20});
  EXPECT_EQ(narrow.step_table(operator_, id).error().code, Code::exhausted);
  // What counts is what is there, not what was asked for; 30 marks are.
  EXPECT_EQ(narrow.step_table(operator_, id, 0, 100'000).error().code, Code::exhausted);
  EXPECT_NE(narrow.step_table(operator_, id, 0, 100'000).error().hint.find("fewer"),
            std::string::npos);
  EXPECT_TRUE(narrow.step_table(operator_, id, 0, 6)) << "18 marks of 3 registrations";
  EXPECT_TRUE(narrow.step_table(operator_, id, 0, 100'000, true)) << "a judge takes more";
  const Query just(*records_, *files_, *store_, {.marks_max = 30});
  EXPECT_EQ(just.step_table(operator_, id, 0, 100'000)->ranks[1].marks.size(), 15U);
}

TEST(EventHub, ASlowReaderIsToldWhatItLost) {
  EventHub hub(3, 2);
  int woken = 0;
  auto all = hub.subscribe({}, [&] { ++woken; }).value();
  auto odd = hub.subscribe([](const model::Event& e) { return e.id % 2 == 1; }).value();
  EXPECT_EQ(hub.subscribe().error().code, Code::exhausted);
  model::Event event;
  for (event.id = 1; event.id <= 5; ++event.id) hub.publish(event);
  EXPECT_EQ(woken, 1);
  const auto late = all->take();
  EXPECT_EQ(late.lost, 2U);
  ASSERT_EQ(late.events.size(), 3U);
  EXPECT_EQ(late.events[0].id, 3U);
  EXPECT_EQ(odd->take().events.size(), 3U);
  EXPECT_EQ(all->take().lost, 0U);
  odd.reset();
  EXPECT_EQ(hub.subscribers(), 1U);
  hub.publish(event);
  EXPECT_EQ(woken, 2);
  hub.close();
  EXPECT_EQ(all->wait(std::chrono::hours(1)).events.size(), 1U);
  EXPECT_TRUE(all->wait(std::chrono::hours(1)).events.empty()) << "closed: does not wait";
  EXPECT_EQ(hub.subscribe().error().code, Code::unavailable);
}

}  // namespace
}  // namespace vetta::query
