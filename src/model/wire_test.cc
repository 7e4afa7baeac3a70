// SPDX-License-Identifier: Apache-2.0
#include "model/wire.h"

#include <gtest/gtest.h>
#include <random>

namespace vetta::model {
namespace {

Batch sample_batch() {
  Batch batch;
  batch.agent_id = 77;
  batch.sequence = 3;
  batch.dropped_batches = 1;
  Rank rank;
  rank.rank_id = 0xfedcba9876543210U;
  rank.job_id = 4711;
  rank.step_id = "batch";
  rank.node = "n001";
  rank.rank = 5;
  rank.source = RankSource::environment;
  rank.start = from_epoch_seconds(1'700'000'000);
  rank.exit_signal = 9;
  batch.ranks.push_back(rank);
  Mark mark;
  mark.sequence = 9;
  mark.step = -1;
  mark.start = from_epoch_nanoseconds(1'700'000'000'123'456'789);
  mark.duration = std::chrono::milliseconds(120);
  mark.phases[1] = Duration(5);
  mark.samples = 32;
  batch.marks.push_back({rank.rank_id, 2, {mark, mark}});
  RankSample sample;
  sample.cpu_seconds = 1.5;
  sample.gap = "not permitted";
  batch.rank_samples.push_back({rank.rank_id, {sample}});
  batch.node_samples.emplace_back().load_1m = 0.5;
  Event event;
  event.kind = EventKind::oom_kill;
  event.attempt = AttemptKey{"dev", 4711, from_epoch_seconds(5)};
  event.message = std::string("a\0b\xff", 4);
  batch.events.push_back(event);
  return batch;
}

TEST(Wire, FramesComeBackAsTheyWere) {
  const std::string bytes = encode(Frame(sample_batch()));
  FrameReader reader;
  reader.append(bytes);
  reader.append(encode(Frame(Ack{4, {1, 2}})));
  const Batch batch = std::get<Batch>(reader.next().value().value());
  EXPECT_EQ(encode(Frame(batch)), bytes);
  EXPECT_EQ(batch.ranks.at(0).rank_id, 0xfedcba9876543210U);
  EXPECT_EQ(batch.ranks.at(0).exit_signal, 9);
  EXPECT_EQ(batch.marks.at(0).marks.at(1).phases.at(1), Duration(5));
  EXPECT_TRUE(std::isnan(batch.marks.at(0).marks.at(1).loss));
  EXPECT_FALSE(batch.rank_samples.at(0).samples.at(0).rss_bytes.has_value());
  EXPECT_EQ(batch.events.at(0).message, std::string("a\0b\xff", 4));
  EXPECT_EQ(batch.events.at(0).attempt->job_id, 4711U);
  EXPECT_EQ(std::get<Ack>(reader.next().value().value()).unplaced.size(), 2U);
  EXPECT_FALSE(reader.next().value().has_value());
}

TEST(Wire, PlacesComeBackAndNoneAreLeftOut) {
  Batch batch = sample_batch();
  const std::string without = encode(Frame(batch));
  batch.places.push_back({7, {15, Phase::allreduce, from_epoch_seconds(5), 14}});
  batch.places.push_back({8, {{}, {}, from_epoch_seconds(6), 0}});
  const std::string bytes = encode(Frame(batch));
  const Batch back = std::get<Batch>(decode(std::string_view(bytes).substr(4)).value());
  ASSERT_EQ(back.places.size(), 2U);
  EXPECT_EQ(back.places[0].rank_id, 7U);
  EXPECT_EQ(back.places[0].now, batch.places[0].now);
  EXPECT_EQ(back.places[1].now, batch.places[1].now);
  // A batch of version 1 ends where the list would begin.
  EXPECT_EQ(bytes.substr(4, without.size() - 4), without.substr(4));
  for (std::size_t size = without.size() - 4 + 1; size < bytes.size() - 4; ++size)
    EXPECT_FALSE(decode(std::string_view(bytes).substr(4, size))) << size;
}

TEST(Wire, WaitsForWholeFrames) {
  const std::string bytes = encode(Frame(sample_batch()));
  FrameReader reader;
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    reader.append(bytes.substr(i, 1));
    ASSERT_FALSE(reader.next().value().has_value()) << i;
  }
  reader.append(bytes.substr(bytes.size() - 1));
  EXPECT_TRUE(reader.next().value().has_value());
}

TEST(Wire, FramesThatComeWholeLeaveNothingBehind) {
  const std::string bytes = encode(Frame(Ping()));
  FrameReader reader;
  for (int i = 0; i < 10'000; ++i) {
    reader.append(bytes);
    ASSERT_TRUE(reader.next().value().has_value());
    ASSERT_FALSE(reader.next().value().has_value());
    ASSERT_EQ(reader.held_bytes(), 0U);
  }
}

TEST(Wire, RefusesEveryTruncation) {
  const std::string body = encode(Frame(sample_batch())).substr(4);
  for (std::size_t size = 0; size < body.size(); ++size)
    EXPECT_FALSE(decode(std::string_view(body).substr(0, size))) << size;
  EXPECT_FALSE(decode(body + "x"));
  EXPECT_FALSE(decode("\x63"));
}

TEST(Wire, SurvivesAnyBytes) {
  const std::string body = encode(Frame(sample_batch())).substr(4);
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = body;
    for (int k = 0; k < 4; ++k) damaged.at(random() % damaged.size()) = static_cast<char>(random());
    (void)decode(damaged);
  }
}

TEST(Wire, RefusesAnOversizedFrame) {
  FrameReader reader;
  reader.append(std::string("\xff\xff\xff\xff", 4));
  EXPECT_FALSE(reader.next());
}

}  // namespace
}  // namespace vetta::model
