// SPDX-License-Identifier: Apache-2.0
// Private to diagnose: marks of all ranks aligned into one grid of steps × ranks.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "diagnose/slow_rank.h"

namespace vetta::diagnose {

inline constexpr float missing = std::numeric_limits<float>::quiet_NaN();

/// One rank in one step, nanoseconds as float (relative error 6e-8); NaN is missing. `period` is
/// the mark's duration and the gap since the rank's step before, so that work between marks counts.
struct Cell {
  float period, duration, data, forward, backward, optimizer, allreduce;
};

/// In the order of model::Phase.
inline constexpr std::array<float Cell::*, model::phase_count> phase_fields{
    &Cell::data, &Cell::forward, &Cell::backward, &Cell::optimizer, &Cell::allreduce};

/// Step numbers may repeat (each epoch counts from 0 again): the n-th time is another step.
struct StepKey {
  std::uint32_t occurrence = 0;
  std::int64_t step = 0;
  auto operator<=>(const StepKey&) const = default;
};

struct GridRank {
  std::int32_t rank = -1;
  std::string node;
};

struct Grid {
  std::vector<GridRank> ranks;      ///< by rank, those with at least one usable mark
  std::vector<StepKey> steps;       ///< judged ones, in order
  std::vector<Cell> cells;          ///< steps.size() × ranks.size(), step by step
  std::vector<float> period;        ///< of each step: the median over its ranks
  std::int64_t unusable_marks = 0;  ///< no positive duration
  std::int64_t warm_up_steps = 0;   ///< left out
  std::int64_t sparse_steps = 0;    ///< left out: fewer than half of the ranks marked them
  std::int64_t long_steps = 0;      ///< left out: rare and longer than three medians

  [[nodiscard]] std::span<const Cell> row(std::size_t step) const {
    return {cells.data() + step * ranks.size(), ranks.size()};
  }
};

/// What happens to steps longer than three medians (checkpoints, pauses) where they are rare.
enum class LongSteps { set_aside, keep };

[[nodiscard]] Grid build_grid(const model::StepTable& table, const Options& options,
                              LongSteps mode = LongSteps::set_aside);

/// Median of the values, which it reorders; NaN for none. An even number gives the mean of the two
/// in the middle.
[[nodiscard]] float median_of(std::span<float> values);

}  // namespace vetta::diagnose
