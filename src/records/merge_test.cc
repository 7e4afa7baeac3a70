// SPDX-License-Identifier: Apache-2.0
#include "records/merge.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "records/attempt_columns_detail.h"

namespace vetta::records {
namespace {

using model::Attempt;
using model::JobState;

Attempt attempt_in(JobState state) {
  Attempt a;
  a.key = {"alps", 4711, from_epoch_seconds(1000)};
  a.state = state;
  a.state_text = std::string(model::name(state));
  a.user = "ada";
  if (state != JobState::pending) a.start = from_epoch_seconds(1010);
  if (model::is_final(state)) a.end = from_epoch_seconds(1100);
  return a;
}

Time second(int seconds) {
  return from_epoch_seconds(2000 + seconds);
}

TEST(Merge, AnOlderViewDoesNotUndoTheEnd) {
  const auto ended = told(attempt_in(JobState::failed), ViewSource::controller, second(5));
  const auto running = told(attempt_in(JobState::running), ViewSource::controller, second(9));
  EXPECT_EQ(merge(ended, running).attempt.state, JobState::failed);
  EXPECT_EQ(merge(running, ended).attempt.state, JobState::failed);
}

TEST(Merge, AccountingHasTheLastWordOnTheEnd) {
  const auto inferred = told(attempt_in(JobState::requeued), ViewSource::inferred, second(1));
  auto truth = attempt_in(JobState::node_fail);
  truth.end = from_epoch_seconds(1090);
  const auto accounted = told(truth, ViewSource::accounting, second(0));
  for (const auto& merged : {merge(inferred, accounted), merge(accounted, inferred)}) {
    EXPECT_EQ(merged.attempt.state, JobState::node_fail);
    EXPECT_EQ(merged.attempt.end, from_epoch_seconds(1090));
  }
}

TEST(Merge, AccountingDoesNotBlankWhatTheControllerTold) {
  auto rich = attempt_in(JobState::running);
  rich.std_out = "/home/ada/out\xff";
  rich.restart = 2;
  auto poor = attempt_in(JobState::completed);
  poor.derived_exit_code = 0;
  const auto merged = merge(told(rich, ViewSource::controller, second(0)),
                            told(poor, ViewSource::accounting, second(9)));
  EXPECT_EQ(merged.attempt.std_out, "/home/ada/out\xff");
  EXPECT_EQ(merged.attempt.restart, 2U);
  EXPECT_EQ(merged.attempt.state, JobState::completed);
  EXPECT_EQ(merged.attempt.derived_exit_code, 0);
}

TEST(Merge, SuspensionsFollowTheState) {
  auto now = first(told(attempt_in(JobState::running), ViewSource::controller, second(0)));
  now = merge(now, told(attempt_in(JobState::suspended), ViewSource::controller, second(10)));
  now = merge(now, told(attempt_in(JobState::suspended), ViewSource::controller, second(20)));
  ASSERT_EQ(now.attempt.suspended.size(), 1U);
  EXPECT_EQ(now.attempt.suspended[0].start, second(10));
  EXPECT_FALSE(now.attempt.suspended[0].end);
  now = merge(now, told(attempt_in(JobState::running), ViewSource::controller, second(30)));
  now = merge(now, told(attempt_in(JobState::running), ViewSource::controller, second(40)));
  ASSERT_EQ(now.attempt.suspended.size(), 1U);
  EXPECT_EQ(now.attempt.suspended[0].end, second(30));
}

TEST(Merge, ChainsAreRequeuesNotWrappedIds) {
  auto earlier = attempt_in(JobState::node_fail);
  auto later = attempt_in(JobState::pending);
  later.key.submit = from_epoch_seconds(1101);
  EXPECT_TRUE(continues(earlier, later));
  later.key.submit = from_epoch_seconds(90'000);
  EXPECT_FALSE(continues(earlier, later));
  later.restart = 1;
  EXPECT_TRUE(continues(earlier, later));
  later.user = "bob";
  EXPECT_FALSE(continues(earlier, later));
}

/// Views of one attempt's life as the two sources tell it: what is known stays known.
std::vector<Told> life() {
  std::vector<Told> views;
  const bool fails = *rc::gen::arbitrary<bool>();
  const auto truth = fails ? JobState::failed : JobState::completed;
  int time = 0;
  const auto tell = [&](JobState state, ViewSource source) {
    Attempt a = attempt_in(state);
    a.priority = *rc::gen::inRange<std::int64_t>(0, 1000);
    a.reason = state == JobState::pending ? "Priority" : "";
    if (source == ViewSource::controller) {
      a.std_out = "/out";
      a.restart = 0;
    } else {
      a.priority.reset();
      a.account = "hep";
    }
    views.push_back(told(a, source, second(++time)));
  };
  for (int i = *rc::gen::inRange(1, 3); i > 0; --i) tell(JobState::pending, ViewSource::controller);
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) tell(JobState::running, ViewSource::controller);
  if (*rc::gen::arbitrary<bool>()) tell(JobState::running, ViewSource::accounting);
  if (*rc::gen::arbitrary<bool>()) tell(truth, ViewSource::controller);
  if (*rc::gen::arbitrary<bool>()) tell(truth, ViewSource::accounting);
  return views;
}

std::int64_t result_of(const std::vector<Told>& views) {
  Told have = first(views.front());
  for (const auto& view : views) have = merge(have, view);
  return hash_of(have.attempt);
}

TEST(Merge, OrderAndRepetitionDoNotMatter) {
  EXPECT_TRUE(rc::check("any order of views gives the same attempt", [] {
    const auto views = life();
    auto shuffled = views;
    for (std::size_t i = shuffled.size(); i > 1; --i)
      std::swap(shuffled[i - 1], shuffled[*rc::gen::inRange<std::size_t>(0, i)]);
    auto twice = shuffled;
    twice.insert(twice.end(), views.begin(), views.end());
    RC_ASSERT(result_of(views) == result_of(shuffled));
    RC_ASSERT(result_of(views) == result_of(twice));
  }));
}

}  // namespace
}  // namespace vetta::records
