// SPDX-License-Identifier: Apache-2.0
// A set of sequence numbers kept as few closed intervals: what has been seen, whatever the order in
// which it came. Adding in rising order is constant time. Values; as thread-safe as std::vector.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace vetta {

class IntervalSet {
 public:
  struct Interval {
    std::uint64_t first = 0, last = 0;  ///< closed
    bool operator==(const Interval&) const = default;
  };

  /// False if it was there already.
  bool add(std::uint64_t value) {
    if (intervals_.empty() || value > intervals_.back().last) {
      if (!intervals_.empty() && value == intervals_.back().last + 1) {
        intervals_.back().last = value;
      } else {
        intervals_.push_back({value, value});
      }
      return true;
    }
    const auto at = find(value);
    if (at->first <= value) return false;
    insert_before(at, value);
    return true;
  }

  void add(Interval range) {
    auto begin = std::lower_bound(
        intervals_.begin(), intervals_.end(), range.first,
        [](const Interval& i, std::uint64_t v) { return i.last < v && i.last + 1 < v; });
    auto end = begin;
    while (end != intervals_.end() && (end->first <= range.last || end->first - 1 == range.last)) {
      range.first = std::min(range.first, end->first);
      range.last = std::max(range.last, end->last);
      ++end;
    }
    begin = intervals_.erase(begin, end);
    intervals_.insert(begin, range);
  }

  [[nodiscard]] bool contains(std::uint64_t value) const {
    const auto at = std::lower_bound(intervals_.begin(), intervals_.end(), value,
                                     [](const Interval& i, std::uint64_t v) { return i.last < v; });
    return at != intervals_.end() && at->first <= value;
  }

  /// Rising, neither touching nor overlapping.
  [[nodiscard]] const std::vector<Interval>& intervals() const { return intervals_; }

  /// Closes the lowest holes until at most `count` intervals are left.
  void limit(std::size_t count) {
    while (intervals_.size() > count && intervals_.size() > 1) {
      intervals_[1].first = intervals_[0].first;
      intervals_.erase(intervals_.begin());
    }
  }

  bool operator==(const IntervalSet&) const = default;

 private:
  using At = std::vector<Interval>::iterator;

  At find(std::uint64_t value) {
    return std::lower_bound(intervals_.begin(), intervals_.end(), value,
                            [](const Interval& i, std::uint64_t v) { return i.last < v; });
  }

  /// `at` is the first interval that begins after value.
  void insert_before(At at, std::uint64_t value) {
    const bool touches_next = at->first == value + 1;
    const bool touches_previous = at != intervals_.begin() && std::prev(at)->last + 1 == value;
    if (touches_next && touches_previous) {
      std::prev(at)->last = at->last;
      intervals_.erase(at);
    } else if (touches_next) {
      at->first = value;
    } else if (touches_previous) {
      std::prev(at)->last = value;
    } else {
      intervals_.insert(at, {value, value});
    }
  }

  std::vector<Interval> intervals_;
};

}  // namespace vetta
