// SPDX-License-Identifier: Apache-2.0
#include "core/text.h"

#include <cstdint>
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

/// `code` in as many bytes as asked for, also where fewer would do.
std::string in_bytes(std::uint32_t code, std::size_t length) {
  constexpr std::uint32_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  std::string out(length, '\0');
  for (std::size_t i = length; i-- > 1; code >>= 6U)
    out[i] = static_cast<char>(0x80U | (code & 0x3FU));
  out[0] = static_cast<char>(leads[length] | code);
  return out;
}

/// What a terminal or a browser obeys, of two bytes and more.
bool is_obeyed(std::uint32_t code) {
  return (code >= 0x80 && code < 0xA0) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

TEST(Text, KeepsACharacterInItsShortestFormOnly) {
  for (const std::size_t length : {2U, 3U, 4U}) {
    const std::uint32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
    const std::uint32_t limit = length == 2 ? 0x800 : length == 3 ? 0x10000 : 0x200000;
    for (std::uint32_t code = 0; code < limit; ++code) {
      const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
      const bool is_character =
          code >= least && code <= 0x10FFFF && !is_surrogate && !is_obeyed(code);
      const std::string bytes = in_bytes(code, length);
      ASSERT_EQ(to_utf8(bytes) == bytes, is_character) << code << " in " << length << " bytes";
    }
  }
  EXPECT_EQ(to_utf8("\xc2\x9b[31m\xe2\x80\xaetxt"), "\xef\xbf\xbd[31m\xef\xbf\xbdtxt");
  EXPECT_EQ(to_utf8("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");  // cut off
  EXPECT_EQ(to_utf8("\xe2\x82z"), "\xef\xbf\xbd\xef\xbf\xbdz");
}

TEST(Text, ReadsWholeNumbersOnly) {
  EXPECT_EQ(parse_uint("18446744073709551615").value(), 18446744073709551615U);
  for (const char* text : {"", "1 ", " 1", "+1", "-1", "0x1", "18446744073709551616"})
    EXPECT_FALSE(parse_uint(text)) << text;
  EXPECT_EQ(parse_int("-5").value(), -5);
}

}  // namespace
}  // namespace vetta
