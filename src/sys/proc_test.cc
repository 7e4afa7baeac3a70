// SPDX-License-Identifier: Apache-2.0
#include "sys/proc.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sys/files.h"

namespace vetta::sys {
namespace {

class FakeProc : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "proc-" + std::to_string(::getpid());
    std::filesystem::remove_all(root_);
  }

  void TearDown() override { std::filesystem::remove_all(root_); }

  void put(const std::string& name, std::string_view content) const {
    const std::string path = root_ + "/" + name;
    ASSERT_TRUE(make_folders(folder_of(path)));
    ASSERT_TRUE(write_atomically(path, content));
  }

  void put_process(int pid, int parent) const {
    put(std::to_string(pid) + "/stat",
        std::to_string(pid) + " (a) S " + std::to_string(parent) +
            " 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 100 1 11 0\n");
  }

  std::string root_;
};

TEST(ParseStat, TakesAnyNameAndAllFields) {
  const auto stat = parse_stat(
      "1234 (evil ) R 9 (x) S 77 1234 1234 0 -1 4194560 100 200 3 4 50 60 7 8 20 0 12 0 98765 "
      "123456 789 18446744073709551615 1 1 0\n");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->pid, 1234);
  EXPECT_EQ(stat->comm, "evil ) R 9 (x");
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 77);
  EXPECT_EQ(stat->minor_faults, 100U);
  EXPECT_EQ(stat->child_minor_faults, 200U);
  EXPECT_EQ(stat->major_faults, 3U);
  EXPECT_EQ(stat->user_ticks, 50U);
  EXPECT_EQ(stat->system_ticks, 60U);
  EXPECT_EQ(stat->child_user_ticks, 7U);
  EXPECT_EQ(stat->threads, 12U);
  EXPECT_EQ(stat->start_ticks, 98765U);
  EXPECT_EQ(stat->rss_pages, 789U);
}

TEST(ParseStat, RefusesWhatIsNoStatLine) {
  for (const char* text : {"", "1", "1 (", "1 )(", "1 (a)", "1 (a) S 1 2 3", "x (a) S 1"})
    EXPECT_FALSE(parse_stat(text)) << text;
}

TEST(ParseStatus, ReadsWhatIsThere) {
  const ProcessStatus status = parse_status(
      "Name:\tx\nUid:\t1000\t0\t0\t0\nVmRSS:\t  12 kB\nvoluntary_ctxt_switches:\t5\n"
      "nonvoluntary_ctxt_switches:\t6\n");
  EXPECT_EQ(status.uid, 1000U);
  EXPECT_EQ(status.rss_bytes, 12288U);
  EXPECT_EQ(status.voluntary_switches, 5U);
  EXPECT_EQ(status.involuntary_switches, 6U);
  EXPECT_FALSE(parse_status("").uid);  // a kernel thread: missing, not zero
}

TEST(ProcessEnvironment, FindsWholeNamesOnly) {
  using std::string_literals::operator""s;
  const ProcessEnvironment env("RANKS=9\0RANK=5\0EMPTY=\0novalue\0RANK=6"s);
  EXPECT_EQ(env.get("RANK"), "5");
  EXPECT_EQ(env.get("EMPTY"), "");
  EXPECT_FALSE(env.get("novalue"));
  EXPECT_FALSE(env.get("RAN"));
}

TEST_F(FakeProc, TreeIsTheProcessAndAllBelowIt) {
  put_process(1, 0);
  put_process(10, 1);
  put_process(11, 10);
  put_process(12, 11);
  put_process(20, 1);
  const Procfs proc(root_);
  EXPECT_EQ(proc.tree(10).value(), (std::vector<std::int32_t>{10, 11, 12}));
  EXPECT_TRUE(proc.tree(99)->empty());
}

TEST_F(FakeProc, NodeFigures) {
  put("stat", "cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3\nbtime 1700000000\n");
  put("loadavg", "1.25 0.5 0.3 1/100 4242\n");
  put("meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n");
  put("net/dev",
      "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 9 1 0 0 0 0 0 0 9 1\n"
      "  eth0:100 1 0 0 0 0 0 0 200 1 0\n eth1: 5 1 0 0 0 0 0 0 6 1 0\n");
  put("pressure/cpu", "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\n");
  put("sys/kernel/random/boot_id", "abc-def\n");
  const Procfs proc(root_);
  EXPECT_EQ(proc.cpu()->busy_ticks, 81U);
  EXPECT_EQ(proc.cpu()->total_ticks, 531U);
  EXPECT_EQ(proc.load_1m().value(), 1.25);
  EXPECT_EQ(proc.memory()->available_bytes, 1048576U);
  EXPECT_EQ(proc.network()->receive_bytes, 105U);
  EXPECT_EQ(proc.network()->transmit_bytes, 206U);
  EXPECT_EQ(proc.pressure("cpu").value(), 0.125);
  EXPECT_EQ(proc.pressure("io").error().code, Code::not_found);
  EXPECT_EQ(proc.boot_time().value(), from_epoch_seconds(1700000000));
  EXPECT_EQ(proc.boot_id().value(), "abc-def");
}

TEST_F(FakeProc, CgroupsOfBothVersions) {
  put("7/cgroup", "5:memory:/slurm/uid_0/job_1\n4:cpu,cpuacct:/\n0::/system.slice:x\n");
  const auto groups = Procfs(root_).cgroups(7);
  ASSERT_TRUE(groups);
  ASSERT_EQ(groups->size(), 3U);
  EXPECT_EQ((*groups)[1].controllers, "cpu,cpuacct");
  EXPECT_EQ((*groups)[2].hierarchy, 0);
  EXPECT_EQ((*groups)[2].path, "/system.slice:x");
}

TEST(Proc, ReadsThisProcess) {
  const Procfs proc;
  const auto stat = proc.stat(::getpid());
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->parent, ::getppid());
  EXPECT_GT(stat->start_ticks, 0U);
  EXPECT_TRUE(proc.environment(::getpid())->get("PATH"));
  const auto pids = proc.pids();
  ASSERT_TRUE(pids);
  EXPECT_TRUE(std::ranges::binary_search(*pids, ::getpid()));
}

}  // namespace
}  // namespace vetta::sys
