// SPDX-License-Identifier: Apache-2.0
#include "slurm/gres.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/text.h"
#include "core/units.h"

namespace vetta::slurm {
namespace {

bool is_none(std::string_view text) {
  return text.empty() || text == "(null)" || text == "N/A";
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// Splits at commas that stand outside parentheses: "a:1(IDX:0,3),b:2" has two parts.
std::vector<std::string_view> split_outside(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && depth > 0) --depth;
    if (text[i] == ',' && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::unexpected<Error> unreadable(std::string_view entry, std::string_view why) {
  return fail(Code::invalid,
              fmt::format("'{}' is not a generic resource: {}", one_line(entry, 80), why));
}

/// 4, or 4K and the like (Slurm shortens large counts).
Result<std::uint64_t> parse_count(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (text.empty() || digits == 0 ||
      (digits != std::string_view::npos && digits + 1 != text.size()))
    return fail(Code::invalid, "not a count");
  return parse_bytes(text);
}

/// Takes "(…)" groups off the end; IDX fills the indices, others (S:0-3) are passed over.
Result<void> take_groups(std::string_view& body, std::string_view whole, GresEntry& entry) {
  while (body.ends_with(')')) {
    const std::size_t open = body.rfind('(');
    if (open == std::string_view::npos) return unreadable(whole, "a bracket is missing");
    const std::string_view group = body.substr(open + 1, body.size() - open - 2);
    if (!group.contains(':')) return {};  // "(null)" in the place of a type
    if (group.starts_with("IDX:")) {
      entry.has_indices = true;
      const std::string_view list = group.substr(4);
      if (list != "N/A" && !list.empty()) entry.indices = VETTA_TRY(parse_indices(list));
    }
    body = body.substr(0, open);
  }
  if (body.contains('(') && !body.contains("(null)"))
    return unreadable(whole, "a bracket is not closed");
  return {};
}

Result<GresEntry> parse_entry(std::string_view text) {
  GresEntry entry;
  std::string_view body = text;
  VETTA_TRY(take_groups(body, text, entry));
  if (body.starts_with("gres/") || body.starts_with("gres:")) body.remove_prefix(5);
  auto words = split(body, ":");
  std::erase_if(words, [&](std::string_view word) {
    const bool flag = word == "no_consume";
    entry.no_consume = entry.no_consume || flag;
    return flag;
  });
  if (words.empty() || words.front().empty()) return unreadable(text, "it has no name");
  entry.name = words.front();
  if (words.size() == 1) {
    entry.count = 1;  // a bare name stands for one
    return entry;
  }
  const auto count = parse_count(words.back());
  const std::size_t type_end = count ? words.size() - 1 : words.size();
  if (!count && words.size() > 2) return unreadable(text, "its count is not a number");
  entry.count = count ? *count : 1;
  for (std::size_t i = 1; i < type_end; ++i) {
    if (words[i] == "(null)") continue;
    if (!entry.type.empty()) entry.type += ':';
    entry.type += words[i];
  }
  return entry;
}

}  // namespace

Result<std::vector<GresEntry>> parse_gres(std::string_view text) {
  std::vector<GresEntry> entries;
  text = trim(text);
  if (is_none(text)) return entries;
  for (const std::string_view part : split_outside(text)) {
    if (is_none(part)) continue;
    entries.push_back(VETTA_TRY(parse_entry(part)));
  }
  return entries;
}

Result<std::vector<std::uint32_t>> parse_indices(std::string_view text, std::size_t max) {
  std::vector<std::uint32_t> indices;
  for (const std::string_view part : split(text, ",")) {
    const std::size_t dash = part.find('-');
    const auto low = parse_uint(part.substr(0, dash));
    const auto high = dash == std::string_view::npos ? low : parse_uint(part.substr(dash + 1));
    if (!low || !high || *high < *low || *high > 0xFFFF'FFFFU)
      return fail(Code::invalid, fmt::format("'{}' is not a list of indices", one_line(text, 80)));
    if (*high - *low >= max || indices.size() + (*high - *low) >= max)
      return fail(Code::exhausted,
                  fmt::format("'{}' names more than {} indices", one_line(text, 80), max));
    for (std::uint64_t i = *low; i <= *high; ++i) indices.push_back(static_cast<std::uint32_t>(i));
  }
  return indices;
}

bool is_mig_type(std::string_view type) {
  // <digits>g.<digits>gb at the end, alone or after an underscore or a dash: 1g.5gb, a100_3g.40gb.
  if (!type.ends_with("gb")) return false;
  type.remove_suffix(2);
  const auto take_digits = [&type] {
    const std::size_t before = type.size();
    while (!type.empty() && type.back() >= '0' && type.back() <= '9') type.remove_suffix(1);
    return before != type.size();
  };
  if (!take_digits() || !type.ends_with("g.")) return false;
  type.remove_suffix(2);
  if (!take_digits()) return false;
  return type.empty() || type.ends_with('_') || type.ends_with('-') || type.ends_with('.');
}

GpuCount count_gpus(const std::vector<GresEntry>& entries) {
  GpuCount sum;
  for (const GresEntry& entry : entries) {
    if (lower(entry.name) != "gpu") continue;
    sum.all += entry.count;
    if (is_mig_type(entry.type)) sum.mig += entry.count;
  }
  return sum;
}

std::vector<model::Gres> join_gres(const std::vector<GresEntry>& total,
                                   const std::optional<std::vector<GresEntry>>& used) {
  std::vector<model::Gres> joined;
  const auto limited = [](std::uint64_t n) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(n, 0xFFFF'FFFFU));
  };
  for (const GresEntry& entry : total) {
    model::Gres gres;
    gres.name = entry.name;
    gres.type = entry.type;
    gres.total = limited(entry.count);
    joined.push_back(std::move(gres));
  }
  if (!used) return joined;
  for (const GresEntry& entry : *used) {
    // An untyped use of a single typed kind is that kind's: "gpu:h100:4" with "gpu:0".
    model::Gres* match = nullptr;
    for (model::Gres& gres : joined)
      if (gres.name == entry.name && (gres.type == entry.type || (entry.type.empty() && !match)))
        match = &gres;
    if (!match) continue;
    match->allocated = match->allocated.value_or(0) + limited(entry.count);
    match->allocated_indices.insert(match->allocated_indices.end(), entry.indices.begin(),
                                    entry.indices.end());
  }
  return joined;
}

Tres parse_tres(std::string_view text) {
  Tres tres;
  if (is_none(trim(text))) return tres;
  std::optional<std::uint64_t> typed_gpus;
  for (const std::string_view part : split(trim(text), ",")) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = part.substr(equals + 1);
    const auto count = parse_bytes(value, key == "mem" ? 1U << 20U : 1U);
    if (!count) continue;
    if (key == "cpu") tres.cpus = *count;
    if (key == "mem") tres.memory_bytes = *count;
    if (key == "node") tres.nodes = *count;
    if (key == "billing") tres.billing = *count;
    if (key == "gres/gpu") tres.gpus = *count;
    if (key.starts_with("gres/gpu:")) typed_gpus = typed_gpus.value_or(0) + *count;
  }
  if (!tres.gpus) tres.gpus = typed_gpus;
  return tres;
}

}  // namespace vetta::slurm
