// SPDX-License-Identifier: Apache-2.0
#include "sys/checksum.h"

#include <gtest/gtest.h>
#include <string>

namespace vetta::sys {
namespace {

TEST(Crc32, KnownValues) {  // python3 -c 'import zlib; print(hex(zlib.crc32(b"123456789")))'
  EXPECT_EQ(crc32(""), 0U);
  EXPECT_EQ(crc32("123456789"), 0xCBF43926U);
  EXPECT_EQ(crc32("The quick brown fox jumps over the lazy dog"), 0x414FA339U);
  EXPECT_EQ(crc32(std::string(112, '\0')), 0x1BBEADBDU);
}

TEST(Crc32, ContinuesFromASeedAtAnyCut) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i * 37);
  const std::uint32_t whole = crc32(text);
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32(std::string_view(text).substr(cut), crc32(text.substr(0, cut))), whole) << cut;
}

}  // namespace
}  // namespace vetta::sys
