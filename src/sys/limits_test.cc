// SPDX-License-Identifier: Apache-2.0
#include "sys/limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace vetta::sys {
namespace {

TEST(Limits, TheSoftLimitOfOpenFilesBecomesTheHardOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(open_files_max(), 64U);
  const auto raised = raise_open_files();
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(raised) << raised.error().text();
  EXPECT_EQ(*raised, before.rlim_max);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(after.rlim_max, before.rlim_max);
}

TEST(Limits, WhatIsRaisedAlreadyStays) {
  ASSERT_TRUE(raise_open_files());
  const auto again = raise_open_files();
  ASSERT_TRUE(again);
  rlimit now{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(*again, now.rlim_cur);
}

}  // namespace
}  // namespace vetta::sys
