// SPDX-License-Identifier: Apache-2.0
#include "collect/state_file.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <unistd.h>

namespace vetta::collect {
namespace {

class StateOfANode : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("state-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Nothing can be written beside the file, as where there is no room: a folder is in the way.
  void bar() { std::filesystem::create_directories(folder_ / "ranks.journal.next" / "x"); }

  void unbar() { std::filesystem::remove_all(folder_ / "ranks.journal.next"); }

  StateFile open() { return StateFile::open((folder_ / "ranks.journal").native()).value(); }

  static RankState state(std::uint64_t id) {
    RankState out;
    out.rank.rank_id = id;
    return out;
  }

  std::filesystem::path folder_;
};

TEST_F(StateOfANode, OpensWithoutRoomAndIsWrittenWhenThereIsSome) {
  ASSERT_TRUE(open().save(state(1)));
  bar();
  std::map<std::uint64_t, RankState> ranks;
  {
    auto file = open();
    ASSERT_EQ(file.restored().size(), 1U);
    EXPECT_TRUE(file.unwritten());
    EXPECT_TRUE(file.is_bloated(1)) << "a rewrite is due";
    for (const std::uint64_t id : {1ULL, 2ULL}) ranks[id] = state(id);
    EXPECT_TRUE(file.save(ranks[2]));
    EXPECT_FALSE(file.rewrite(ranks));
    EXPECT_TRUE(file.unwritten());
  }
  EXPECT_EQ(open().restored().size(), 1U) << "what was there stays";
  auto file = open();
  unbar();
  ASSERT_TRUE(file.rewrite(ranks));
  EXPECT_FALSE(file.unwritten());
  EXPECT_FALSE(file.is_bloated(2));
  ASSERT_TRUE(file.save(state(3)));
  EXPECT_EQ(open().restored().size(), 3U);
}

}  // namespace
}  // namespace vetta::collect
