// SPDX-License-Identifier: Apache-2.0
#include "core/interval_set.h"

#include <gtest/gtest.h>
#include <set>

#ifndef VETTA_NO_RAPIDCHECK
#include <rapidcheck.h>
#endif

namespace vetta {
namespace {

TEST(IntervalSet, JoinsNeighbours) {
  IntervalSet set;
  EXPECT_TRUE(set.add(1));
  EXPECT_TRUE(set.add(3));
  EXPECT_FALSE(set.add(3));
  EXPECT_EQ(set.intervals().size(), 2U);
  EXPECT_TRUE(set.add(2));
  ASSERT_EQ(set.intervals().size(), 1U);
  EXPECT_EQ(set.intervals().front(), (IntervalSet::Interval{1, 3}));
  set.add(IntervalSet::Interval{4, 9});
  EXPECT_EQ(set.intervals().front(), (IntervalSet::Interval{1, 9}));
}

TEST(IntervalSet, LimitClosesTheLowestHoles) {
  IntervalSet set;
  for (const std::uint64_t v : {1U, 3U, 5U, 7U}) set.add(v);
  set.limit(2);
  EXPECT_EQ(set.intervals().size(), 2U);
  EXPECT_TRUE(set.contains(2));
  EXPECT_TRUE(set.contains(4));
  EXPECT_FALSE(set.contains(6));
}

#ifndef VETTA_NO_RAPIDCHECK
TEST(IntervalSet, IsASet) {
  EXPECT_TRUE(rc::check("same answers as std::set in any order", [] {
    IntervalSet set;
    std::set<std::uint64_t> truth;
    const auto ops = *rc::gen::container<std::vector<std::pair<int, int>>>(
        rc::gen::pair(rc::gen::inRange(0, 60), rc::gen::inRange(0, 6)));
    for (const auto& [first, length] : ops) {
      const auto from = static_cast<std::uint64_t>(first);
      if (length < 4) {
        RC_ASSERT(set.add(from) == truth.insert(from).second);
      } else {
        set.add(IntervalSet::Interval{from, from + static_cast<std::uint64_t>(length)});
        for (int i = 0; i <= length; ++i) truth.insert(from + static_cast<std::uint64_t>(i));
      }
    }
    for (std::uint64_t v = 0; v < 70; ++v) RC_ASSERT(set.contains(v) == truth.contains(v));
    for (std::size_t i = 1; i < set.intervals().size(); ++i)
      RC_ASSERT(set.intervals()[i - 1].last + 1 < set.intervals()[i].first);
  }));
}
#endif

}  // namespace
}  // namespace vetta
