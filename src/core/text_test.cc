// SPDX-License-Identifier: Apache-2.0
#include "core/text.h"

#include <gtest/gtest.h>

namespace vetta {
namespace {

TEST(Text, SplitsWithEmptyFields) {
  EXPECT_EQ(split("a||b|", "|"), (std::vector<std::string_view>{"a", "", "b", ""}));
  EXPECT_EQ(split("", "|"), (std::vector<std::string_view>{""}));
  EXPECT_EQ(split("a|#b", "|#"), (std::vector<std::string_view>{"a", "b"}));
}

TEST(Text, MakesAnyBytesPrintable) {
  EXPECT_EQ(to_utf8("a\xff"
                    "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(to_utf8("\xc3\xa9"), "\xc3\xa9");
  EXPECT_EQ(to_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
  EXPECT_EQ(to_utf8("\x1b[31m"), "\xef\xbf\xbd[31m");  // no escape reaches a terminal
  EXPECT_EQ(one_line("a\nb\tc"), "a b c");
  EXPECT_EQ(one_line("abcdef", 3), "abc…");
  EXPECT_EQ(width("é…"), 2U);
}

TEST(Text, ReadsWholeNumbersOnly) {
  EXPECT_EQ(parse_uint("18446744073709551615").value(), 18446744073709551615U);
  for (const char* text : {"", "1 ", " 1", "+1", "-1", "0x1", "18446744073709551616"})
    EXPECT_FALSE(parse_uint(text)) << text;
  EXPECT_EQ(parse_int("-5").value(), -5);
}

}  // namespace
}  // namespace vetta
