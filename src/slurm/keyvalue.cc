// SPDX-License-Identifier: Apache-2.0
#include "slurm/keyvalue.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/text.h"

namespace vetta::slurm {
namespace {

bool is_key_character(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '/' || c == ':';
}

/// The length of "Key=" at `at`, 0 if there is none.
std::size_t key_length(std::string_view text, std::size_t at) {
  if (at >= text.size() || text[at] < 'A' || text[at] > 'Z') return 0;
  std::size_t end = at;
  while (end < text.size() && is_key_character(text[end])) ++end;
  return end < text.size() && text[end] == '=' ? end - at + 1 : 0;
}

/// Slurm says that a list is empty in a sentence: "No nodes in the system", "No licenses
/// configured in Slurm.".
bool is_prose_of_none(std::string_view text) {
  text = trim(text);
  return text.starts_with("No ") && !text.contains('\n') &&
         (text.contains(" in the system") || text.contains(" configured in Slurm"));
}

}  // namespace

KeyValues::KeyValues(std::string_view record, int line) : text_(record), line_(line) {
  std::size_t at = 0;
  while (at < record.size() && is_blank(record[at])) ++at;
  while (const std::size_t length = key_length(record, at)) {
    const std::string_view key = record.substr(at, length - 1);
    const std::size_t begin = at + length;
    std::size_t next = begin;
    while (next < record.size() && (!is_blank(record[next]) || key_length(record, next + 1) == 0))
      ++next;
    pairs_.emplace_back(key, trim(record.substr(begin, next - begin)));
    at = next + 1;
  }
}

std::string_view KeyValues::get(std::string_view key) const {
  for (const auto& [name, value] : pairs_)
    if (name == key) return value;
  return {};
}

bool KeyValues::has(std::string_view key) const {
  return std::ranges::any_of(pairs_, [&](const auto& pair) { return pair.first == key; });
}

Parsed<std::vector<KeyValues>> read_key_values(std::string_view text, std::string_view first_key) {
  Parsed<std::vector<KeyValues>> parsed;
  if (is_prose_of_none(text)) return parsed;
  std::size_t begin = std::string_view::npos;  // of the record being collected
  int begin_line = 0;
  int line = 0;
  bool stray = false;
  const auto close = [&](std::size_t end) {
    if (begin != std::string_view::npos)
      parsed.value.emplace_back(text.substr(begin, end - begin), begin_line);
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = text.substr(at, end - at);
    ++line;
    if (one.starts_with(first_key)) {
      close(at);
      begin = at;
      begin_line = line;
    } else if (begin == std::string_view::npos && !trim(one).empty() && !stray) {
      stray = true;  // one refusal for all that stands before the first record
      parsed.refused.push_back(
          {line, fmt::format("'{}' where {} is due", one_line(one, 60), first_key)});
    }
    at = end + 1;
  }
  close(text.size());
  return parsed;
}

}  // namespace vetta::slurm
