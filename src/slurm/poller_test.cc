// SPDX-License-Identifier: Apache-2.0
#include "slurm/poller.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <thread>

#include "slurm/jobs.h"
#include "sys/fake_process.h"

namespace vetta::slurm {
namespace {

using namespace std::chrono_literals;

struct FakeJob {
  int id = 0;
  std::string state = "RUNNING", nodes = "n1", tasks{};
  std::string suspend = "None";
  int ran_before = 0;
};

/// A Slurm of a few jobs behind the fake runner, and a clock that stands until it is moved.
struct PollerTest : testing::Test {
  std::shared_ptr<sys::FakeCommandRunner> runner = std::make_shared<sys::FakeCommandRunner>();
  std::vector<FakeJob> jobs;
  Duration clock = 1000s;
  std::vector<Snapshot> snapshots;
  std::vector<Accounting> batches;
  bool keeps = true;
  int pending = 0, dbd_queue = 0;

  void SetUp() override {
    runner->on("squeue", [this](const sys::Command&) { return answer(squeue()); });
    runner->on("show job", [this](const sys::Command&) { return answer(scontrol()); });
    runner->on("show node", "NodeName=n1 State=MIXED CPUTot=4\n");
    runner->on("show partition", "PartitionName=main State=UP\n");
    runner->on("sdiag", [this](const sys::Command&) {
      return answer(fmt::format(
          "sdiag output at x (1796047401)\nServer thread count: 1\nAgent queue size: 0\n"
          "DBD Agent queue size: {}\nJobs pending: {}\nJobs running: 1\n"
          "Remote Procedure Call statistics by message type\n"
          "\tREQUEST_JOB_INFO ( 2003) count:11 ave_time:114 total_time:1257\n",
          dbd_queue, pending));
    });
    runner->on("sacct -e", "JobIDRaw State Submit Start End NodeList\n");
    runner->on("sacct -a", "");
  }

  static Result<sys::CommandOutput> answer(std::string out) {
    sys::CommandOutput output;
    output.out = std::move(out);
    output.status.code = 0;
    return output;
  }

  [[nodiscard]] std::string squeue() const {
    std::string text;
    for (const FakeJob& job : jobs) {
      for (const std::string& field : job_fields()) {
        std::string value = "N/A";
        if (field == "JobID") value = std::to_string(job.id);
        if (field == "JobArrayID" && !job.tasks.empty())
          value = fmt::format("{}_[{}]", job.id, job.tasks);
        if (field == "State") value = job.state;
        if (field == "SubmitTime") value = "1796047400";
        if (field == "StartTime") value = "1796047410";
        if (field == "NodeList") value = job.nodes;
        if (field == "Name") value = "x";
        text += value + "~S~";
      }
      text += "\n";
    }
    return text;
  }

  [[nodiscard]] std::string scontrol() const {
    std::string text;
    for (const FakeJob& job : jobs)
      text += fmt::format(
          "JobId={} JobName=x UserId=a(1) SubmitTime=1796047400 StartTime=1796047410 "
          "SuspendTime={} SecsPreSuspend={} Nodes={} CPU_IDs=0-1 Mem=5 GRES= \n",
          job.id, job.suspend, job.ran_before, job.nodes);
    return text.empty() ? "No jobs in the system\n" : text;
  }

  Poller poller(std::optional<Time> watermark = std::nullopt) {
    ReaderConfig config;
    config.cluster = "c";
    config.separator = "~S~";
    PollerSinks sinks;
    sinks.snapshot = [this](const Snapshot& snapshot) { snapshots.push_back(snapshot); };
    sinks.accounting = [this](const Accounting& batch) {
      batches.push_back(batch);
      return keeps;
    };
    PollerClock clocks;
    clocks.monotonic = [this] { return clock; };
    clocks.wall = [this] { return from_epoch_seconds(1796047500) + clock - 1000s; };
    return {Reader(config, runner), PollLimits{}, std::move(sinks), watermark, clocks};
  }

  [[nodiscard]] int count(std::string_view words) const {
    int count = 0;
    for (const std::string& call : runner->calls()) count += call.contains(words) ? 1 : 0;
    return count;
  }
};

TEST_F(PollerTest, GivesASnapshotOfAllParts) {
  jobs = {{.id = 7}};
  Poller one = poller();
  const Duration pause = one.step();
  ASSERT_EQ(snapshots.size(), 1U);
  const Snapshot& snapshot = snapshots[0];
  EXPECT_EQ(snapshot.cluster, "c");
  EXPECT_TRUE(snapshot.jobs.is_known());
  EXPECT_TRUE(snapshot.nodes.is_known());
  EXPECT_TRUE(snapshot.partitions.is_known());
  ASSERT_EQ(snapshot.allocations.value.size(), 1U);
  EXPECT_EQ(snapshot.allocations.value[0].allocations[0].cpu_ids, "0-1");
  EXPECT_EQ(pause, 3s);
  EXPECT_EQ(one.sources()[0].knowledge, model::Knowledge::known);
  EXPECT_GT(one.load().rpcs_per_minute_vetta, 0);
}

TEST_F(PollerTest, AsksForAllocationsOnlyWhenAJobIsNew) {
  jobs = {{.id = 7}};
  Poller one = poller();
  one.step();
  for (int i = 0; i < 5; ++i) {
    clock += 3s;
    one.step();
  }
  EXPECT_EQ(snapshots.size(), 6U);
  EXPECT_EQ(count("show job"), 1);
  EXPECT_EQ(snapshots.back().allocations.value.size(), 1U);
  jobs.push_back({.id = 8});
  clock += 3s;
  one.step();
  EXPECT_EQ(count("show job"), 2);
  EXPECT_EQ(snapshots.back().allocations.value.size(), 2U);
  jobs.erase(jobs.begin());
  clock += 3s;
  one.step();
  EXPECT_EQ(count("show job"), 2);
  EXPECT_EQ(snapshots.back().allocations.value.size(), 1U);
}

TEST_F(PollerTest, FollowsSuspension) {
  jobs = {{.id = 7}};
  Poller one = poller();
  one.step();
  jobs[0] = {.id = 7, .state = "SUSPENDED", .suspend = "1796047420", .ran_before = 10};
  clock += 3s;
  one.step();
  ASSERT_EQ(snapshots.back().jobs.value[0].suspended.size(), 1U);
  EXPECT_FALSE(snapshots.back().jobs.value[0].suspended[0].end);
  jobs[0] = {.id = 7, .suspend = "1796047440", .ran_before = 10};
  clock += 3s;
  one.step();
  EXPECT_EQ(snapshots.back().jobs.value[0].suspended[0].end, from_epoch_seconds(1796047440));
  EXPECT_EQ(snapshots.back().jobs.value[0].suspended_total, 20s);
  EXPECT_EQ(count("show job"), 3);
}

TEST_F(PollerTest, ACompletingJobKeepsItsNodes) {
  jobs = {{.id = 7, .nodes = "n[1-4]"}};
  Poller one = poller();
  one.step();
  jobs[0] = {.id = 7, .state = "COMPLETING", .nodes = "n3"};  // three are returned already
  clock += 3s;
  one.step();
  EXPECT_EQ(snapshots.back().jobs.value[0].nodes, "n[1-4]");
  EXPECT_EQ(snapshots.back().allocations.value[0].allocations.size(), 4U);
}

TEST_F(PollerTest, AFailureIsNoEmptyCluster) {
  jobs = {{.id = 7}};
  Poller one = poller();
  one.step();
  runner->on_exit("squeue", 1, "slurm_load_jobs error: Unable to contact slurm controller");
  clock += 3s;
  const Duration pause = one.step();
  EXPECT_GT(pause, 3s);
  EXPECT_EQ(snapshots.back().jobs.knowledge, model::Knowledge::could_not_ask);
  EXPECT_EQ(snapshots.back().allocations.value.size(), 1U);  // what was known stays known
  const auto source = one.sources()[0];
  EXPECT_EQ(source.knowledge, model::Knowledge::could_not_ask);
  EXPECT_TRUE(source.reason.contains("slurmctld does not answer"));
  EXPECT_TRUE(source.last_success);
}

TEST_F(PollerTest, AQuestionForNodesThatFailsIsTold) {
  jobs = {{.id = 7}};
  Poller one = poller();
  one.step();
  const auto success = one.sources()[0].last_success;
  for (const char* question : {"show node", "show partition"}) {
    runner->on_exit(question, 1, "Unable to contact slurm controller (connect failure)");
    clock += 10min;
    one.step();
    EXPECT_TRUE(snapshots.back().jobs.is_known());
    const auto source = one.sources()[0];
    EXPECT_EQ(source.knowledge, model::Knowledge::could_not_ask) << question;
    EXPECT_TRUE(source.reason.contains("slurmctld does not answer")) << source.reason;
    EXPECT_EQ(source.last_success, success);
    runner->on("show node", "NodeName=n1 State=MIXED CPUTot=4\n");
    runner->on("show partition", "PartitionName=main State=UP\n");
  }
  clock += 10min;
  one.step();
  EXPECT_EQ(one.sources()[0].knowledge, model::Knowledge::known);
}

TEST_F(PollerTest, KeepsALargeClusterWithinTheBudgetInEveryMinute) {
  jobs = {{.id = 7}, {.id = 8, .state = "PENDING", .nodes = "", .tasks = "0-19999"}};
  pending = 20'000;
  Poller one = poller();
  std::vector<std::pair<Duration, int>> sent;
  std::size_t seen = 0;
  const Duration begin = clock;
  while (clock - begin < 1h) {
    jobs[0].id = 100 + static_cast<int>(clock / 1s);  // always a new job: the dearest case
    one.nudge();
    const Duration pause = one.step();
    const auto calls = runner->calls();
    for (; seen < calls.size(); ++seen) {
      const std::string& call = calls[seen];
      const bool two =
          call.contains("squeue") || call.contains("show node") || call.contains("show job");
      if (!call.contains("sacct")) sent.emplace_back(clock, two ? 2 : 1);
    }
    clock += std::max<Duration>(pause, 100ms);
  }
  int most = 0;
  for (const auto& [from, first] : sent) {
    int sum = 0;
    for (const auto& [at, rpcs] : sent)
      if (at >= from && at < from + 60s) sum += rpcs;
    most = std::max(most, sum);
  }
  EXPECT_LE(most, 6);
  EXPECT_GT(snapshots.size(), 40U);
  EXPECT_TRUE(snapshots.back().nodes.is_known());
  EXPECT_TRUE(snapshots.back().partitions.is_known());
  EXPECT_TRUE(snapshots.back().allocations.is_known());
  EXPECT_LE(one.load().rpcs_per_minute_vetta, 6);
}

TEST_F(PollerTest, ANudgeShortensThePause) {
  jobs = {{.id = 7}};
  Poller one = poller();
  EXPECT_EQ(one.step(), 3s);
  one.nudge();
  EXPECT_EQ(one.step(), 1s);
  clock += 1s;
  EXPECT_EQ(one.step(), 3s);
  EXPECT_EQ(snapshots.size(), 2U);
}

TEST_F(PollerTest, MovesTheWatermarkOnlyWhenABatchIsKept) {
  const Time mark = from_epoch_seconds(1796040000);
  Poller one = poller(mark);
  keeps = false;
  one.step();
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].from, mark - PollLimits{}.accounting_overlap);
  EXPECT_EQ(one.accounting_watermark(), mark);
  keeps = true;
  clock += 10min;
  one.step();
  EXPECT_EQ(one.accounting_watermark(), batches.back().until);
  // While slurmctld holds messages for slurmdbd back, the window may still lack attempts.
  const auto before = one.accounting_watermark();
  dbd_queue = 5;
  clock += 10min;
  one.step();
  EXPECT_EQ(one.accounting_watermark(), before);
  runner->on_exit("sacct -a", 1, "sacct: error: Problem talking to the database");
  dbd_queue = 0;
  clock += 10min;
  one.step();
  EXPECT_EQ(one.accounting_watermark(), before);
  EXPECT_EQ(one.sources()[1].knowledge, model::Knowledge::could_not_ask);
}

TEST_F(PollerTest, RunsInAThreadUntilItIsStopped) {
  jobs = {{.id = 7}};
  Poller one = poller();
  std::jthread thread([&one](const std::stop_token& stop) { one.run(stop); });
  one.nudge();
  thread.request_stop();
  thread.join();  // returns although the clock never moves
}

}  // namespace
}  // namespace vetta::slurm
