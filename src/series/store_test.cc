// SPDX-License-Identifier: Apache-2.0
#include "series/store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <rapidcheck.h>
#include <unistd.h>

namespace vetta::series {
namespace {

Time at(std::int64_t seconds) {
  return from_epoch_seconds(1'700'006'400 + seconds);
}

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(testing::TempDir()) /
           fmt::format("series-{}-{}", getpid(), counter_++);
    open();
  }

  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }

  void open(std::uint64_t bytes_max = 1U << 30U, std::size_t series_max = 1000) {
    store_.reset();
    auto opened = Store::open({.dir = dir_, .bytes_max = bytes_max, .series_max = series_max});
    ASSERT_TRUE(opened) << opened.error().text();
    store_ = std::move(*opened);
  }

  Result<void> append(const SeriesKey& key, const std::vector<Point>& points,
                      const std::vector<Gap>& gaps = {}) {
    const SeriesAppend part{key, points, gaps};
    return store_->append(std::span(&part, 1));
  }

  std::vector<Point> scan(const SeriesKey& key, Time from, Time to) {
    std::vector<Point> out;
    const auto take = [&](const Point& p) {
      out.push_back(p);
      return true;
    };
    EXPECT_TRUE(store_->scan(key, from, to, take));
    return out;
  }

  const SeriesKey load_{"alps", "node:n001", "load_1m"};
  const SeriesKey cpu_{"alps", "node:n001", "cpu_seconds_busy"};
  std::filesystem::path dir_;
  std::unique_ptr<Store> store_;
  static inline int counter_ = 0;
};

TEST_F(StoreTest, SealingChangesNoAnswer) {
  ASSERT_TRUE(append(load_, {{at(0), 1}, {at(7200), 2}, {at(10), 3}}));
  ASSERT_TRUE(append(load_, {{at(10), 4}}, {{at(20), "agent away"}}));
  ASSERT_TRUE(append(cpu_, {{at(5), 9}}));
  const std::vector<Point> expected{{at(0), 1}, {at(10), 4}, {at(7200), 2}};
  for (int round = 0; round < 4; ++round) {
    EXPECT_EQ(scan(load_, at(0), at(9000)), expected) << round;
    EXPECT_EQ(scan(load_, at(1), at(7200)), std::vector<Point>({{at(10), 4}}));
    EXPECT_EQ(store_->gaps(load_, at(0), at(100)).value(),
              std::vector<Gap>({{at(20), "agent away"}}));
    ASSERT_EQ(store_->latest("load_1m").size(), 1U);
    EXPECT_EQ(store_->latest("load_1m")[0].point.value, 2);
    EXPECT_TRUE(store_->latest("load_1m", "other").empty());
    if (round == 0) {
      ASSERT_TRUE(store_->seal(at(7300)));
    }
    if (round == 1) open();
    if (round == 2) {
      ASSERT_TRUE(store_->seal(at(20'000)));
    }
  }
}

TEST_F(StoreTest, LatePointsJoinASealedWindow) {
  ASSERT_TRUE(append(load_, {{at(0), 1}}));
  ASSERT_TRUE(store_->seal(at(20'000)));
  ASSERT_TRUE(append(load_, {{at(5), 2}, {at(0), 7}}));
  const std::vector<Point> expected{{at(0), 7}, {at(5), 2}};
  EXPECT_EQ(scan(load_, at(0), at(100)), expected);
  ASSERT_TRUE(store_->seal(at(20'000)));
  EXPECT_EQ(scan(load_, at(0), at(100)), expected);
}

TEST_F(StoreTest, BucketsSayWhatIsMissing) {
  ASSERT_TRUE(append(load_, {{at(0), 1}, {at(1), 3}, {at(25), 0}}));
  const auto buckets = store_->aggregate(load_, at(0), at(30), std::chrono::seconds(10)).value();
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].min, 1);
  EXPECT_EQ(buckets[0].max, 3);
  EXPECT_EQ(buckets[0].avg, 2);
  EXPECT_EQ(buckets[1].count, 0U);
  EXPECT_EQ(buckets[2].count, 1U);
  EXPECT_EQ(buckets[2].max, 0);
  EXPECT_FALSE(store_->aggregate(load_, at(0), at(30), Duration(1)));
  EXPECT_FALSE(store_->aggregate(load_, at(0), at(30), Duration(0)));
}

TEST_F(StoreTest, RetentionTakesWholeWindows) {
  ASSERT_TRUE(append(load_, {{at(0), 1}, {at(7200), 2}, {at(14'400), 3}}));
  ASSERT_TRUE(store_->seal(at(7200)));
  ASSERT_TRUE(store_->retain(at(7200)));
  EXPECT_EQ(scan(load_, at(0), at(20'000)).size(), 2U);
  open(1);
  ASSERT_TRUE(store_->retain(at(0)));
  EXPECT_EQ(scan(load_, at(0), at(20'000)), std::vector<Point>({{at(14'400), 3}}));
}

TEST_F(StoreTest, SeriesAreBounded) {
  open(1U << 30U, 1);
  ASSERT_TRUE(append(load_, {{at(0), 1}}));
  const auto refused = append(cpu_, {{at(0), 1}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::exhausted);
  EXPECT_TRUE(append(load_, {{at(1), 1}}));
}

TEST_F(StoreTest, AWindowOfAllSeriesThereCanBeIsSealedAndReadAgain) {
  open(1U << 30U, 100'000);
  std::vector<SeriesKey> keys;
  for (int i = 0; i < 45'000; ++i)
    keys.push_back({"alps", fmt::format("node:{:0>95}", i), "load_1m"});
  const std::vector<Point> point{{at(0), 1}};
  std::vector<SeriesAppend> parts;
  for (const auto& key : keys) parts.push_back({key, point, {}});
  ASSERT_TRUE(store_->append(parts));
  ASSERT_TRUE(store_->seal(at(7200)));
  open(1U << 30U, 100'000);
  EXPECT_EQ(store_->series().size(), keys.size());
  EXPECT_EQ(scan(keys.front(), at(0), at(10)), point);
  EXPECT_EQ(scan(keys.back(), at(0), at(10)), point);
}

TEST_F(StoreTest, AWindowOfManyLongGapsIsSealedAndReadAgain) {
  std::vector<Gap> gaps;
  for (int i = 0; i < 9000; ++i)
    gaps.push_back({at(0) + std::chrono::milliseconds(i), std::string(512, 'x')});
  ASSERT_TRUE(append(load_, {{at(1), 1}}, gaps));
  ASSERT_TRUE(store_->seal(at(7200)));
  open();
  EXPECT_EQ(store_->gaps(load_, at(0), at(10)).value(), gaps);
  EXPECT_EQ(scan(load_, at(0), at(10)).size(), 1U);
}

TEST_F(StoreTest, AnyOrderAnySealAnyRestart) {
  int round = 0;
  EXPECT_TRUE(rc::check("scan gives the last told value of each time", [&] {
    const SeriesKey key{"alps", fmt::format("node:{}", ++round), "load_1m"};
    std::map<Time, double> truth;
    for (int i = *rc::gen::inRange(1, 8); i > 0; --i) {
      std::vector<Point> points;
      for (int p = *rc::gen::inRange(1, 5); p > 0; --p) {
        points.push_back(
            {at(*rc::gen::inRange(0, 20) * 1800), static_cast<double>(*rc::gen::inRange(0, 100))});
        truth[points.back().time] = points.back().value;
      }
      RC_ASSERT(append(key, points).has_value());
      if (*rc::gen::inRange(0, 5) == 0)
        RC_ASSERT(store_->seal(at(*rc::gen::inRange(0, 40'000))).has_value());
      if (*rc::gen::inRange(0, 8) == 0) open();
    }
    const auto points = scan(key, at(0), at(100'000));
    RC_ASSERT(points.size() == truth.size());
    for (const auto& p : points) RC_ASSERT(truth.at(p.time) == p.value);
  }));
}

}  // namespace
}  // namespace vetta::series
