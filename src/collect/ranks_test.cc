// SPDX-License-Identifier: Apache-2.0
#include "collect/ranks.h"

#include <gtest/gtest.h>

#include "collect/state_file.h"

namespace vetta::collect {
namespace {

Registration start(std::int32_t task, std::int32_t tasks, std::int32_t pid) {
  Registration out;
  out.job_id = 4711;
  out.step_id = "0";
  out.task = task;
  out.local_task = task;
  out.tasks = tasks;
  out.uid = 1000;
  out.pid = pid;
  out.start_ticks = static_cast<std::uint64_t>(pid) * 10;
  out.time = from_epoch_seconds(1000);
  return out;
}

Registration exit_of(Registration registration, int status) {
  registration.is_exit = true;
  registration.wait_status = status;
  registration.start_ticks = 0;
  registration.time = from_epoch_seconds(2000);
  return registration;
}

ProcessFacts process(std::int32_t pid) {
  return {pid, static_cast<std::uint64_t>(pid) * 10, 1000, from_epoch_seconds(1500)};
}

ProbeHello hello(std::int32_t rank, std::int32_t world, std::uint32_t elastic = 0) {
  ProbeHello out;
  out.rank = rank;
  out.world_size = world;
  out.local_rank = rank;
  out.elastic_restart = elastic;
  return out;
}

class Ranks : public testing::Test {
 protected:
  RankTable table{"n001", [this] { return ++last_id_; }};

 private:
  std::uint64_t last_id_ = 0;
};

TEST(RanksOfAUser, AreBoundedAndWhatIsKnownStaysKnown) {
  std::uint64_t last_id = 0;
  RankTable table("n001", [&last_id] { return ++last_id; }, 3);
  RankState& task = table.take(start(0, 8, 100));
  const ProcessFacts probed = process(101);
  ASSERT_TRUE(table.may_take(task, hello(5, 8), probed));
  table.take(task, hello(5, 8), probed);
  ASSERT_TRUE(table.may_take(start(1, 8, 102)));
  table.take(start(1, 8, 102));
  ASSERT_EQ(table.all().size(), 3U);
  EXPECT_TRUE(table.refused().empty());
  EXPECT_FALSE(table.may_take(start(2, 8, 103)));
  EXPECT_FALSE(table.may_take(process(103)));
  EXPECT_FALSE(table.may_take(task, hello(6, 8), process(103)));
  EXPECT_EQ(&table.take(task, FrameworkRank{6, 6, 8, 0}, process(104)), &task)
      << "the process stays the task's";
  EXPECT_EQ(table.all().size(), 3U);
  EXPECT_EQ(table.refused().at(1000), 4U);
  EXPECT_TRUE(table.may_take(start(1, 8, 102))) << "told twice";
  EXPECT_TRUE(table.may_take(exit_of(start(1, 8, 102), 0)));
  EXPECT_TRUE(table.may_take(process(100)));
  Registration other = start(2, 8, 105);
  other.uid = 1001;
  EXPECT_TRUE(table.may_take(other)) << "another user has his own";
  table.erase(task.rank.rank_id);
  EXPECT_TRUE(table.may_take(start(2, 8, 103)));
}

TEST(RanksOfAUser, TheOldestEndedGoFirst) {
  std::uint64_t last_id = 0;
  RankTable table("n001", [&last_id] { return ++last_id; });
  std::vector<std::uint64_t> ids;
  for (std::int32_t task = 0; task < 4; ++task) {
    RankState& state = table.take(start(task, 8, 100 + task));
    ids.push_back(state.rank.rank_id);
    if (task > 0) table.end(state, from_epoch_seconds(3000 - task), 0, {});
  }
  EXPECT_TRUE(table.ended_beyond(3).empty());
  EXPECT_EQ(table.ended_beyond(1), (std::vector<std::uint64_t>{ids[3], ids[2]}));
}

TEST_F(Ranks, WhoHadAProcessIdIsAQuestionOfTime) {
  const Duration slack = std::chrono::seconds(2);
  const std::uint64_t first = table.take(start(0, 8, 100)).rank.rank_id;  // from 1000
  table.take(exit_of(start(0, 8, 100), 9));                               // to 2000
  Registration again = start(1, 8, 100);
  again.time = from_epoch_seconds(3000);
  const std::uint64_t second = table.take(again).rank.rank_id;
  const auto at = [&](std::int64_t seconds) -> std::uint64_t {
    const RankState* state = table.find_at(100, from_epoch_seconds(seconds), slack);
    return state == nullptr ? 0 : state->rank.rank_id;
  };
  EXPECT_EQ(at(997), 0U) << "a kill of last week";
  EXPECT_EQ(at(998), first);
  EXPECT_EQ(at(2002), first);
  EXPECT_EQ(at(2003), 0U);
  EXPECT_EQ(at(2998), second);
  EXPECT_EQ(at(99'000), second);
  EXPECT_EQ(table.find_at(101, from_epoch_seconds(1500), slack), nullptr);
}

TEST_F(Ranks, ATaskIsARankUntilItsExit) {
  RankState& state = table.take(start(5, 8, 100));
  EXPECT_EQ(state.rank.rank, 5);
  EXPECT_EQ(state.rank.world_size, 8);
  EXPECT_EQ(state.rank.node, "n001");
  EXPECT_EQ(table.find_live(100), &state);
  EXPECT_EQ(&table.take(start(5, 8, 100)), &state) << "told twice";
  table.take(exit_of(start(5, 8, 100), 9));
  EXPECT_EQ(state.rank.exit_signal, 9);
  EXPECT_EQ(state.rank.end, from_epoch_seconds(2000));
  EXPECT_EQ(table.find_live(100), nullptr);
  EXPECT_EQ(table.all().size(), 1U);
}

TEST_F(Ranks, APidUsedAgainIsAnotherRank) {
  const std::uint64_t first = table.take(start(0, 1, 100)).rank.rank_id;
  Registration again = start(0, 1, 100);
  again.start_ticks = 5000;
  EXPECT_NE(table.take(again).rank.rank_id, first);
  Registration other = start(0, 1, 100);
  other.job_id = 4712;
  EXPECT_EQ(table.take(other).rank.job_id, 4712U);
  EXPECT_EQ(table.all().size(), 3U);
}

TEST_F(Ranks, AnExitWhoseStartWasLostIsKept) {
  const RankState& state = table.take(exit_of(start(5, 8, 100), 256));
  EXPECT_EQ(state.rank.exit_code, 1);
  EXPECT_TRUE(state.is_ended());
}

TEST_F(Ranks, TheStatusMayComeAfterTheEndButNothingUnknownAfterIt) {
  RankState& state = table.take(start(5, 8, 100));
  table.end(state, from_epoch_seconds(1999), {}, {});
  const std::uint64_t revision = state.revision;
  table.take(exit_of(start(5, 8, 100), 256));
  EXPECT_EQ(state.rank.exit_code, 1);
  EXPECT_GT(state.revision, revision);
  table.end(state, from_epoch_seconds(2001), {}, {});
  EXPECT_EQ(state.rank.exit_code, 1);
  EXPECT_EQ(table.all().size(), 1U);
}

TEST_F(Ranks, TheProbeOfTheTaskItselfOrOfItsOneChildIsTheTasksRank) {
  RankState& own = table.take(start(0, 2, 100));
  EXPECT_EQ(&table.take(own, hello(0, 2), process(100)), &own);
  RankState& shell = table.take(start(1, 2, 200));
  EXPECT_EQ(&table.take(shell, hello(1, 2), process(201)), &shell);
  EXPECT_EQ(shell.writer_pid, 201);
  EXPECT_EQ(shell.rank.pid, 200) << "the task's end is the rank's";
  EXPECT_TRUE(shell.rank.is_probed);
  EXPECT_EQ(&table.take(shell, hello(1, 2), process(201)), &shell) << "said twice";
}

TEST_F(Ranks, TorchrunWithSeveralWorkersMakesTheTaskALauncher) {
  RankState& task = table.take(start(1, 2, 100));
  RankState& two = table.take(task, hello(2, 4), process(101));
  RankState& three = table.take(task, hello(3, 4), process(102));
  EXPECT_NE(&two, &task);
  EXPECT_NE(&three, &two);
  EXPECT_EQ(three.rank.rank, 3);
  EXPECT_EQ(three.rank.world_size, 4);
  EXPECT_EQ(three.rank.task, 1);
  EXPECT_EQ(three.rank.job_id, 4711U);
  EXPECT_EQ(three.rank.source, model::RankSource::probe);
  EXPECT_TRUE(task.is_launcher);
  EXPECT_EQ(task.rank.rank, -1);
  EXPECT_EQ(task.rank.world_size, -1);
}

TEST_F(Ranks, ARankFoundByEnvironmentIsTheOneThatSaysHelloLater) {
  RankState& task = table.take(start(0, 1, 100));
  RankState& found = table.take(task, FrameworkRank{1, 1, 2, 0}, process(101));
  EXPECT_EQ(found.rank.source, model::RankSource::environment);
  EXPECT_FALSE(found.rank.is_probed);
  EXPECT_EQ(&table.take(found, hello(1, 2), process(101)), &found);
  EXPECT_TRUE(found.rank.is_probed);
  EXPECT_EQ(found.rank.source, model::RankSource::probe);
}

TEST_F(Ranks, ADataLoadersEnvironmentIsNoNewRank) {
  RankState& task = table.take(start(0, 1, 100));
  RankState& worker = table.take(task, FrameworkRank{1, 1, 2, 0}, process(101));
  EXPECT_EQ(&table.take(worker, FrameworkRank{1, 1, 2, 0}, process(102)), &worker);
  EXPECT_EQ(table.all().size(), 2U);
}

TEST_F(Ranks, AnElasticRestartIsANewRank) {
  RankState& task = table.take(start(0, 1, 100));
  RankState& first = table.take(task, hello(0, 1), process(101));
  EXPECT_EQ(&first, &task);
  RankState& second = table.take(task, hello(0, 1, 1), process(102));
  EXPECT_NE(&second, &first);
  EXPECT_EQ(second.rank.elastic_restart, 1U);
  EXPECT_FALSE(task.is_launcher) << "it has marks of its own";
}

TEST_F(Ranks, ARegistrationAfterDiscoveryMakesNoSecondRank) {
  SlurmTask slurm;
  slurm.job_id = 4711;
  slurm.step_id = "0";
  slurm.task = 5;
  slurm.tasks = 8;
  RankState& found = table.take(slurm, process(100), model::RankSource::environment);
  RankState& told = table.take(start(5, 8, 100));
  EXPECT_EQ(&found, &told);
  EXPECT_EQ(told.rank.source, model::RankSource::spank);
}

TEST_F(Ranks, ChangesAreToldOnce) {
  RankState& state = table.take(start(0, 1, 100));
  EXPECT_EQ(table.take_changed(), std::set{state.rank.rank_id});
  EXPECT_TRUE(table.take_changed().empty());
  table.take(start(0, 1, 100));
  table.take(state, hello(0, 1), process(100));
  EXPECT_EQ(table.take_changed(), std::set{state.rank.rank_id});
  table.take(state, hello(0, 1), process(100));
  EXPECT_TRUE(table.take_changed().empty()) << "nothing new was said";
}

TEST_F(Ranks, BelowAForgottenTaskThereIsStillARank) {
  RankState& task = table.take(start(0, 1, 100));
  RankState& worker = table.take(task, hello(1, 2), process(101));
  table.erase(task.rank.rank_id);
  RankState& below = table.take(worker, hello(5, 8), process(102));
  EXPECT_EQ(below.rank.rank, 5);
}

TEST_F(Ranks, AStateRecordComesBack) {
  RankState& state = table.take(start(5, 8, 100));
  table.take(exit_of(start(5, 8, 100), 256));
  state.is_launcher = true;
  state.task_rank_id = 77;
  state.writer_pid = 101;
  const auto got = decode_state(encode_state(state));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->start_ticks, state.start_ticks);
  EXPECT_EQ(got->task_rank_id, 77U);
  EXPECT_EQ(got->tasks, 8);
  EXPECT_EQ(got->writer_pid, 101);
  EXPECT_TRUE(got->is_launcher);
  EXPECT_EQ(got->rank.exit_code, 1);
  EXPECT_EQ(got->rank.step_id, "0");
  const std::string whole = encode_state(state);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_state(std::string_view(whole).substr(0, size))) << size;
}

}  // namespace
}  // namespace vetta::collect
