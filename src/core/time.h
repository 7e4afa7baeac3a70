// SPDX-License-Identifier: Apache-2.0
// Time points, durations and their text forms. Time is wall clock in nanoseconds since the epoch
// (UTC); a span in nanoseconds is Duration. Nothing here reads a clock except now() and
// monotonic_now().
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace vetta {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::sys_time<Duration>;

[[nodiscard]] Time now();
/// CLOCK_MONOTONIC of this machine; comparable only within one boot of one kernel.
[[nodiscard]] Duration monotonic_now();

[[nodiscard]] constexpr Time from_epoch_seconds(std::int64_t seconds) {
  return Time(std::chrono::seconds(seconds));
}

[[nodiscard]] constexpr Time from_epoch_nanoseconds(std::int64_t ns) {
  return Time(Duration(ns));
}

[[nodiscard]] constexpr std::int64_t epoch_seconds(Time t) {
  return std::chrono::floor<std::chrono::seconds>(t).time_since_epoch().count();
}

[[nodiscard]] constexpr std::int64_t epoch_nanoseconds(Time t) {
  return t.time_since_epoch().count();
}

[[nodiscard]] constexpr double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

[[nodiscard]] Duration from_seconds(double s);

/// RFC 3339 in UTC with `digits` (0 to 9) decimals: 2026-11-30T13:42:05Z.
[[nodiscard]] std::string iso(Time t, int digits = 0);
/// Local time of this machine for tables: 11-30 13:42:05.
[[nodiscard]] std::string local_short(Time t);
/// For people, three significant digits and one unit or two: 840 ns, 12.3 ms, 4.20 s, 3m12s, 2h05m,
/// 4d02h.
[[nodiscard]] std::string human(Duration d);

/// Slurm's spans: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, UNLIMITED (nullopt), with
/// decimals after seconds. A bare number counts minutes, as Slurm's time limits do. N/A, INVALID
/// and NOT_SET are errors.
[[nodiscard]] Result<std::optional<Duration>> parse_slurm_span(std::string_view text);
/// Spans that people type: 500ms, 10s, 5m, 2h, 1d, 1h30m; a bare number counts seconds.
[[nodiscard]] Result<Duration> parse_span(std::string_view text);
/// As parse_span reads it, in the largest unit of which it is a whole number: 90d, 1500ms, 0s.
[[nodiscard]] std::string print_span(Duration d);

}  // namespace vetta
