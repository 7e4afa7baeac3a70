// SPDX-License-Identifier: Apache-2.0
// Screens from made-up answers: what stands first, what is left out, what hostile texts cannot do.
#include "cli/screen.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/job.h"
#include "cli/value.h"
#include "core/text.h"

namespace vetta::cli {
namespace {

const Time at = from_epoch_seconds(1'800'000'000);

Json diagnosis() {
  return {{"outcome", "slow_rank"},
          {"reason", "its data phase takes 2.1 times its peers'"},
          {"rank", 1},
          {"node", "n002"},
          {"phase", "data"},
          {"cause", "data"},
          {"lost_share", 0.25},
          {"lost_time", 30.0},
          {"persistence", 0.97},
          {"confidence", 0.9},
          {"steps", 400},
          {"median_step", 0.1},
          {"evidence", Json::array({"rank 1: data 70 ms, peers 10 ms"})}};
}

Json marks(double data, double wait) {
  Json all = Json::array();
  for (int i = 0; i < 9; ++i)
    all.push_back(
        {{"step", i}, {"duration", 0.1}, {"phases", {{"data", data}, {"allreduce", wait}}}});
  return all;
}

Json job_view() {
  Json view;
  view["detail"] = {
      {"job",
       {{"id", "4711"},
        {"name", "train"},
        {"state", "RUNNING"},
        {"submit", 1'799'999'000.0},
        {"start", 1'799'999'100.0},
        {"end", nullptr},
        {"user", "ada"},
        {"time_limit", 3600.0},
        {"nodes", "n[001-002]"}}},
      {"attempts", Json::array()},
      {"allocations", Json::array({{{"node", "n001"}, {"cpus", 2}, {"devices", {"gpu:0"}}}})},
      {"agents", Json::array({{{"node", "n001"}, {"is_connected", true}}})}};
  view["steps"] = {
      {"ranks", Json::array({{{"rank", 0}, {"node", "n001"}, {"marks", marks(0.01, 0.06)}},
                             {{"rank", 1}, {"node", "n002"}, {"marks", marks(0.07, 0.0)}}})}};
  view["diagnosis"] = {{"diagnosis", diagnosis()}};
  return view;
}

TEST(JobScreen, TellsTheDiagnosisBeforeEverythingElse) {
  const std::string text = job_screen(job_view(), Terminal(), at, false);
  const auto lines = split(text, "\n");
  EXPECT_TRUE(lines[0].starts_with("job 4711  train")) << text;
  EXPECT_TRUE(lines[0].ends_with("RUNNING  15m00s of 1h00m")) << text;
  const auto answer = text.find("rank 1 on n002 holds the others: 25 % of the step time is lost");
  ASSERT_NE(answer, std::string::npos) << text;
  EXPECT_LT(answer, text.find("submitted"));
  EXPECT_NE(text.find("2.50 ◀ holds the others"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "no colour without a terminal";
}

TEST(JobScreen, OwnWorkAndWaitingAreTwoThings) {
  const auto all = paces(job_view()["steps"]);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_DOUBLE_EQ(all[0].own_seconds, 0.04);
  EXPECT_DOUBLE_EQ(all[0].wait_seconds, 0.06);
  EXPECT_DOUBLE_EQ(all[1].own_seconds, 0.1);
  EXPECT_EQ(all[1].step, 8);
}

TEST(JobScreen, FitsTheScreen) {
  Terminal terminal;
  for (const std::size_t columns : {80U, 100U, 200U}) {
    terminal.columns = columns;
    const std::string text = job_screen(job_view(), terminal, at, false);
    for (const std::string_view line : split(text, "\n")) EXPECT_LE(width(line), columns) << line;
  }
}

TEST(JobScreen, ManyRanksAreTheSlowestAndACount) {
  Json view = job_view();
  for (int i = 2; i < 100; ++i)
    view["steps"]["ranks"].push_back({{"rank", i}, {"node", "n003"}, {"marks", marks(0.01, 0.06)}});
  EXPECT_NE(job_screen(view, Terminal(), at, false).find("the 16 slowest of 100 ranks"),
            std::string::npos);
  EXPECT_EQ(job_screen(view, Terminal(), at, true).find("slowest of"), std::string::npos);
}

TEST(JobScreen, SurvivesAnswersWithNothingInThem) {
  EXPECT_FALSE(job_screen(Json::object(), Terminal(), at, false).empty());
  Json odd;
  odd["detail"] = {{"job", 7}, {"allocations", "x"}};
  odd["steps"] = {
      {"ranks", Json::array({Json(), Json::array(), {{"marks", Json::array({1, 2})}}})}};
  EXPECT_FALSE(job_screen(odd, Terminal(), at, false).empty());
}

TEST(WhyScreen, AnswersInItsFirstLineAndListsTheRest) {
  const Json answer = {
      {"job", {{"id", "4711"}, {"name", "train"}, {"state", "FAILED"}, {"nodes", "n001"}}},
      {"why",
       {{"answer", "code"},
        {"headline", "rank 3 raised ValueError"},
        {"first",
         {{"time", 1'799'999'500.0},
          {"rank", 3},
          {"node", "n002"},
          {"exit_code", 1},
          {"message", "ValueError: shapes differ"},
          {"detail", "line a\nline b\x1b[2J"}}},
        {"evidence", Json::array({"exit code 1 of step 0"})},
        {"lost",
         Json::array({{{"what", "waiting in the queue"}, {"time", 60.0}, {"note", nullptr}}})},
        {"advice", Json::array({"mend line 12 of train.py"})},
        {"unknown", Json::array({"no agent ran on n003"})}}}};
  const std::string text = why_screen(answer, Terminal());
  EXPECT_TRUE(text.starts_with("▌ your code: rank 3 raised ValueError\n")) << text;
  for (const char* words : {"rank 3  on n002  exit code 1", "ValueError: shapes differ",
                            "60.0 s  waiting in the queue", "mend line 12", "no agent ran on n003"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Value, ExitsAreToldInWords) {
  EXPECT_EQ(exit_text({{"exit_code", 0}, {"exit_signal", 0}}), "");
  EXPECT_EQ(exit_text({{"exit_code", 3}, {"exit_signal", 0}}), "exit code 3");
  EXPECT_EQ(exit_text({{"exit_code", 0}, {"exit_signal", 9}}), "signal 9 (Killed)");
  EXPECT_EQ(exit_text({{"exit_code", nullptr}}), "");
}

TEST(Value, StatesHaveSlurmsLetters) {
  EXPECT_EQ(state_letters("RUNNING"), "R");
  EXPECT_EQ(state_letters("OUT_OF_MEMORY"), "OOM");
  EXPECT_EQ(state_letters("SOMETHING_NEW"), "SOMETHING_NEW");
}

TEST(Value, JobIdsAreEscapedInPaths) {
  EXPECT_EQ(job_path("4711_3/2", "/why"), "/api/v1/jobs/4711_3%2F2/why");
}

}  // namespace
}  // namespace vetta::cli
