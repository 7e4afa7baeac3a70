// SPDX-License-Identifier: Apache-2.0
#include "collect/registration.h"

#include <gtest/gtest.h>
#include <random>

namespace vetta::collect {
namespace {

const std::string start_text =
    "vetta=1\nkind=start\njob=4711\nstep=batch\nrestart=2\ntask=5\nlocal_task=1\ntasks=8\n"
    "uid=1000\npid=12345\nstart_ticks=987654\ndevices=0,1\nnews=of tomorrow\n"
    "time_ns=1700000000000000001\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(Registration, AStartComesBack) {
  const auto got = parse_registration(start_text);
  ASSERT_TRUE(got) << got.error().text();
  EXPECT_FALSE(got->is_exit);
  EXPECT_EQ(got->job_id, 4711U);
  EXPECT_EQ(got->step_id, "batch");
  EXPECT_EQ(got->restart, 2U);
  EXPECT_EQ(got->task, 5);
  EXPECT_EQ(got->tasks, 8);
  EXPECT_EQ(got->uid, 1000U);
  EXPECT_EQ(got->start_ticks, 987654U);
  EXPECT_EQ(got->devices, "0,1");
  EXPECT_EQ(epoch_nanoseconds(got->time), 1700000000000000001);
}

TEST(Registration, AnExitHasItsWaitStatus) {
  const auto got = parse_registration(with(start_text, "kind=start", "kind=exit") + "status=256\n");
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->is_exit);
  EXPECT_EQ(got->wait_status, 256);
  EXPECT_FALSE(parse_registration(with(start_text, "kind=start", "kind=exit"))) << "without status";
}

TEST(Registration, WhatCannotBeIsRefusedWithTheKey) {
  for (const auto& [from, to, word] :
       std::vector<std::array<const char*, 3>>{{"vetta=1", "vetta=2", "version"},
                                               {"vetta=1\n", "", "vetta"},
                                               {"kind=start", "kind=stop", "kind"},
                                               {"job=4711", "job=-1", "job"},
                                               {"job=4711", "job=0", "job"},
                                               {"job=4711", "job=99999999999", "job"},
                                               {"step=batch", "step=a/b", "step"},
                                               {"task=5", "task=x", "task"},
                                               {"\npid=12345", "\npid=0", "process"},
                                               {"time_ns=1700000000000000001", "", "time_ns"}}) {
    const auto got = parse_registration(with(start_text, from, to));
    ASSERT_FALSE(got) << to;
    EXPECT_NE(got.error().message.find(word), std::string::npos) << got.error().message;
  }
}

TEST(Registration, NoiseNeverCrashes) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string text = start_text.substr(0, random() % start_text.size());
    for (int j = 0; j < 5 && !text.empty(); ++j)
      text[random() % text.size()] = static_cast<char>(random());
    [[maybe_unused]] const auto got = parse_registration(text);
    [[maybe_unused]] const auto hello = parse_probe_hello(text);
  }
}

TEST(ProbeHello, TakesWhatTheProbeSends) {
  const auto got = parse_probe_hello(
      R"({"vetta": 1, "pid": 7, "rank": 5, "local_rank": 1, "world_size": 8,
          "elastic_restart": 3, "job": "4711", "step": "0", "task": "", "source": "injected"})");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->rank, 5);
  EXPECT_EQ(got->world_size, 8);
  EXPECT_EQ(got->elastic_restart, 3U);
  EXPECT_EQ(got->source, "injected");
}

TEST(ProbeHello, OddOnesAreRefusedOrUnknown) {
  for (const char* text : {"", "[]", "{", "{}", R"({"vetta": 2})", R"({"vetta": 1, "rank": -7})"})
    EXPECT_FALSE(parse_probe_hello(text)) << text;
  const auto got = parse_probe_hello(R"({"vetta": 1, "rank": 1e30, "world_size": "8"})");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->rank, -1);
  EXPECT_EQ(got->world_size, -1);
}

TEST(ProbeReply, IsOneJsonObject) {
  EXPECT_EQ(probe_reply("/run/x.ring", 1052672),
            R"({"vetta":1,"ring":"/run/x.ring","bytes":1052672})");
  EXPECT_EQ(probe_refusal("no \"task\""), R"({"vetta":1,"error":"no \"task\""})");
}

}  // namespace
}  // namespace vetta::collect
