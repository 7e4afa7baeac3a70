// SPDX-License-Identifier: Apache-2.0
#include "slurm/fields.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "core/text.h"
#include "core/units.h"

namespace vetta::slurm {
namespace {

constexpr std::uint64_t no_val = 0xFFFF'FFFE;

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::optional<std::uint32_t> small(std::string_view text) {
  const auto value = parse_uint(text);
  if (!value || *value >= no_val) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

/// 2026-03-10T12:34:28; every field at its place.
std::optional<Time> read_iso(std::string_view text) {
  if (text.size() != 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':')
    return std::nullopt;
  std::array<int, 6> parts{};
  constexpr std::array<std::pair<std::size_t, std::size_t>, 6> places = {
      {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}}};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto value = parse_uint(text.substr(places.at(i).first, places.at(i).second));
    if (!value) return std::nullopt;
    parts.at(i) = static_cast<int>(*value);
  }
  const std::chrono::year_month_day day{std::chrono::year{parts[0]},
                                        std::chrono::month{static_cast<unsigned>(parts[1])},
                                        std::chrono::day{static_cast<unsigned>(parts[2])}};
  if (!day.ok() || parts[0] < 1971 || parts[0] > 2200 || parts[3] > 23 || parts[4] > 59 ||
      parts[5] > 60)
    return std::nullopt;
  return Time(std::chrono::sys_days(day)) + std::chrono::hours(parts[3]) +
         std::chrono::minutes(parts[4]) + std::chrono::seconds(parts[5]);
}

}  // namespace

std::string_view known(std::string_view text) {
  text = trim(text);
  constexpr std::array<std::string_view, 7> none = {"(null)", "N/A",     "n/a",          "None",
                                                    "NONE",   "Unknown", "None assigned"};
  return std::ranges::find(none, text) != none.end() ? std::string_view() : text;
}

std::optional<Time> read_time(std::string_view text) {
  text = known(text);
  if (text.contains('T')) return read_iso(text);
  const auto seconds = parse_uint(text);
  constexpr std::uint64_t latest = 7'000'000'000;  // the year 2191; NO_VAL of 64 bits lies beyond
  if (!seconds || *seconds == 0 || *seconds == no_val || *seconds == no_val + 1 ||
      *seconds > latest)
    return std::nullopt;
  return from_epoch_seconds(static_cast<std::int64_t>(*seconds));
}

std::optional<std::uint32_t> read_count(std::string_view text) {
  return small(trim(text));
}

std::optional<std::uint64_t> read_memory(std::string_view text) {
  text = known(text);
  if (text.ends_with('n') || text.ends_with('c')) text.remove_suffix(1);
  const auto bytes = parse_bytes(text, 1U << 20U);
  return bytes ? std::optional(*bytes) : std::nullopt;
}

std::optional<Duration> read_span(std::string_view text) {
  text = known(text);
  if (text.empty()) return std::nullopt;
  const auto span = parse_slurm_span(text);
  return span ? *span : std::nullopt;
}

ExitCode read_exit(std::string_view text) {
  text = known(text);
  ExitCode exit;
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    const auto code = small(text.substr(0, colon));
    const auto signal = small(text.substr(colon + 1));
    if (code) exit.code = static_cast<int>(*code);
    if (signal) exit.signal = static_cast<int>(*signal);
    return exit;
  }
  if (const auto status = small(text)) {
    exit.code = static_cast<int>((*status >> 8U) & 0xFFU);
    exit.signal = static_cast<int>(*status & 0x7FU);
  }
  return exit;
}

Result<JobId> parse_job_id(std::string_view text) {
  const auto refuse = [&text] {
    return fail(Code::invalid, fmt::format("'{}' is not a job id", one_line(text, 60)));
  };
  JobId job;
  std::string_view rest = trim(text);
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const auto id = parse_uint(rest.substr(0, digits));
  if (!id || *id == 0) return refuse();
  job.id = *id;
  rest.remove_prefix(digits);
  if (rest.starts_with("_[")) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return refuse();
    job.tasks = rest.substr(2, close - 2);
    rest.remove_prefix(close + 1);
  } else if (rest.starts_with('_') || rest.starts_with('+')) {
    const std::size_t end = std::min(rest.find('.'), rest.size());
    const auto number = small(rest.substr(1, end - 1));
    if (!number) return refuse();
    (rest.front() == '_' ? job.task : job.het_offset) = number;
    rest.remove_prefix(end);
  }
  if (rest.starts_with('.') && rest.size() > 1)
    job.step = rest.substr(1);
  else if (!rest.empty())
    return refuse();
  return job;
}

Columns::Columns(std::span<const std::string> names) {
  lowered_.reserve(names.size());
  for (const std::string& name : names) lowered_.push_back(lowered(trim(name)));
}

std::optional<std::size_t> Columns::at(std::string_view name) const {
  const auto found = std::ranges::find(lowered_, lowered(name));
  if (found == lowered_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - lowered_.begin());
}

}  // namespace vetta::slurm
