// SPDX-License-Identifier: Apache-2.0
#include "collect/ends.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace vetta::collect {
namespace {

class Ends : public testing::Test {
 protected:
  void SetUp() override { loop_ = sys::EventLoop::make().value(); }

  RankState& add(std::int32_t pid) {
    Registration registration;
    registration.job_id = 1;
    registration.step_id = "0";
    registration.task = pid;
    registration.pid = pid;
    return table_.take(registration);
  }

  std::uint64_t last_id_ = 0;
  std::unique_ptr<sys::EventLoop> loop_;
  sys::Procfs proc_;
  RankTable table_{"n001", [this] { return ++last_id_; }};
};

TEST_F(Ends, DescriptorsAreBoundedAndAWatchThatEndsMakesRoom) {
  EndWatch ends(*loop_, proc_, table_, [] {}, 1);
  const RankState& one = add(::getpid());
  const RankState& two = add(::getppid());
  ends.watch(one);
  if (ends.watched() == 0) GTEST_SKIP() << "this kernel has no pidfd";
  ends.watch(two);
  ends.look();
  EXPECT_EQ(ends.watched(), 1U);
  ends.forget(one.rank.rank_id);
  ends.watch(two);
  EXPECT_EQ(ends.watched(), 1U);
}

TEST_F(Ends, WithoutADescriptorTheLookFindsTheEnd) {
  EndWatch ends(*loop_, proc_, table_, [this] { loop_->stop(); }, 0);
  const RankState& alive = add(::getpid());
  const RankState& gone = add(0x3fffffff);
  ends.look();
  EXPECT_EQ(ends.watched(), 1U) << "the one whose end was noticed";
  loop_->run();
  EXPECT_TRUE(gone.is_ended());
  EXPECT_FALSE(alive.is_ended());
}

}  // namespace
}  // namespace vetta::collect
