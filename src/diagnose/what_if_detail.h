// SPDX-License-Identifier: Apache-2.0
// Private to diagnose: each rank's own work in each step, who was last, and what a step would take
// without a rank's delay. Formulae: docs/internals/diagnosis.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "diagnose/grid_detail.h"

namespace vetta::diagnose {

/// Where the ranks' waiting for each other lies, and so what is a rank's own work.
enum class Method {
  measured,  ///< in the allreduce phase: own = step − allreduce
  hidden,    ///< in backward or in the step's rest: own = the phases that do not synchronise
  outside,   ///< between the marks: own = duration
};

struct Work {
  Method method = Method::measured;
  float backward_per_forward = 0;  ///< hidden only: estimate of own backward work per forward
  std::vector<float> own;          ///< steps × ranks; NaN is missing
  // by step
  std::vector<float> last, second;      ///< the longest own work and the one after it
  std::vector<std::int32_t> last_rank;  ///< index of the rank; -1 where two share it
  std::vector<float> median;            ///< of own work
  std::vector<float> least_wait;  ///< shortest allreduce of a rank: what the last to arrive spends
                                  ///< on communication
  // by rank
  std::vector<double> gain,
      late_gain;               ///< sum of last − second where it was last; of the last quarter
  std::vector<double> excess;  ///< mean of (own − peers' median) / step
  std::vector<double> significance;  ///< excess over its standard error
  std::vector<std::int64_t> seen, times_last, clearly_last;

  [[nodiscard]] float at(std::size_t step, std::size_t rank) const {
    return own[step * gain.size() + rank];
  }
};

/// A gap from which "last" is clear, in shares of the step.
inline constexpr double clear_margin = 0.05;

/// Own work by this method; nothing where the marks do not carry what it needs.
[[nodiscard]] std::optional<Work> measure_work(const Grid& grid, Method method);

/// Median own work of the others in this step; NaN if there is none.
[[nodiscard]] float peer_median(const Grid& grid, const Work& work, std::size_t step,
                                std::size_t rank);

/// Steps [from, to).
struct Window {
  std::size_t from = 0, to = 0;
};

/// (own − peers' median) / step for each step of the window; 0 where the rank was not seen.
[[nodiscard]] std::vector<double> excess_of(const Grid& grid, const Work& work, std::size_t rank,
                                            Window window);

/// Share of the window's time that would be gained if the ranks of `set` worked at the pace of
/// their median peer.
[[nodiscard]] double what_if(const Grid& grid, const Work& work, std::span<const std::size_t> set,
                             Window window);

/// Mean over its standard error; 0 for fewer than two values, large where all are equal.
[[nodiscard]] double significance_of(std::span<const double> values);

/// The most likely step at which the mean of the values rises; nothing if it is not significant.
[[nodiscard]] std::optional<std::size_t> rise_of(std::span<const double> values);

}  // namespace vetta::diagnose
