// SPDX-License-Identifier: Apache-2.0
#include "core/hostlist.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "core/text.h"

namespace vetta {
namespace {

constexpr std::size_t name_max = 255;
constexpr std::size_t groups_max = 8;

/// "007-012": low and high with the width that padding asks for (0: none).
struct Range {
  std::uint64_t low = 0, high = 0;
  std::size_t width = 0;
};

/// What stands between two commas outside brackets: literal text and bracket groups in turn.
/// texts[0] groups[0] texts[1] groups[1] … texts[n]
struct Part {
  std::vector<std::string_view> texts;
  std::vector<std::vector<Range>> groups;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::unexpected<Error> refuse(std::string_view list, std::size_t at, std::string_view why,
                              std::string hint = {}) {
  return fail(
      Code::invalid,
      fmt::format("'{}' is not a hostlist: {} at character {}", one_line(list, 60), why, at + 1),
      std::move(hint));
}

/// Multiplies up to the highest number; more than any limit is all that matters.
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<Part>> parse() {
    std::vector<Part> parts;
    if (text_.empty()) return parts;
    while (true) {
      parts.push_back(VETTA_TRY(part()));
      if (at_ == text_.size()) return parts;
      ++at_;  // the comma
    }
  }

 private:
  Result<Part> part() {
    Part part;
    const std::size_t begin = at_;
    std::size_t text_begin = at_;
    for (; at_ < text_.size() && text_[at_] != ','; ++at_) {
      const char c = text_[at_];
      if (c == ']') return refuse(text_, at_, "a ']' without its '['");
      if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f)
        return refuse(text_, at_, "a blank or control character");
      if (c != '[') continue;
      part.texts.push_back(text_.substr(text_begin, at_ - text_begin));
      if (part.groups.size() == groups_max) return refuse(text_, at_, "too many brackets");
      part.groups.push_back(VETTA_TRY(group()));
      text_begin = at_ + 1;
    }
    if (at_ == begin) return refuse(text_, at_, "an empty name", "remove the surplus comma");
    part.texts.push_back(text_.substr(text_begin, at_ - text_begin));
    std::size_t length = 0;
    for (const std::string_view text : part.texts) length += text.size();
    for (const auto& ranges : part.groups) length += widest(ranges);
    if (length > name_max) return refuse(text_, begin, "a name over 255 characters");
    return part;
  }

  static std::size_t widest(const std::vector<Range>& ranges) {
    std::size_t width = 0;
    for (const Range& range : ranges) width = std::max({width, range.width, std::size_t{1}});
    return width;
  }

  /// From '[' to ']'; leaves at_ on the ']'.
  Result<std::vector<Range>> group() {
    const std::size_t open = at_++;
    std::vector<Range> ranges;
    while (true) {
      ranges.push_back(VETTA_TRY(range(open)));
      if (text_[at_] == ']') return ranges;
      ++at_;  // the comma
    }
  }

  /// Leaves at_ on the ',' or ']' after the range.
  Result<Range> range(std::size_t open) {
    Range range;
    const std::string_view low = digits();
    range.low = VETTA_TRY(value(low, open));
    range.high = range.low;
    if (low.size() > 1 && low.front() == '0') range.width = low.size();
    if (at_ < text_.size() && text_[at_] == '-') {
      ++at_;
      const std::size_t begin = at_;
      range.high = VETTA_TRY(value(digits(), open));
      if (range.high < range.low) return refuse(text_, begin, "a range that descends");
    }
    if (at_ == text_.size()) return refuse(text_, open, "a '[' without its ']'");
    if (text_[at_] == '[') return refuse(text_, at_, "a bracket within brackets");
    if (text_[at_] != ',' && text_[at_] != ']')
      return refuse(text_, at_, "something else than a number in brackets");
    return range;
  }

  std::string_view digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  Result<std::uint64_t> value(std::string_view digits, std::size_t open) {
    if (digits.empty() && at_ == text_.size()) return refuse(text_, open, "a '[' without its ']'");
    if (digits.empty() && text_[at_] == '[') return refuse(text_, at_, "a bracket within brackets");
    if (digits.empty()) return refuse(text_, at_, "something else than a number in brackets");
    if (digits.size() > 18) return refuse(text_, at_, "a number over 18 digits");
    return parse_uint(digits);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::uint64_t count(const Part& part) {
  std::uint64_t product = 1;
  for (const auto& ranges : part.groups) {
    std::uint64_t sum = 0;
    for (const Range& range : ranges) sum = plus(sum, range.high - range.low + 1);
    product = times(product, sum);
  }
  return product;
}

void expand(const Part& part, std::size_t group, std::string prefix,
            std::vector<std::string>& names) {
  prefix += part.texts.at(group);
  if (group == part.groups.size()) {
    names.push_back(std::move(prefix));
    return;
  }
  for (const Range& range : part.groups.at(group))
    for (std::uint64_t number = range.low; number <= range.high; ++number)
      expand(part, group + 1, prefix + fmt::format("{:0{}}", number, range.width), names);
}

/// A name around its last number: "ib07-n012.site" is "ib07-n", 12 (width 3), ".site".
struct Split {
  std::string_view prefix, digits, suffix;
  std::uint64_t number = 0;
};

std::optional<Split> split_name(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && !is_digit(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  if (begin == end || end - begin > 18) return std::nullopt;
  Split split{name.substr(0, begin), name.substr(begin, end - begin), name.substr(end), 0};
  for (const char c : split.digits) split.number = split.number * 10 + std::uint64_t(c - '0');
  return split;
}

/// Neighbours that one bracket can hold: the same around the number.
bool same_frame(const Split& a, const Split& b) {
  return a.prefix == b.prefix && a.suffix == b.suffix;
}

/// Whether printing `b` at the width that `a` sets gives b's own digits: 099 then 100, 9 then 10.
bool continues(const Split& a, const Split& b) {
  if (b.number != a.number + 1) return false;
  const bool padded = a.digits.size() > 1 && a.digits.front() == '0';
  const std::size_t width = padded ? a.digits.size() : 0;
  return fmt::format("{:0{}}", b.number, width) == b.digits;
}

/// Compresses names[begin…] as far as one bracket reaches; returns the end.
std::size_t compress_one(std::span<const std::string> names, std::size_t begin, std::string& out) {
  const auto first = split_name(names[begin]);
  std::size_t end = begin + 1;
  if (!first) {
    out += names[begin];
    return end;
  }
  std::string ranges;
  bool several = false;
  for (std::size_t at = begin; at < names.size();) {
    const auto low = split_name(names[at]);
    if (!low || !same_frame(*first, *low)) break;
    std::size_t last = at;
    auto high = *low;
    while (last + 1 < names.size()) {
      const auto next = split_name(names[last + 1]);
      if (!next || !same_frame(*low, *next) || !continues(high, *next)) break;
      // The width is the low end's: a range that began unpadded goes on unpadded.
      if (fmt::format("{:0{}}", next->number,
                      low->digits.front() == '0' ? low->digits.size() : 0) != next->digits)
        break;
      high = *next;
      ++last;
    }
    if (!ranges.empty()) ranges += ',';
    ranges += low->digits;
    if (last != at) ranges.append("-").append(high.digits);
    several = several || last != begin;
    at = last + 1;
    end = at;
  }
  out += first->prefix;
  out += several ? "[" + ranges + "]" : ranges;
  out += first->suffix;
  return end;
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::uint64_t max) {
  const auto parts = VETTA_TRY(Parser(text).parse());
  std::uint64_t total = 0;
  for (const Part& part : parts) total = plus(total, count(part));
  if (total > max)
    return fail(Code::exhausted,
                fmt::format("'{}' is too large: it names {} hosts, {} are the limit",
                            one_line(text, 60), total, max));
  std::vector<std::string> names;
  names.reserve(total);
  for (const Part& part : parts) expand(part, 0, {}, names);
  return names;
}

Result<std::uint64_t> count_hostlist(std::string_view text) {
  std::uint64_t total = 0;
  for (const Part& part : VETTA_TRY(Parser(text).parse())) total = plus(total, count(part));
  return total;
}

std::string compress_hostlist(std::span<const std::string> names) {
  std::string out;
  for (std::size_t at = 0; at < names.size();) {
    if (at > 0) out += ',';
    at = compress_one(names, at, out);
  }
  return out;
}

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i;
      ++j;
      continue;
    }
    const auto run = [](std::string_view text, std::size_t& at) {
      const std::size_t begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      std::string_view digits = text.substr(begin, at - begin);
      while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
      return digits;
    };
    const std::string_view left = run(a, i);
    const std::string_view right = run(b, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  if ((a.size() - i) != (b.size() - j)) return a.size() - i < b.size() - j;
  return a < b;  // equal as numbers: n02 before n2
}

void sort_hosts(std::vector<std::string>& names) {
  std::ranges::sort(names, natural_less);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
}

}  // namespace vetta
