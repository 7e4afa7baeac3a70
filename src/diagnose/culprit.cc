// SPDX-License-Identifier: Apache-2.0
// Which rank holds the others, and in which of its phases.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "diagnose/verdict_detail.h"

namespace vetta::diagnose {
namespace {

constexpr double significant = 3;       // standard errors
constexpr double late_significant = 5;  // for a window that was itself chosen by looking
constexpr double often = 0.08;          // share of steps
constexpr std::size_t late_steps_least = 10;
constexpr double set_excess_least = 0.05;  // of the step, to belong to a set of slow ranks
constexpr double set_excess_share = 0.5;   // of the slowest rank's excess
constexpr std::size_t candidates_max = 4;

std::vector<std::size_t> by_value(const std::vector<double>& values, std::size_t most) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(most, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](std::size_t a, std::size_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  order.erase(end, order.end());
  return order;
}

std::vector<std::size_t> candidates(const Work& work) {
  std::vector<std::size_t> found = by_value(work.gain, candidates_max);
  for (const std::size_t r : by_value(work.late_gain, 2)) {
    if (std::find(found.begin(), found.end(), r) == found.end()) found.push_back(r);
  }
  return found;
}

// A rank whose delay comes from a few steps pauses; it is not slow.
bool is_often_slow(const Grid& grid, const Work& work, std::size_t rank, Window window) {
  const std::vector<double> excess = excess_of(grid, work, rank, window);
  const auto slow = std::count_if(excess.begin(), excess.end(),
                                  [](double value) { return value >= clear_margin; });
  return static_cast<double>(slow) >= often * static_cast<double>(excess.size());
}

std::optional<Culprit> late_culprit(const Grid& grid, const Work& work, std::size_t rank,
                                    double least) {
  const Window all{0, grid.steps.size()};
  const std::vector<double> excess = excess_of(grid, work, rank, all);
  const std::optional<std::size_t> from = rise_of(excess);
  if (!from || grid.steps.size() - *from < late_steps_least) return std::nullopt;
  const Window window{*from, grid.steps.size()};
  const double significance = significance_of({excess.data() + *from, grid.steps.size() - *from});
  if (significance < late_significant) return std::nullopt;
  const std::array<std::size_t, 1> set{rank};
  const double share = what_if(grid, work, set, window);
  if (share < least) return std::nullopt;
  return Culprit{{rank}, share, significance, window};
}

// Ranks that are slow together: none of them alone would gain much, all of them would.
std::vector<std::size_t> slow_set(const Work& work) {
  const double most = *std::max_element(work.excess.begin(), work.excess.end());
  std::vector<std::size_t> set;
  for (const std::size_t r : by_value(work.excess, work.excess.size())) {
    if (work.excess[r] < set_excess_least || work.excess[r] < set_excess_share * most) break;
    if (work.significance[r] >= significant) set.push_back(r);
  }
  return set;
}

}  // namespace

Search find_culprit(const Grid& grid, const Work& work, const Options& options) {
  Search search;
  const Window all{0, grid.steps.size()};
  const std::vector<std::size_t> tried = candidates(work);
  for (const std::size_t r : tried) {
    const std::array<std::size_t, 1> set{r};
    const double share = what_if(grid, work, set, all);
    if (share <= search.best_share) continue;
    search.best_share = share;
    search.best_rank = r;
    search.best_significance = work.significance[r];
  }
  if (search.best_share >= options.least_share && search.best_significance >= significant &&
      is_often_slow(grid, work, search.best_rank, all)) {
    search.culprit = Culprit{{search.best_rank}, search.best_share, search.best_significance, all};
    return search;
  }
  const std::vector<std::size_t> set = slow_set(work);
  if (set.size() >= 2 && set.size() <= (grid.ranks.size() - 1) / 2) {
    const double share = what_if(grid, work, set, all);
    if (share >= options.least_share) {
      search.culprit = Culprit{set, share, work.significance[set[0]], all};
      return search;
    }
  }
  for (const std::size_t r : tried) {
    std::optional<Culprit> late = late_culprit(grid, work, r, options.least_share);
    if (late && (!search.culprit || late->share > search.culprit->share))
      search.culprit = std::move(late);
  }
  return search;
}

namespace {

constexpr std::size_t cause_steps_max = 256;  // looked at for the phases

// The steps in which the culprit was clearly slower than its peers, at most so many, evenly spread.
std::vector<std::size_t> held_steps(const Grid& grid, const Work& work, const Culprit& culprit) {
  std::vector<std::size_t> held;
  const std::vector<double> excess = excess_of(grid, work, culprit.set[0], culprit.window);
  for (std::size_t i = 0; i < excess.size(); ++i) {
    if (excess[i] >= clear_margin) held.push_back(culprit.window.from + i);
  }
  if (held.empty()) {
    for (std::size_t s = culprit.window.from; s < culprit.window.to; ++s) held.push_back(s);
  }
  std::vector<std::size_t> spread;
  const std::size_t take = std::min(held.size(), cause_steps_max);
  spread.reserve(take);
  for (std::size_t i = 0; i < take; ++i) spread.push_back(held[i * held.size() / take]);
  return spread;
}

float rest_of(const Cell& cell) {
  float rest = cell.period;
  for (const float phase :
       {cell.data, cell.forward, cell.backward, cell.optimizer, cell.allreduce}) {
    if (!std::isnan(phase)) rest -= phase;
  }
  return std::max(rest, 0.0F);
}

// Mean over steps of the culprit's and the peers' median time of one kind.
template <typename Get>
std::optional<PhaseTimes> times_of(const Grid& grid, const std::vector<std::size_t>& steps,
                                   std::size_t rank, Get get) {
  std::vector<float> peers;
  std::vector<float> culprit_times;
  std::vector<float> peer_times;
  for (const std::size_t s : steps) {
    const std::span<const Cell> row = grid.row(s);
    const float own = get(row[rank], s, rank);
    if (std::isnan(own)) continue;
    peers.clear();
    for (std::size_t r = 0; r < row.size(); ++r) {
      const float time = get(row[r], s, r);
      if (r != rank && !std::isnan(time)) peers.push_back(time);
    }
    if (peers.empty()) continue;
    culprit_times.push_back(own);
    peer_times.push_back(median_of(peers));
  }
  if (culprit_times.empty()) return std::nullopt;
  const auto mean = [](const std::vector<float>& values) {
    double sum = 0;
    for (const float value : values) sum += static_cast<double>(value);
    return sum / static_cast<double>(values.size());
  };
  return PhaseTimes{std::nullopt, mean(culprit_times), mean(peer_times)};
}

struct Extra {
  double data = 0, compute = 0, rest = 0;
  double data_culprit = 0, data_peers = 0, compute_culprit = 0, compute_peers = 0;
};

// A process that is slow as a whole (a throttled processor) is slow in its loader, too: that is not
// the loader's fault.
bool is_whole_process(const Extra& extra) {
  if (!(extra.compute_peers > 0) || !(extra.data_peers > 0)) return false;
  const double compute = extra.compute_culprit / extra.compute_peers - 1;
  const double data = extra.data_culprit / extra.data_peers - 1;
  return compute >= 0.2 && compute >= 0.5 * data && data >= 0.5 * compute;
}

std::optional<model::Phase> largest(const Cause& cause, bool compute) {
  std::optional<model::Phase> phase;
  double most = 0;
  for (const PhaseTimes& times : cause.phases) {
    if (!times.phase || *times.phase == model::Phase::allreduce) continue;
    if (compute != (*times.phase != model::Phase::data)) continue;
    if (times.culprit - times.peers > most) {
      most = times.culprit - times.peers;
      phase = times.phase;
    }
  }
  return phase;
}

void classify(const Extra& extra, Cause& cause) {
  using model::CauseClass;
  cause.whole_process = is_whole_process(extra);
  const double most = std::max({extra.data, extra.compute, extra.rest});
  if (most <= 0) return;
  if (cause.whole_process || extra.compute == most) {
    cause.cause = CauseClass::compute;
    cause.phase = largest(cause, true);
  } else if (extra.data == most) {
    cause.cause = CauseClass::data;
    cause.phase = largest(cause, false);
  }
}

}  // namespace

Cause find_cause(const Grid& grid, const Work& work, const Culprit& culprit) {
  Cause cause;
  const std::size_t rank = culprit.set[0];
  const std::vector<std::size_t> steps = held_steps(grid, work, culprit);
  const auto own = times_of(
      grid, steps, rank, [&](const Cell&, std::size_t s, std::size_t r) { return work.at(s, r); });
  if (own) {
    cause.own_culprit = own->culprit;
    cause.own_peers = own->peers;
  }
  Extra extra;
  for (std::size_t p = 0; p < model::phase_count; ++p) {
    const auto phase = static_cast<model::Phase>(p);
    auto times = times_of(grid, steps, rank, [&](const Cell& cell, std::size_t, std::size_t) {
      return cell.*phase_fields[p];
    });
    if (!times) continue;
    times->phase = phase;
    cause.phases.push_back(*times);
    const bool hides_waits = work.method == Method::hidden && phase == model::Phase::backward;
    if (phase == model::Phase::allreduce || hides_waits) continue;
    const double more = times->culprit - times->peers;
    if (phase == model::Phase::data) {
      extra.data = more;
      extra.data_culprit = times->culprit;
      extra.data_peers = times->peers;
    } else {
      extra.compute += more;
      extra.compute_culprit += times->culprit;
      extra.compute_peers += times->peers;
    }
  }
  if (work.method == Method::measured) {
    const auto rest = times_of(grid, steps, rank, [](const Cell& cell, std::size_t, std::size_t) {
      return rest_of(cell);
    });
    if (rest) {
      cause.phases.push_back(*rest);
      extra.rest = rest->culprit - rest->peers;
    }
  }
  classify(extra, cause);
  return cause;
}

}  // namespace vetta::diagnose
