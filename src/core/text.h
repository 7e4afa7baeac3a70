// SPDX-License-Identifier: Apache-2.0
// Small pure helpers over text that nobody promised to be UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace vetta {

/// Splits at each occurrence of a (non-empty) separator; n separators give n + 1 fields.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text,
                                                  std::string_view separator);

/// What separates words: space, tab, line feed, carriage return.
[[nodiscard]] constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

[[nodiscard]] std::string_view trim(std::string_view text);
/// Valid UTF-8 for JSON and screens: each byte that is not part of a valid sequence becomes U+FFFD,
/// what a terminal or browser would obey (controls other than tab and newline, line separators,
/// changes of the text's direction) does too.
[[nodiscard]] std::string to_utf8(std::string_view bytes);
/// to_utf8 on one line: newlines and tabs become spaces; at most `columns` characters, the cut
/// marked by an ellipsis.
[[nodiscard]] std::string one_line(std::string_view bytes, std::size_t columns = 200);
/// The number of terminal columns of UTF-8 text, counted as one a code point.
[[nodiscard]] std::size_t width(std::string_view utf8);
/// A whole decimal number, nothing before or after it.
[[nodiscard]] Result<std::uint64_t> parse_uint(std::string_view text);
[[nodiscard]] Result<std::int64_t> parse_int(std::string_view text);

}  // namespace vetta
