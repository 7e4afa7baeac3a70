// SPDX-License-Identifier: Apache-2.0
// One contract for the real runner, and the fake's own script.
#include "sys/process.h"

#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

#include "sys/fake_process.h"
#include "sys/files.h"

namespace vetta::sys {
namespace {

using namespace std::chrono_literals;

/// qemu-user makes vfork a fork: a failed exec shows as the child's exit code only, and a fork
/// beside a running thread hangs now and then. It shows the host's /proc/cpuinfo.
bool is_emulated() {
#ifdef __aarch64__
  return read_file("/proc/cpuinfo", 1U << 24U).value_or("").find("vendor_id") != std::string::npos;
#else
  return false;
#endif
}

Command shell(std::string script) {
  Command command;
  command.argv = {"/bin/sh", "-c", std::move(script)};
  return command;
}

TEST(ProcessRunner, GivesOutputErrorAndStatus) {
  ProcessRunner runner;
  const auto output = runner.run(shell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out, "out\n");
  EXPECT_EQ(output->error, "err\n");
  EXPECT_EQ(output->status.code, 3);
  EXPECT_EQ(output->status.text(), "exit code 3");
  const auto killed = runner.run(shell("kill -9 $$"));
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->status.signal, 9);
  EXPECT_EQ(killed->status.text(), "signal 9 (KILL)");
}

TEST(ProcessRunner, GivesInputEnvironmentAndFolder) {
  ProcessRunner runner;
  Command command = shell("cat; echo $WORD; pwd");
  command.input = std::string(300'000, 'x');
  command.env = {"WORD=hello", "PATH=/usr/bin:/bin"};
  command.folder = "/";
  const auto output = runner.run(command);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out, command.input + "hello\n/\n");
}

TEST(ProcessRunner, InputThatNobodyReadsIsNoError) {
  ProcessRunner runner;
  Command command = shell("exec true");
  command.input = std::string(1'000'000, 'x');
  EXPECT_TRUE(runner.run(command));
}

TEST(ProcessRunner, ANameThatIsNoProgramIsNotFound) {
  if (is_emulated()) GTEST_SKIP() << "an emulator without vfork";
  ProcessRunner runner;
  Command command;
  command.argv = {"vetta-no-such-program"};
  const auto output = runner.run(command);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, Code::not_found);
  EXPECT_NE(output.error().message.find("vetta-no-such-program"), std::string::npos);
}

TEST(ProcessRunner, TheTimeLimitKillsTheWholeGroup) {
  ProcessRunner runner;
  Command command = shell("sleep 600 & echo $!; wait");
  command.timeout = 300ms;
  const auto output = runner.run(command);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, Code::timeout);
}

TEST(ProcessRunner, TooMuchOutputIsAnErrorTooMuchTalkIsCut) {
  ProcessRunner runner;
  Command command = shell("head -c 100000 /dev/zero");
  command.out_max = 1000;
  EXPECT_EQ(runner.run(command).error().code, Code::exhausted);
  command = shell("head -c 100000 /dev/zero >&2; echo fine");
  command.error_max = 1000;
  const auto output = runner.run(command);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out, "fine\n");
  EXPECT_EQ(output->error.size(), 1000U);
  EXPECT_TRUE(output->is_error_cut);
}

TEST(ProcessRunner, ACancelEndsIt) {
  if (is_emulated()) GTEST_SKIP() << "an emulator without vfork";
  ProcessRunner runner;
  std::stop_source stop;
  std::jthread canceller([&stop] { stop.request_stop(); });
  const auto output = runner.run(shell("sleep 600"), stop.get_token());
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, Code::unavailable);
}

TEST(ProcessRunner, AGrandchildThatHoldsThePipeDoesNotHoldUs) {
  ProcessRunner runner;
  const auto output = runner.run(shell("sleep 600 & echo done"));
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out, "done\n");
  EXPECT_LT(output->elapsed, 10s);
}

TEST(ProcessRunner, TheChildSeesNoneOfOurDescriptors) {
  ProcessRunner runner;
  const auto output = runner.run(shell("ls /proc/self/fd | wc -l"));
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out, "4\n");  // 0 1 2 and ls's own
}

TEST(RunForOutput, AFailureCarriesTheLastLineOfStderr) {
  ProcessRunner runner;
  EXPECT_EQ(run_for_output(runner, shell("echo yes")).value(), "yes\n");
  const auto failed = run_for_output(runner, shell("echo one >&2; echo two >&2; exit 1"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "/bin/sh ended with exit code 1: two");
}

TEST(FakeCommandRunner, AnswersByWordsAndRecords) {
  FakeCommandRunner runner;
  runner.on("squeue", "jobs");
  runner.on_exit("squeue --bad", 1, "no");
  Command command;
  command.argv = {"squeue", "-a"};
  EXPECT_EQ(run_for_output(runner, command).value(), "jobs");
  command.argv = {"squeue", "--bad"};
  EXPECT_EQ(runner.run(command)->status.code, 1);
  command.argv = {"sinfo"};
  EXPECT_EQ(runner.run(command).error().code, Code::not_found);
  EXPECT_EQ(runner.calls(), (std::vector<std::string>{"squeue -a", "squeue --bad", "sinfo"}));
}

}  // namespace
}  // namespace vetta::sys
