// SPDX-License-Identifier: Apache-2.0
#include "slurm/plan.h"

#include <gtest/gtest.h>

namespace vetta::slurm {
namespace {

using namespace std::chrono_literals;

PollState after_round(std::size_t jobs, int rpcs = 6) {
  PollState state;
  state.last_round = 100s;
  state.round_took = 100ms;
  state.round_rpcs = rpcs;
  state.jobs = jobs;
  state.last_partitions = state.last_nodes = state.last_allocations = state.last_sdiag = 100s;
  return state;
}

TEST(Plan, ReadsSmallClustersFastAndLargeOnesWithinTheBudget) {
  const PollLimits limits;
  EXPECT_EQ(next_round(PollState{}, limits), 0s);
  EXPECT_EQ(pause_of(after_round(10), limits), 3s);
  EXPECT_EQ(pause_of(after_round(1000), limits), 3s);
  const double large = seconds(pause_of(after_round(20'000), limits));
  EXPECT_GE(large, 6 * 60 / limits.rpcs_per_minute_max - 0.001);
  EXPECT_LT(large, 70);
  const double middle = seconds(pause_of(after_round(3000), limits));
  EXPECT_GT(middle, 3.5);
  EXPECT_LT(middle, large);
}

TEST(Plan, AMinuteOfALargeClusterNeverSeesMoreThanSixRpcs) {
  const PollLimits limits;
  for (const int rpcs : {1, 4, 5, 6}) {
    const double pause = seconds(pause_of(after_round(20'000, rpcs), limits));
    EXPECT_LE(rpcs * 60 / pause, 6.0) << rpcs;
  }
  PollState first = after_round(20'000);
  first.last_partitions = first.last_nodes = first.last_allocations = std::nullopt;
  for (const int spent : {2, 3}) {
    int sum = spent;
    for (const Question question : plan_round(first, limits, 200s, spent, true).questions)
      sum += rpcs_of(question);
    EXPECT_LE(sum, 6);
  }
}

TEST(Plan, WhatDoesNotFitComesFirstNextTime) {
  const PollLimits limits;
  PollState state = after_round(20'000);
  state.last_allocations = std::nullopt;
  auto plan = plan_round(state, limits, 110s, 3, true);
  EXPECT_EQ(plan.questions, (std::vector{Question::allocations}));
  state = after_round(20'000);
  plan = plan_round(state, limits, 110s, 2, true);
  EXPECT_EQ(plan.questions, (std::vector{Question::allocations, Question::nodes}));
  EXPECT_EQ(plan_round(state, limits, 110s, 2, false).questions, (std::vector{Question::nodes}));
  // A small cluster is asked everything.
  EXPECT_EQ(plan_round(after_round(10), limits, 200s, 3, true).questions.size(), 3U);
}

TEST(Plan, PausesForSlowAnswersBusyControllersAndFailures) {
  const PollLimits limits;
  PollState slow = after_round(10);
  slow.round_took = 2s;
  EXPECT_GE(pause_of(slow, limits), 10s);
  PollState busy = after_round(10);
  busy.controller_busy = true;
  EXPECT_GE(pause_of(busy, limits), 60s);
  PollState failing = after_round(10, 2);
  failing.is_timeout = true;
  Duration last = 0s;
  for (failing.failures = 1; failing.failures < 12; ++failing.failures) {
    const Duration pause = pause_of(failing, limits);
    EXPECT_GE(pause, last);
    EXPECT_LE(pause, limits.pause_max);
    last = pause;
  }
  EXPECT_EQ(last, limits.pause_max);
}

TEST(Plan, AControllerThatIsDownIsAskedAgainWithinHalfAMinute) {
  const PollLimits limits;
  PollState failing = after_round(10, 2);
  failing.round_took = 15s;  // squeue's patience with a port where nobody listens
  failing.failures = 1;
  EXPECT_EQ(pause_of(failing, limits), 6s);
  failing.failures = 12;
  EXPECT_EQ(pause_of(failing, limits), 30s);
  note_failure(failing, true);
  EXPECT_EQ(pause_of(failing, limits), 25s) << "it is there, too busy to answer in time";
  note_failure(failing, true);
  EXPECT_EQ(pause_of(failing, limits), 50s);
  note_failure(failing, false);
  EXPECT_EQ(pause_of(failing, limits), 6s);
  failing.failures = 0;
  EXPECT_GE(pause_of(failing, limits), 75s) << "it answered, slowly";
}

TEST(Plan, ANudgeIsAnsweredSoonOnSmallClustersAndNeverOverTheBudget) {
  const PollLimits limits;
  PollState small = after_round(10);
  small.nudged = 100s;
  EXPECT_EQ(next_round(small, limits), 101s);
  PollState large = after_round(20'000);
  const Duration regular = next_round(large, limits);
  large.nudged = 100s;
  EXPECT_EQ(next_round(large, limits), regular);
  PollState failing = after_round(10);
  failing.failures = 3;
  failing.nudged = 100s;
  EXPECT_EQ(next_round(failing, limits), 100s + pause_of(failing, limits));
}

TEST(Plan, AccountingWindowsOverlapAndCatchUpInPieces) {
  const PollLimits limits;
  const Time now = from_epoch_seconds(1'000'000);
  Window window = accounting_window(now - 30s, now, limits);
  EXPECT_EQ(window.from, now - 30s - limits.accounting_overlap);
  EXPECT_EQ(window.until, now);
  EXPECT_TRUE(window.reaches_present);
  Time mark = now - 48h;
  int pieces = 0;
  for (window = {}; !window.reaches_present; ++pieces) {
    ASSERT_LT(pieces, 100);
    window = accounting_window(mark, now, limits);
    EXPECT_LT(window.from, mark);
    EXPECT_GT(window.until, mark);
    mark = window.until;
  }
  EXPECT_EQ(mark, now);
  EXPECT_EQ(accounting_window(now + 1h, now, limits).until, now);  // a clock that was set back
  PollState state = after_round(10);
  state.last_accounting = 100s;
  EXPECT_EQ(next_accounting(state, limits), 130s);
  state.accounting_behind = true;
  EXPECT_EQ(next_accounting(state, limits), 101s);
  state.accounting_failures = 2;
  EXPECT_EQ(next_accounting(state, limits), 220s);
}

}  // namespace
}  // namespace vetta::slurm
