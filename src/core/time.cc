// SPDX-License-Identifier: Apache-2.0
#include "core/time.h"

#include <charconv>
#include <cmath>
#include <ctime>
#include <fmt/format.h>
#include <utility>
#include <vector>

namespace vetta {
namespace {

Result<double> number(std::string_view text, std::string_view whole) {
  double value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0 ||
      !std::isfinite(value) || value > 1e12)
    return fail(Code::invalid, fmt::format("'{}' is not a span of time", whole),
                "write it as 1-02:03:04 or 90s");
  return value;
}

std::vector<std::string_view> split_colons(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

}  // namespace

Time now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

Duration monotonic_now() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return std::chrono::seconds(ts.tv_sec) + std::chrono::nanoseconds(ts.tv_nsec);
}

Duration from_seconds(double s) {
  return Duration(std::llround(s * 1e9));
}

std::string iso(Time t, int digits) {
  const std::int64_t whole = epoch_seconds(t);
  const std::time_t raw = whole;
  std::tm tm{};
  gmtime_r(&raw, &tm);
  std::string out = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", tm.tm_year + 1900,
                                tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
  if (digits > 0) {
    const std::int64_t rest = epoch_nanoseconds(t) - whole * 1'000'000'000;
    out += "." + fmt::format("{:09}", rest).substr(0, static_cast<std::size_t>(digits));
  }
  return out + "Z";
}

std::string local_short(Time t) {
  const std::time_t raw = epoch_seconds(t);
  std::tm tm{};
  localtime_r(&raw, &tm);
  return fmt::format("{:02}-{:02} {:02}:{:02}:{:02}", tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
                     tm.tm_min, tm.tm_sec);
}

std::string human(Duration d) {
  if (d < Duration::zero()) return "-" + human(-d);
  const double s = vetta::seconds(d);
  const auto scaled = [](double value, std::string_view unit) {
    return value < 9.995   ? fmt::format("{:.2f} {}", value, unit)
           : value < 99.95 ? fmt::format("{:.1f} {}", value, unit)
                           : fmt::format("{:.0f} {}", value, unit);
  };
  if (s < 1e-6) return fmt::format("{} ns", d.count());
  if (s < 0.9995e-3) return scaled(s * 1e6, "µs");
  if (s < 0.9995) return scaled(s * 1e3, "ms");
  if (s < 99.95) return scaled(s, "s");
  const auto total = static_cast<std::int64_t>(std::llround(s));
  if (total < 3600) return fmt::format("{}m{:02}s", total / 60, total % 60);
  if (total < 86400) return fmt::format("{}h{:02}m", total / 3600, total % 3600 / 60);
  return fmt::format("{}d{:02}h", total / 86400, total % 86400 / 3600);
}

Result<std::optional<Duration>> parse_slurm_span(std::string_view text) {
  if (text == "UNLIMITED" || text == "infinite" || text == "INFINITE")
    return std::optional<Duration>();
  double days = 0;
  bool has_days = false;
  std::string_view rest = text;
  if (const std::size_t dash = rest.find('-'); dash != std::string_view::npos) {
    days = VETTA_TRY(number(rest.substr(0, dash), text));
    rest.remove_prefix(dash + 1);
    has_days = true;
  }
  const auto parts = split_colons(rest);
  if (parts.size() > 3) return fail(Code::invalid, fmt::format("'{}' is not a span of time", text));
  double fields[3] = {0, 0, 0};  // hours, minutes, seconds
  const std::size_t first = has_days ? 0 : parts.size() == 3 ? 0 : 1;
  for (std::size_t i = 0; i < parts.size(); ++i)
    fields[first + i] = VETTA_TRY(number(parts[i], text));
  return std::optional(from_seconds(days * 86400 + fields[0] * 3600 + fields[1] * 60 + fields[2]));
}

Result<Duration> parse_span(std::string_view text) {
  double total = 0;
  std::string_view rest = text;
  if (rest.empty())
    return fail(Code::invalid, "an empty text is not a span of time",
                "write it as 90s, 5m or 1h30m");
  while (!rest.empty()) {
    const std::size_t digits = rest.find_first_not_of("0123456789.");
    const double value = VETTA_TRY(number(rest.substr(0, digits), text));
    rest.remove_prefix(std::min(digits, rest.size()));
    const std::size_t unit_length = std::min(rest.find_first_of("0123456789."), rest.size());
    const std::string_view unit = rest.substr(0, unit_length);
    rest.remove_prefix(unit_length);
    if (unit == "ns")
      total += value * 1e-9;
    else if (unit == "us" || unit == "µs")
      total += value * 1e-6;
    else if (unit == "ms")
      total += value * 1e-3;
    else if (unit == "s" || unit.empty())
      total += value;
    else if (unit == "m" || unit == "min")
      total += value * 60;
    else if (unit == "h")
      total += value * 3600;
    else if (unit == "d")
      total += value * 86400;
    else
      return fail(Code::invalid, fmt::format("'{}' is not a span of time", text),
                  "write it as 90s, 5m or 1h30m");
  }
  return from_seconds(total);
}

std::string print_span(Duration d) {
  constexpr std::pair<std::string_view, Duration> units[] = {
      {"d", std::chrono::days(1)},          {"h", std::chrono::hours(1)},
      {"m", std::chrono::minutes(1)},       {"s", std::chrono::seconds(1)},
      {"ms", std::chrono::milliseconds(1)}, {"us", std::chrono::microseconds(1)},
  };
  if (d == Duration::zero()) return "0s";
  for (const auto& [name, unit] : units)
    if (d % unit == Duration::zero()) return fmt::format("{}{}", d / unit, name);
  return fmt::format("{}ns", d.count());
}

}  // namespace vetta
