// SPDX-License-Identifier: Apache-2.0
#include "core/text.h"

#include <charconv>
#include <fmt/format.h>

namespace vetta {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

/// Where a sequence of `lead` may have its second byte: less would be overlong, more a surrogate or
/// beyond 10FFFF.
struct SecondByte {
  unsigned char from, to;
};

constexpr SecondByte second_byte(unsigned char lead) {
  switch (lead) {
    case 0xE0: return {0xA0, 0xBF};
    case 0xED: return {0x80, 0x9F};
    case 0xF0: return {0x90, 0xBF};
    case 0xF4: return {0x80, 0x8F};
    default: return {0x80, 0xBF};
  }
}

/// What the first byte says; 0 if none can begin with it.
constexpr std::size_t announced_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead <= 0xF4 ? 4 : 0;
}

/// Length of the valid UTF-8 sequence at the start of `text`, 0 if there is none (overlong forms,
/// surrogates, > 10FFFF).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = announced_length(byte(0));
  if (length < 2) return length;
  if (text.size() < length) return 0;
  const auto [from, to] = second_byte(byte(0));
  if (byte(1) < from || byte(1) > to) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  return length;
}

/// What a terminal or a browser would obey instead of showing: C0 and C1 controls (U+009B begins a
/// sequence as ESC [ does), line and paragraph separators, and what turns the direction of text.
bool is_obeyed(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  const unsigned char first = byte(0);
  if (character.size() == 1)
    return (first < 0x20 || first == 0x7f) && first != '\n' && first != '\t';
  if (character.size() == 2)  // U+0080 to U+009F, U+061C
    return (first == 0xC2 && byte(1) < 0xA0) || (first == 0xD8 && byte(1) == 0x9C);
  if (character.size() != 3 || first != 0xE2) return false;
  const unsigned char last = byte(2);
  if (byte(1) == 0x80)  // U+200E, U+200F, U+2028 to U+202E
    return last == 0x8E || last == 0x8F || (last >= 0xA8 && last <= 0xAE);
  return byte(1) == 0x81 && last >= 0xA6 && last <= 0xA9;  // U+2066 to U+2069
}

template <typename Number>
Result<Number> parse_number(std::string_view text) {
  Number value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range)
    return fail(Code::invalid, fmt::format("{} is out of range", one_line(text, 40)));
  if (text.empty() || status != std::errc() || end != text.data() + text.size())
    return fail(Code::invalid, fmt::format("'{}' is not a whole number", one_line(text, 40)));
  return value;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  VETTA_ASSERT(!separator.empty(), "an empty separator splits nowhere");
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string to_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    if (length == 0 || is_obeyed(bytes.substr(0, length)))
      out += replacement;
    else
      out += bytes.substr(0, length);
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string one_line(std::string_view bytes, std::size_t columns) {
  std::string clean = to_utf8(bytes.substr(0, columns * 4 + 4));
  for (char& c : clean)
    if (c == '\n' || c == '\t') c = ' ';
  std::size_t count = 0;
  for (std::size_t i = 0; i < clean.size();) {
    if (++count > columns) {
      clean.resize(i);
      return clean + "…";
    }
    i += std::max<std::size_t>(1, sequence_length(std::string_view(clean).substr(i)));
  }
  return clean;
}

std::size_t width(std::string_view utf8) {
  std::size_t count = 0;
  for (const char c : utf8) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return count;
}

Result<std::uint64_t> parse_uint(std::string_view text) {
  return parse_number<std::uint64_t>(text);
}

Result<std::int64_t> parse_int(std::string_view text) {
  return parse_number<std::int64_t>(text);
}

}  // namespace vetta
