// SPDX-License-Identifier: Apache-2.0
// Discovery and samples on a fake /proc.
#include "collect/discovery.h"

#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "collect/kernel_log.h"
#include "collect/sample.h"
#include "sys/files.h"

namespace vetta::collect {
namespace {

using Env = std::vector<std::string>;

class Discover : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "discovery-" + std::to_string(::getpid());
    std::filesystem::remove_all(root_);
    put("stat", "cpu 1 2 3 4 5 6 7 8 0 0\nbtime 1700000000\n");
    proc_.emplace(root_);
    discovery_.emplace(*proc_, table_, "n001", true);
    process(1, 0, 0, {});
    process(50, 1, 0, {}, "slurmstepd");
  }

  void TearDown() override { std::filesystem::remove_all(root_); }

  void put(const std::string& name, std::string_view content) const {
    const std::string path = root_ + "/" + name;
    ASSERT_TRUE(sys::make_folders(sys::folder_of(path)));
    ASSERT_TRUE(sys::write_atomically(path, content));
  }

  void process(int pid, int parent, int uid, const Env& env, const char* name = "p") const {
    const std::string folder = std::to_string(pid);
    put(folder + "/stat",
        fmt::format("{} ({}) S {} 1 1 0 -1 0 10 20 3 4 50 60 7 8 20 0 9 0 {} 1 100 0\n", pid, name,
                    parent, pid * 10));
    put(folder + "/status",
        fmt::format("Uid:\t{}\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n",
                    uid));
    put(folder + "/io", "read_bytes: 1000\nwrite_bytes: 2000\n");
    std::string block;
    for (const std::string& entry : env) block += entry + '\0';
    put(folder + "/environ", block);
  }

  void end(int pid) const { std::filesystem::remove_all(root_ + "/" + std::to_string(pid)); }

  static Env slurm(int task, std::string node = "n001") {
    return {"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", fmt::format("SLURM_PROCID={}", task),
            "SLURM_NTASKS=2", "SLURMD_NODENAME=" + std::move(node)};
  }

  static Env with_rank(Env env, int rank, int world) {
    env.push_back(fmt::format("RANK={}", rank));
    env.push_back(fmt::format("LOCAL_RANK={}", rank));
    env.push_back(fmt::format("WORLD_SIZE={}", world));
    return env;
  }

  std::string root_;
  std::uint64_t last_id_ = 0;
  RankTable table_{"n001", [this] { return ++last_id_; }};
  std::optional<sys::Procfs> proc_;
  std::optional<Discovery> discovery_;
};

TEST_F(Discover, FindsTasksOfThisNodeByTheirTopmostProcess) {
  process(100, 50, 1000, slurm(0));
  process(101, 100, 1000, slurm(0));
  process(200, 50, 1000, slurm(1, "n002"));
  Env other = slurm(1);
  other.emplace_back("SLURM_CLUSTER_NAME=other");
  process(201, 50, 1000, other);
  discovery_->set_site("alps", "/run/vetta/n001/probe.sock");
  ASSERT_TRUE(discovery_->scan());
  ASSERT_EQ(table_.all().size(), 1U);
  const RankState& state = table_.all().begin()->second;
  EXPECT_EQ(state.rank.pid, 100);
  EXPECT_EQ(state.rank.uid, 1000U);
  EXPECT_EQ(state.rank.start, from_epoch_seconds(1700000010));
  auto members = discovery_->members();
  ASSERT_EQ(members.size(), 1U);
  EXPECT_EQ(members.begin()->second.size(), 2U);
}

TEST_F(Discover, AStartFollowsTheClockThatWasSet) {
  ASSERT_TRUE(discovery_->scan());
  put("stat", "cpu 1 2 3 4 5 6 7 8 0 0\nbtime 1700009000\n");
  process(100, 50, 1000, slurm(0));
  ASSERT_TRUE(discovery_->scan());
  ASSERT_NE(table_.find_live(100), nullptr);
  EXPECT_EQ(table_.find_live(100)->rank.start, from_epoch_seconds(1700009010));
  put("stat", "");
  process(101, 50, 1000, slurm(1));
  ASSERT_TRUE(discovery_->scan());
  ASSERT_NE(table_.find_live(101), nullptr);
  EXPECT_EQ(table_.find_live(101)->rank.start,
            from_epoch_seconds(1700009010) + std::chrono::milliseconds(100));
}

TEST_F(Discover, RanksBelowATaskAndTheirChildren) {
  process(100, 50, 1000, slurm(0));
  process(101, 100, 1000, with_rank(slurm(0), 0, 4));
  process(102, 100, 1000, with_rank(slurm(0), 1, 4));
  process(103, 102, 1000, with_rank(slurm(0), 1, 4));  // a data loader
  ASSERT_TRUE(discovery_->scan());
  ASSERT_EQ(table_.all().size(), 3U);
  const RankState* one = table_.find_live(102);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->rank.rank, 1);
  EXPECT_EQ(one->rank.world_size, 4);
  EXPECT_EQ(discovery_->members()[one->rank.rank_id].size(), 2U);
  EXPECT_TRUE(table_.find_live(100)->is_launcher);
  EXPECT_EQ(discovery_->owner_of(103), one);
}

TEST_F(Discover, AProgramThatStartsLateInItsProcessIsLookedAtAgain) {
  process(100, 50, 1000, slurm(0));
  process(101, 100, 1000, slurm(0));
  ASSERT_TRUE(discovery_->scan());
  EXPECT_EQ(table_.all().size(), 1U);
  process(101, 100, 1000, with_rank(slurm(0), 1, 4));  // exec
  ASSERT_TRUE(discovery_->scan());
  EXPECT_EQ(table_.all().size(), 2U);
}

TEST_F(Discover, AnEnvironmentAloneMakesNoTask) {
  process(60, 1, 1000, {}, "slurmstepd");  // a user's program of that name
  process(100, 1, 1000, slurm(0));
  process(101, 60, 1000, slurm(0));
  ASSERT_TRUE(discovery_->scan());
  EXPECT_TRUE(table_.all().empty());
}

TEST_F(Discover, AProcessInOneJobCannotClaimAnother) {
  put("50/cmdline", std::string_view("slurmstepd: [8.0]\0\0\0", 20));
  process(100, 50, 1000, slurm(0));  // says job 7
  ASSERT_TRUE(discovery_->scan());
  EXPECT_TRUE(table_.all().empty());
  EXPECT_EQ(discovery_->refused(), 1U);
  put("50/cmdline", "slurmstepd: [7.0]");
  EXPECT_NE(discovery_->adopt(100, model::RankSource::probe), nullptr);
  EXPECT_EQ(discovery_->refused(), 1U);
}

TEST_F(Discover, WhereTheTitleSaysNothingTheCgroupTells) {
  put("50/cmdline", "/usr/sbin/slurmstepd");
  process(100, 50, 1000, slurm(0));
  process(101, 50, 1000, slurm(1));
  put("100/cgroup", "0::/system.slice/slurmstepd.scope/job_8/step_0/user/task_0\n");
  put("101/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0/user/job_9\n");
  ASSERT_TRUE(discovery_->scan());
  ASSERT_EQ(table_.all().size(), 1U);
  EXPECT_EQ(table_.all().begin()->second.rank.pid, 101);
  EXPECT_EQ(discovery_->refused(), 1U);
}

TEST_F(Discover, AComponentOfAHetJobIsTheJobThatSlurmSays) {
  put("50/cmdline", "slurmstepd: [8.0+1]");
  Env env = slurm(0);
  env.emplace_back("SLURM_HET_SIZE=2");
  process(100, 50, 1000, env);
  ASSERT_TRUE(discovery_->scan());
  ASSERT_EQ(table_.all().size(), 1U);
  EXPECT_EQ(table_.all().begin()->second.rank.job_id, 8U);
}

TEST_F(Discover, AnotherUsersEnvironmentMakesNoRankOfThisTask) {
  process(100, 50, 1000, slurm(0));
  process(101, 100, 2000, with_rank(slurm(0), 1, 4));
  ASSERT_TRUE(discovery_->scan());
  EXPECT_EQ(table_.all().size(), 1U);
}

TEST_F(Discover, AnOrphanStaysWithItsRank) {
  process(100, 50, 1000, slurm(0));
  process(101, 100, 1000, {});
  process(102, 101, 1000, {});
  ASSERT_TRUE(discovery_->scan());
  end(101);
  process(102, 1, 1000, {});
  process(103, 102, 1000, {});
  ASSERT_TRUE(discovery_->scan());
  EXPECT_EQ(discovery_->owner_of(103), table_.find_live(100));
}

TEST_F(Discover, ACircleOfParentsEnds) {
  process(100, 101, 1000, {});
  process(101, 100, 1000, {});
  EXPECT_EQ(discovery_->owner_of(100), nullptr);
  ASSERT_TRUE(discovery_->scan());
}

TEST_F(Discover, WithoutANodesNameOnAKernelOfOneNodeATaskIsOurs) {
  process(100, 50, 1000, {"SLURM_JOB_ID=7", "SLURM_PROCID=0"});
  ASSERT_TRUE(discovery_->scan());
  EXPECT_TRUE(table_.all().empty());
  Discovery alone(*proc_, table_, "n001", false);
  ASSERT_TRUE(alone.scan());
  EXPECT_EQ(table_.all().size(), 1U);
}

TEST_F(Discover, SamplesSumUpAndTellWhatIsMissing) {
  process(100, 1, 1000, {});
  process(101, 100, 1000, {});
  const auto sample = sample_rank(*proc_, {100, 101, 999}, from_epoch_seconds(5));
  const double tick = seconds(sys::from_ticks(1));
  EXPECT_NEAR(*sample.cpu_seconds, 2 * (50 + 60 + 7 + 8) * tick, 1e-9);
  EXPECT_EQ(sample.minor_faults, 60U);
  EXPECT_EQ(sample.major_faults, 14U);
  EXPECT_EQ(sample.read_bytes, 2000U);
  EXPECT_EQ(sample.voluntary_switches, 10U);
  EXPECT_EQ(sample.threads, 18U);
  EXPECT_EQ(sample.processes, 2U);
  EXPECT_EQ(sample.gap, "");
  const auto gone = sample_rank(*proc_, {999}, from_epoch_seconds(5));
  EXPECT_FALSE(gone.cpu_seconds);
  EXPECT_EQ(gone.gap, "its processes have ended");
  const auto node = sample_node(*proc_, true, from_epoch_seconds(5));
  EXPECT_TRUE(node.cpu_seconds_busy);
  EXPECT_FALSE(node.load_1m);
  EXPECT_NE(node.gap.find("loadavg"), std::string::npos);
  EXPECT_TRUE(node.shared_host);
}

TEST(KernelLine, OutOfMemoryKillsOfBothKinds) {
  const auto cgroup = parse_kernel_line(
      "3,1234,5000000,-;Memory cgroup out of memory: Killed process 4711 (python3) "
      "total-vm:1kB, anon-rss:2kB, UID:1000\n SUBSYSTEM=x\n");
  ASSERT_TRUE(cgroup);
  EXPECT_EQ(cgroup->pid, 4711);
  EXPECT_EQ(cgroup->comm, "python3");
  EXPECT_TRUE(cgroup->is_cgroup);
  EXPECT_EQ(cgroup->sequence, 1234U);
  EXPECT_EQ(cgroup->since_boot, std::chrono::seconds(5));
  const auto node =
      parse_kernel_line("3,1,2,-;Out of memory: Killed process 12 (a b) total-vm:1kB");
  ASSERT_TRUE(node);
  EXPECT_FALSE(node->is_cgroup);
  EXPECT_EQ(node->comm, "a b");
}

TEST(KernelLine, ItsTimeIsCountedBackFromNow) {
  OomKill kill;
  kill.since_boot = std::chrono::seconds(90);
  EXPECT_EQ(time_of(kill, from_epoch_seconds(1'700'000'000), std::chrono::seconds(100)),
            from_epoch_seconds(1'699'999'990));
}

TEST(KernelLine, OthersAndForgeriesAreNot) {
  EXPECT_FALSE(parse_kernel_line("6,1,2,-;usb 1-1: new device"));
  EXPECT_FALSE(parse_kernel_line("12,1,2,-;Out of memory: Killed process 12 (a)"))
      << "facility user: anybody may write that";
  for (const char* text : {"", ";", "x", "3;Killed process 1 (a)", "3,1,2,-;Killed process x"})
    EXPECT_FALSE(parse_kernel_line(text)) << text;
}

}  // namespace
}  // namespace vetta::collect
