// SPDX-License-Identifier: Apache-2.0
#include "collect/rings.h"

#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sys/files.h"

namespace vetta::collect {
namespace {

class RingsOfANode : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "rings-" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
    rings_.emplace(Rings::open(folder_).value());
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<int> make(std::uint64_t id) {
    sys::RingHeader header;
    header.rank_id = id;
    header.uid = ::geteuid();
    header.slots = 16;
    return rings_->make(header);
  }

  void grow(std::uint64_t id) {
    const auto owner = sys::open_file(rings_->path(id), O_RDWR);
    ASSERT_TRUE(owner);
    ASSERT_EQ(::ftruncate(owner->get(), 8 << 20), 0);
  }

  std::string folder_;
  std::optional<Rings> rings_;
};

TEST_F(RingsOfANode, OneThatItsOwnerMadeLargerIsCutAndToldOnce) {
  ASSERT_TRUE(make(1) && make(2));
  EXPECT_TRUE(rings_->check().empty());
  grow(1);
  const auto spoilt = rings_->check();
  ASSERT_EQ(spoilt.size(), 1U);
  EXPECT_EQ(spoilt[0].rank_id, 1U);
  EXPECT_NE(spoilt[0].why.find("by its owner"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(rings_->path(1)), 4096U + 16 * 128);
  EXPECT_FALSE(rings_->read(1, 0, 10, false)) << "nothing is read from it any more";
  EXPECT_TRUE(rings_->read(2, 0, 10, false));
  EXPECT_FALSE(make(1)) << "it gets no second life";
  grow(1);
  EXPECT_TRUE(rings_->check().empty()) << "told before";
  EXPECT_EQ(std::filesystem::file_size(rings_->path(1)), 4096U + 16 * 128) << "and cut again";
}

TEST_F(RingsOfANode, WhatAReadFindsIsToldToo) {
  ASSERT_TRUE(make(1));
  ASSERT_EQ(::truncate(rings_->path(1).c_str(), 50), 0);
  EXPECT_FALSE(rings_->read(1, 0, 10, false));
  const auto spoilt = rings_->check();
  ASSERT_EQ(spoilt.size(), 1U);
  EXPECT_NE(spoilt[0].why.find("cut"), std::string::npos) << spoilt[0].why;
}

TEST_F(RingsOfANode, OneThatWasMadeLargerIsCutBeforeAnythingElseAtAStart) {
  ASSERT_TRUE(make(1) && make(2) && make(3));
  grow(1);
  grow(2);
  const auto owner = sys::open_file(rings_->path(2), O_RDWR);
  ASSERT_TRUE(owner && sys::pwrite_all(owner->get(), "no ring", 0));
  rings_.emplace(Rings::open(folder_).value());
  EXPECT_EQ(std::filesystem::file_size(rings_->path(1)), 4096U + 16 * 128);
  EXPECT_EQ(rings_->files(), (std::vector<std::uint64_t>{1, 3})) << "the other is no ring any more";
  ASSERT_TRUE(rings_->adopt(1) && rings_->adopt(3));
  const auto spoilt = rings_->check();
  ASSERT_EQ(spoilt.size(), 1U);
  EXPECT_EQ(spoilt[0].rank_id, 1U);
  EXPECT_FALSE(rings_->read(1, 0, 10, false)) << "as if it was found while the agent ran";
  EXPECT_TRUE(rings_->read(3, 0, 10, false));
}

TEST_F(RingsOfANode, AreCountedByUser) {
  ASSERT_TRUE(make(1) && make(2));
  EXPECT_EQ(rings_->count_of(::geteuid()), 2U);
  EXPECT_EQ(rings_->count_of(::geteuid() + 1), 0U);
  rings_->remove(1);
  EXPECT_EQ(rings_->count_of(::geteuid()), 1U);
}

}  // namespace
}  // namespace vetta::collect
