// SPDX-License-Identifier: Apache-2.0
// Samples and events that wait for vettad, in memory, bounded: the oldest go first and are counted.
// Several readers (one a vettad) each keep their own place. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "model/wire.h"

namespace vetta::collect {

struct SpoolItem {
  std::uint64_t id = 0;  ///< counts from 1
  std::vector<model::RankSamples> rank_samples;
  std::vector<model::NodeSample> node_samples;
  std::vector<model::Event> events;
  std::size_t bytes = 0;  ///< of memory, estimated
};

class Spool {
 public:
  explicit Spool(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// One that would make a batch of more than about `item_bytes_max` becomes several.
  void put(SpoolItem item);

  static constexpr std::size_t item_bytes_max = std::size_t{1} << 20U;

  /// The item with this id, or nothing if it is not there (any more, or yet).
  [[nodiscard]] const SpoolItem* find(std::uint64_t id) const;

  /// Ids that can be had: first() to last(); first() > last() when empty.
  [[nodiscard]] std::uint64_t first() const { return first_; }

  [[nodiscard]] std::uint64_t last() const { return first_ + items_.size() - 1; }

  /// All items up to this id are acknowledged by everybody.
  void release(std::uint64_t id);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void put_one(SpoolItem item);
  void pop();

  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::uint64_t first_ = 1;
  std::deque<SpoolItem> items_;
};

}  // namespace vetta::collect
