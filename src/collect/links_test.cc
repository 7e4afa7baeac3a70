// SPDX-License-Identifier: Apache-2.0
// The pure decisions of the way to vettad: clock, address, upgrade, back-off, spool.
#include <gtest/gtest.h>

#include "collect/clock.h"
#include "collect/spool.h"
#include "collect/upgrade.h"

namespace vetta::collect {
namespace {

using namespace std::chrono_literals;

Time at(Duration since) {
  return from_epoch_seconds(1'700'000'000) + since;
}

TEST(ClockOffset, TakesTheQuickestPing) {
  ClockOffset clock;
  clock.add(at(0s), at(5s + 400ms), at(1s));  // a slow one: 4.9 s ± 0.5
  clock.add(at(10s), at(15s + 1ms), at(10s + 2ms));
  EXPECT_EQ(clock.offset(), 5s);
}

TEST(ClockOffset, OneClockIsNoOffset) {
  ClockOffset clock;
  for (int i = 0; i < 20; ++i) clock.add(at(i * 1s), at(i * 1s + 300us), at(i * 1s + 400us));
  EXPECT_EQ(clock.offset(), 0s);
}

TEST(ClockOffset, StaysAtItsValueWhileNoiseIsSmallAndFollowsAClockThatWasSet) {
  ClockOffset clock;
  clock.add(at(0s), at(2s), at(1ms));
  const Duration first = clock.offset();
  for (int i = 1; i < 50; ++i)
    clock.add(at(i * 1s), at(i * 1s + 2s + i % 3 * 200us), at(i * 1s + 1ms));
  EXPECT_EQ(clock.offset(), first);
  clock.add(at(100s), at(100s - 30s), at(100s + 1ms));
  EXPECT_LT(clock.offset(), -29s);
  clock.add(at(200s), at(0s), at(199s));  // this node's clock went back meanwhile: not a ping
  EXPECT_LT(clock.offset(), -29s);
}

TEST(ParseAddress, TakesThreeFormsAndNamesTheFault) {
  EXPECT_EQ(parse_address("unix:/run/x.sock")->unix_path, "/run/x.sock");
  EXPECT_EQ(parse_address("vettad.example:7117")->host, "vettad.example");
  EXPECT_EQ(parse_address("[::1]:7117")->host, "::1");
  EXPECT_EQ(parse_address("[::1]:7117")->port, "7117");
  for (const char* text : {"", "host", ":1", "host:", "host:0", "host:99999", "unix:x", "unix:"})
    EXPECT_FALSE(parse_address(text)) << text;
}

TEST(Upgrade, AsksAndUnderstandsTheAnswer) {
  const std::string request = upgrade_request(*parse_address("h:1"), "secret");
  EXPECT_TRUE(request.starts_with("GET /agent/v1/connect HTTP/1.1\r\nHost: h:1\r\n"));
  EXPECT_NE(request.find("\r\nAuthorization: Bearer secret\r\n"), std::string::npos);
  EXPECT_TRUE(request.ends_with("\r\n\r\n"));
  const std::string yes = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: vetta-agent/1\r\n\r\nrest";
  for (std::size_t size = 0; size + 4 < yes.size(); ++size)
    EXPECT_FALSE(parse_upgrade_reply(yes.substr(0, size)).value()) << size;
  EXPECT_EQ(parse_upgrade_reply(yes).value(), yes.size() - 4);
  EXPECT_EQ(parse_upgrade_reply("HTTP/1.1 401 Unauthorized\r\n\r\n").error().code, Code::denied);
  EXPECT_FALSE(parse_upgrade_reply("HTTP/1.1 200 OK\r\n\r\n"));
  EXPECT_FALSE(parse_upgrade_reply("SSH-2.0\r\n\r\n"));
  EXPECT_FALSE(parse_upgrade_reply(std::string(20'000, 'x')));
}

TEST(Backoff, DoublesToHalfAMinuteWithJitter) {
  Backoff backoff;
  EXPECT_EQ(backoff.next(0.5), 1s);
  EXPECT_EQ(backoff.next(0.5), 2s);
  EXPECT_EQ(backoff.next(0), 3s);
  for (int i = 0; i < 50; ++i) EXPECT_LE(backoff.next(0.99), 38s);
  EXPECT_GE(backoff.next(0), 22s);
  backoff.reset();
  EXPECT_LE(backoff.next(0.99), 1250ms);
}

TEST(Spool, DropsTheOldestAndKeepsIds) {
  Spool spool(10'000);
  for (int i = 0; i < 100; ++i) {
    SpoolItem item;
    item.events.resize(1);
    item.events[0].message = std::string(500, 'x');
    spool.put(std::move(item));
    EXPECT_LE(spool.bytes(), 10'000U);
  }
  EXPECT_EQ(spool.last(), 100U);
  EXPECT_GT(spool.first(), 80U);
  EXPECT_EQ(spool.find(spool.first() - 1), nullptr);
  EXPECT_EQ(spool.find(100)->id, 100U);
  EXPECT_EQ(spool.find(101), nullptr);
  spool.release(99);
  EXPECT_EQ(spool.first(), 100U);
  spool.release(1000);
  EXPECT_EQ(spool.bytes(), 0U);
  spool.put({});
  EXPECT_EQ(spool.last(), 101U);
}

TEST(Spool, AnItemOfManyRanksBecomesSeveral) {
  Spool spool(std::size_t{64} << 20U);
  SpoolItem item;
  item.node_samples.emplace_back();
  for (std::uint64_t id = 1; id <= 10'000; ++id)
    item.rank_samples.push_back({id, {model::RankSample{}}});
  spool.put(std::move(item));
  EXPECT_GT(spool.last(), 1U);
  std::uint64_t ranks = 0;
  std::size_t nodes = 0;
  for (std::uint64_t id = spool.first(); id <= spool.last(); ++id) {
    const SpoolItem* part = spool.find(id);
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(part->id, id);
    EXPECT_LE(part->bytes, Spool::item_bytes_max);
    nodes += part->node_samples.size();
    for (const model::RankSamples& samples : part->rank_samples)
      EXPECT_EQ(samples.rank_id, ++ranks);
  }
  EXPECT_EQ(ranks, 10'000U);
  EXPECT_EQ(nodes, 1U);
  EXPECT_GT(spool.bytes(), Spool::item_bytes_max);
}

TEST(Spool, AnItemLargerThanAllIsDroppedToo) {
  Spool spool(10);
  spool.put({});
  EXPECT_EQ(spool.find(1), nullptr);
  EXPECT_EQ(spool.first(), 2U);
}

}  // namespace
}  // namespace vetta::collect
