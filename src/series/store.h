// SPDX-License-Identifier: Apache-2.0
// Series of hardware: (site, entity, metric) → points in time. Never identified by a job: what a
// job used is a join with its allocations at query time. First form: one journal per window of two
// hours, rewritten series by series when the window is over.
//
// What append() has taken survives a kill -9; a power cut may cost what came after the last sync().
// Points may come late and in any order; of two points of one series at one time the later told
// stays. Values are raw: counters stay counters. A missing value is a gap with a reason.
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"

namespace vetta::series {

struct SeriesKey {
  std::string site;    ///< the cluster's name in this first form
  std::string entity;  ///< "node:n001", "gpu:GPU-5a3c…"
  std::string metric;  ///< "cpu_seconds_busy"
  auto operator<=>(const SeriesKey&) const = default;
};

struct Point {
  Time time;
  double value = 0;
  bool operator==(const Point&) const = default;
};

struct Gap {
  Time time;
  std::string reason;
  bool operator==(const Gap&) const = default;
};

struct SeriesAppend {
  SeriesKey key;
  std::span<const Point> points;
  std::span<const Gap> gaps;
};

struct Bucket {
  Time start;
  double min = 0, max = 0, avg = 0;
  std::uint64_t count = 0;  ///< 0: nothing was measured in this bucket, the other figures are void
};

struct Latest {
  SeriesKey key;
  Point point;
};

struct StoreOptions {
  std::filesystem::path dir{};  ///< made if absent
  Duration window = std::chrono::hours(2);
  std::uint64_t bytes_max = 4ULL << 30U;  ///< of all files; the oldest windows go first
  std::size_t series_max = 100'000;
};

class Store {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(StoreOptions options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  [[nodiscard]] Result<void> append(std::span<const SeriesAppend> what);
  [[nodiscard]] Result<void> sync();
  /// Rewrites the windows that ended before `before`, series by series, with an index.
  [[nodiscard]] Result<void> seal(Time before);
  /// Points of [from, to) in order of time, until `take` returns false.
  [[nodiscard]] Result<void> scan(const SeriesKey& key, Time from, Time to,
                                  const std::function<bool(const Point&)>& take) const;
  [[nodiscard]] Result<std::vector<Gap>> gaps(const SeriesKey& key, Time from, Time to) const;
  /// The last point of every series of this metric (of one site if named).
  [[nodiscard]] std::vector<Latest> latest(std::string_view metric,
                                           std::string_view site = {}) const;
  /// Buckets of `step` from `from`, also the empty ones; at most 100,000.
  [[nodiscard]] Result<std::vector<Bucket>> aggregate(const SeriesKey& key, Time from, Time to,
                                                      Duration step) const;
  [[nodiscard]] std::vector<SeriesKey> series() const;
  /// Deletes windows that ended before `before`, then the oldest while over `bytes_max`.
  [[nodiscard]] Result<void> retain(Time before);
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct State;
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace vetta::series
