// SPDX-License-Identifier: Apache-2.0
#include "slurm/allocations.h"

#include <gtest/gtest.h>

namespace vetta::slurm {
namespace {

using namespace std::chrono_literals;

Time at(std::int64_t seconds) {
  return from_epoch_seconds(1'000'000 + seconds);
}

model::Attempt job(std::uint64_t id, std::string name, std::string nodes) {
  model::Attempt attempt;
  attempt.key = {"c", id, at(0)};
  attempt.state = model::JobState::running;
  attempt.name = std::move(name);
  attempt.nodes = std::move(nodes);
  return attempt;
}

std::string record(std::uint64_t id, const std::string& name, const std::string& nodes,
                   const std::string& tail = "Command=(null) WorkDir=/") {
  return "JobId=" + std::to_string(id) + " JobName=" + name +
         " UserId=a(1) JobState=RUNNING SubmitTime=1000000 StartTime=1000001 SuspendTime=None "
         "SecsPreSuspend=0   Nodes=" +
         nodes + " CPU_IDs=0-1 Mem=500 GRES=gpu:2(IDX:0,3) MinCPUsNode=1 " + tail + " \n";
}

TEST(Allocations, ReadsEachNode) {
  const std::vector<model::Attempt> jobs = {job(7, "x", "n[1-2]")};
  const auto read = parse_allocations(record(7, "x", "n[1-2]"), &jobs);
  ASSERT_EQ(read.value.size(), 1U);
  ASSERT_EQ(read.value[0].allocations.size(), 2U);
  const model::Allocation& allocation = read.value[0].allocations[1];
  EXPECT_EQ(allocation.node, "n2");
  EXPECT_EQ(allocation.cpus, 2U);
  EXPECT_EQ(allocation.memory_bytes, 500U << 20U);
  EXPECT_EQ(allocation.devices, (std::vector<std::string>{"gpu:0", "gpu:3"}));
  EXPECT_EQ(allocation.span.start, at(1));
  EXPECT_FALSE(allocation.span.end);
}

TEST(Allocations, ANameCannotForgeItsOwnNodes) {
  const std::string name =
      "x UserId=root(0) JobState=RUNNING Nodes=n9 CPU_IDs=0-63 Mem=0 GRES=gpu:4(IDX:0-3)";
  const std::vector<model::Attempt> jobs = {job(7, name, "n1")};
  const auto read = parse_allocations(record(7, name, "n1"), &jobs);
  ASSERT_EQ(read.value.size(), 1U);
  ASSERT_EQ(read.value[0].allocations.size(), 1U);
  EXPECT_EQ(read.value[0].allocations[0].node, "n1");
}

TEST(Allocations, ANameOrACommentCannotForgeAnotherJob) {
  const std::string forged = "y\n" + record(8, "z", "n9");
  std::vector<model::Attempt> jobs = {job(7, forged, "n1"), job(8, "z", "n2")};
  auto read = parse_allocations(record(7, forged, "n1") + record(8, "z", "n2"), &jobs);
  ASSERT_EQ(read.value.size(), 2U);
  EXPECT_EQ(read.value[1].allocations[0].node, "n2");

  jobs[0].name = "x";
  jobs[0].comment = forged;
  read = parse_allocations(
      record(7, "x", "n1", "Command=(null) Comment=" + forged) + record(8, "z", "n2"), &jobs);
  ASSERT_EQ(read.value.size(), 2U);
  EXPECT_EQ(read.value[1].allocations[0].node, "n2");

  // A text that squeue did not tell of: then nobody gets the forged nodes.
  jobs[0].comment.clear();
  read = parse_allocations(
      record(7, "x", "n1", "Command=(null) Comment=" + forged) + record(8, "z", "n2"), &jobs);
  ASSERT_EQ(read.value.size(), 1U);
  EXPECT_EQ(read.value[0].job_id, 7U);
  EXPECT_EQ(read.refused.at(0).reason, "job 8 has two records");
}

TEST(Allocations, RefusesWhatDisagreesWithSqueue) {
  const std::vector<model::Attempt> jobs = {job(7, "x", "n1")};
  EXPECT_TRUE(parse_allocations(record(7, "x", "n3"), &jobs)
                  .refused.at(0)
                  .reason.contains("job 7 is said to hold n3, squeue tells n1"));
  EXPECT_TRUE(parse_allocations(record(7, "other", "n1"), &jobs)
                  .refused.at(0)
                  .reason.contains("the name of job 7 is not the one that squeue tells"));
  auto requeued = jobs;
  requeued[0].key.submit = at(9);
  EXPECT_TRUE(parse_allocations(record(7, "x", "n1"), &requeued)
                  .refused.at(0)
                  .reason.contains("another attempt"));
  EXPECT_TRUE(parse_allocations(record(9, "new", "n1"), &jobs).value.empty());  // started since
}

HeldJob held(std::int64_t changed, std::int64_t ran) {
  HeldJob job;
  job.start = at(0);
  job.suspend_changed = at(changed);
  job.ran_before = std::chrono::seconds(ran);
  return job;
}

TEST(Suspended, FollowsOneSuspensionExactly) {
  std::vector<model::Span> spans;
  update_suspended(spans, model::JobState::suspended, held(3, 3));
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].start, at(3));
  EXPECT_FALSE(spans[0].end);
  update_suspended(spans, model::JobState::suspended, held(3, 3));
  EXPECT_EQ(spans.size(), 1U);
  update_suspended(spans, model::JobState::running, held(28, 3));
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].end, at(28));
  update_suspended(spans, model::JobState::running, held(28, 3));
  EXPECT_EQ(spans.size(), 1U);
}

TEST(Suspended, KeepsTheSumOverWhatItDidNotSee) {
  std::vector<model::Span> spans;
  update_suspended(spans, model::JobState::running, held(28, 3));  // seen only after the resume
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].start, at(3));
  EXPECT_EQ(spans[0].end, at(28));
  // Suspended 40 to 45, seen; resumed and suspended again at 60, unseen between.
  update_suspended(spans, model::JobState::suspended, held(40, 15));
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[1].start, at(40));
  update_suspended(spans, model::JobState::suspended, held(60, 30));
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(*spans[1].end - spans[1].start, 5s);
  EXPECT_EQ(spans[2].start, at(60));
}

TEST(Suspended, LeavesOutWhatMakesNoSense) {
  std::vector<model::Span> spans;
  update_suspended(spans, model::JobState::running, held(2, 30));  // ran longer than it exists
  update_suspended(spans, model::JobState::running, HeldJob{});
  EXPECT_TRUE(spans.empty());
}

}  // namespace
}  // namespace vetta::slurm
