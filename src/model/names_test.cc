// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/json.h"

namespace vetta::model {
namespace {

TEST(JobState, ReadsSlurmsForms) {
  EXPECT_EQ(parse_job_state("CANCELLED by 1000"), JobState::cancelled);
  EXPECT_EQ(parse_job_state("COMPLETED+"), JobState::completed);
  EXPECT_EQ(parse_job_state("CG"), JobState::completing);
  EXPECT_EQ(parse_job_state("LATER_WORD"), JobState::unknown);
  for (int i = 0; i < static_cast<int>(JobState::unknown); ++i) {
    const auto state = static_cast<JobState>(i);
    EXPECT_EQ(parse_job_state(name(state)), state);
    EXPECT_FALSE(is_final(state) && holds_nodes(state));
  }
  EXPECT_FALSE(is_final(JobState::unknown));
}

TEST(Names, GoBothWays) {
  for (int i = 0; i <= static_cast<int>(EventKind::source_back); ++i)
    EXPECT_EQ(parse_event_kind(name(static_cast<EventKind>(i))), static_cast<EventKind>(i));
  EXPECT_EQ(parse_phase("allreduce"), Phase::allreduce);
  EXPECT_FALSE(parse_phase("lunch"));
  EXPECT_EQ(name(Answer::cannot_tell), "cannot_tell");
  EXPECT_EQ(name(Outcome::not_distinguishable), "not_distinguishable");
}

TEST(Node, IsUsableOnlyWhenNothingSpeaksAgainstIt) {
  Node node;
  EXPECT_FALSE(is_usable(node));  // no state known: not usable
  node.states = {"MIXED"};
  EXPECT_TRUE(is_usable(node));
  node.states = {"IDLE", "DRAIN"};
  EXPECT_FALSE(is_usable(node));
  node.states = {"IDLE", "NOT_RESPONDING"};
  EXPECT_FALSE(is_usable(node));
}

TEST(Json, UnknownIsNullAndBytesBecomeText) {
  Attempt attempt;
  attempt.key = {"dev", 4711, from_epoch_seconds(1'700'000'000)};
  attempt.name = "caf\xe9";
  attempt.array = Array{4700, 3, ""};
  const Json json = to_json(attempt);
  EXPECT_EQ(json["id"], "4700_3");
  EXPECT_EQ(json["name"], "caf\xef\xbf\xbd");
  EXPECT_TRUE(json["start"].is_null());
  EXPECT_TRUE(json["user"].is_null());
  EXPECT_EQ(json["submit"], 1'700'000'000.0);
  EXPECT_EQ(nlohmann::json::parse(dump(json))["job_id"], 4711);
  Mark mark;
  mark.phases[0] = std::chrono::milliseconds(10);
  EXPECT_EQ(to_json(mark)["phases"]["data"], 0.01);
  EXPECT_TRUE(to_json(mark)["phases"]["forward"].is_null());
  EXPECT_TRUE(to_json(mark)["loss"].is_null());
}

}  // namespace
}  // namespace vetta::model
