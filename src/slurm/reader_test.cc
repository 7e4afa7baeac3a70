// SPDX-License-Identifier: Apache-2.0
#include "slurm/reader.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "slurm/jobs.h"
#include "sys/fake_process.h"

namespace vetta::slurm {
namespace {

constexpr const char* separator = "~S~";

/// One squeue record: only the named fields are filled.
std::string job_line(const std::vector<std::string>& fields,
                     const std::vector<std::pair<std::string, std::string>>& values) {
  std::string line;
  for (const std::string& field : fields) {
    std::string value = "N/A";
    for (const auto& [name, text] : values)
      if (name == field) value = text;
    line += value + separator;
  }
  return line + "\n";
}

struct ReaderTest : testing::Test {
  std::shared_ptr<sys::FakeCommandRunner> runner = std::make_shared<sys::FakeCommandRunner>();

  Reader reader() {
    ReaderConfig config;
    config.cluster = "c";
    config.separator = separator;
    return Reader(config, runner);
  }
};

TEST_F(ReaderTest, AsksWithEpochTimesAndACleanEnvironment) {
  ::setenv("SQUEUE_FORMAT", "%i", 1);
  sys::Command seen;
  runner->on("squeue", [&seen](const sys::Command& command) -> Result<sys::CommandOutput> {
    seen = command;
    sys::CommandOutput output;
    output.status.code = 0;
    return output;
  });
  const auto jobs = reader().jobs();
  ::unsetenv("SQUEUE_FORMAT");
  EXPECT_TRUE(jobs.is_known());  // an empty queue of a program that succeeded
  EXPECT_TRUE(jobs.value.empty());
  ASSERT_TRUE(seen.env);
  const auto& env = *seen.env;
  EXPECT_NE(std::ranges::find(env, "SLURM_TIME_FORMAT=%s"), env.end());
  EXPECT_NE(std::ranges::find(env, "TZ=UTC"), env.end());
  EXPECT_TRUE(std::ranges::none_of(env, [](const auto& e) { return e.starts_with("SQUEUE_"); }));
  EXPECT_TRUE(seen.argv.back().starts_with("JobID:~S~,JobArrayID:~S~,"));
  EXPECT_TRUE(seen.argv.back().ends_with(",Name:~S~"));
}

TEST_F(ReaderTest, GoesOnWithoutFieldsThatAReleaseDoesNotKnow) {
  auto fields = job_fields();
  std::erase(fields, "tres-per-task");
  const std::string line = job_line(fields, {{"JobID", "7"},
                                             {"SubmitTime", "1796047451"},
                                             {"State", "RUNNING"},
                                             {"NodeList", "n1"},
                                             {"StartTime", "1796047452"},
                                             {"EndTime", "1796051052"},
                                             {"Name", "a\nb"}});
  runner->on("squeue", [&](const sys::Command&) -> Result<sys::CommandOutput> {
    sys::CommandOutput output;
    output.status.code = 0;
    output.error = "squeue: error: Invalid job format specification: tres-per-task\n";
    output.out = line;
    return output;
  });
  Reader one = reader();
  const auto jobs = one.jobs();
  ASSERT_TRUE(jobs.is_known());
  ASSERT_EQ(jobs.value.size(), 1U);
  EXPECT_EQ(jobs.value[0].name, "a\nb");
  EXPECT_EQ(jobs.value[0].start, from_epoch_seconds(1796047452));
  EXPECT_FALSE(jobs.value[0].end);  // the end of a running job is its limit
  runner->on("squeue", line);
  EXPECT_TRUE(one.jobs().is_known());
  EXPECT_FALSE(runner->calls().back().contains("tres-per-task"));
}

TEST_F(ReaderTest, SaysWhyItCouldNotAsk) {
  runner->on_exit("squeue", 1,
                  "slurm_load_jobs error: Unable to contact slurm controller (connect failure)");
  const auto down = reader().jobs();
  EXPECT_EQ(down.knowledge, model::Knowledge::could_not_ask);
  EXPECT_TRUE(down.why.text().contains("slurmctld does not answer"));

  // A program that is not there says nothing about jobs.
  const auto missing = reader().nodes();
  EXPECT_EQ(missing.knowledge, model::Knowledge::could_not_ask);
  EXPECT_TRUE(missing.why.text().contains("install Slurm's client programs"));

  Error late;
  late.code = Code::timeout;
  late.message = "it took over 60 s";
  runner->on_error("sdiag", late);
  EXPECT_TRUE(reader().sdiag().why.text().contains("busy or unreachable"));

  runner->on("squeue", "something else altogether\n");
  const auto garbled = reader().jobs();
  EXPECT_EQ(garbled.knowledge, model::Knowledge::could_not_ask);
  EXPECT_TRUE(garbled.why.text().contains("line 1"));
}

TEST_F(ReaderTest, AsksSacctForTheFieldsThatItHas) {
  runner->on("sacct -e", "JobID JobIDRaw  State\nSubmit Start End NodeList JobName\n");
  runner->on("sacct -a",
             "9~S~9~S~COMPLETED~S~1796047451~S~1796047452~S~1796047460~S~n1~S~x~S~\n"
             "9.0~S~9.0~S~FAILED~S~1796047452~S~1796047452~S~1796047460~S~n1~S~y~S~\n");
  Reader one = reader();
  const auto read = one.accounting(from_epoch_seconds(1796047400), from_epoch_seconds(1796047500));
  ASSERT_TRUE(read.is_known()) << read.why.text();
  ASSERT_EQ(read.value.size(), 1U);
  EXPECT_EQ(read.value[0].attempt.end, from_epoch_seconds(1796047460));
  ASSERT_EQ(read.value[0].steps.size(), 1U);
  const std::string call = runner->calls().back();
  EXPECT_TRUE(call.contains("-S 2026-11-30T14:03:20 -E 2026-11-30T14:05:00")) << call;
  EXPECT_TRUE(call.ends_with("--format=JobIDRaw,JobID,State,Submit,Start,End,NodeList,JobName"));
  (void)one.accounting(from_epoch_seconds(1796047400), from_epoch_seconds(1796047500));
  EXPECT_EQ(runner->calls().size(), 3U);  // the fields are asked once
}

TEST_F(ReaderTest, LearnsTheClustersName) {
  runner->on("scontrol show config",
             "Configuration data as of x\nClusterName             = alps\n");
  Reader one({}, runner);
  EXPECT_EQ(one.cluster_name(), std::nullopt);
  EXPECT_EQ(one.cluster().value, "alps");
  EXPECT_EQ(one.cluster_name(), "alps");
  (void)one.cluster();
  EXPECT_EQ(runner->calls().size(), 1U);
}

TEST(Version, Parses) {
  EXPECT_EQ(parse_version("slurm-wlm 22.05.8\n")->minor, 5);
  EXPECT_EQ(parse_version("slurm 23.11.0-0rc1")->patch, 0);
  EXPECT_LT(parse_version("slurm 22.05.8").value(), parse_version("slurm 24.11.3").value());
  EXPECT_FALSE(parse_version("slurm"));
  EXPECT_FALSE(parse_version("slurm x.y"));
}

}  // namespace
}  // namespace vetta::slurm
