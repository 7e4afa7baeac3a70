// SPDX-License-Identifier: Apache-2.0
#include "core/units.h"

#include <gtest/gtest.h>

namespace vetta {
namespace {

TEST(Units, ReadsSlurmSizes) {
  EXPECT_EQ(parse_bytes("190000M").value(), 190000ULL << 20U);
  EXPECT_EQ(parse_bytes("1.5G").value(), 1610612736ULL);
  EXPECT_EQ(parse_bytes("64", 1U << 20U).value(), 64ULL << 20U);
  EXPECT_EQ(parse_bytes("2GiB").value(), 2ULL << 30U);
  for (const char* text : {"", "M", "-1", "4Gn", "4 G", "1e400", "nan"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(Units, PrintsForPeople) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(25125558681ULL), "23.4 GiB");
}

}  // namespace
}  // namespace vetta
