// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "diagnose/what_if_detail.h"

namespace vetta::diagnose {
namespace {

constexpr double coverage_least = 0.6;  // share of cells that must carry a phase before it is used
constexpr std::size_t leave_one_out_max =
    16;  // from here on a rank does not move the median of its peers
constexpr float backward_per_forward_max = 2;  // two matrix products of each layer against one
constexpr std::size_t peers_max = 32;          // whose pace is looked at
constexpr std::size_t quantiles = 129;

double coverage(const Grid& grid, float Cell::* phase) {
  std::size_t present = 0;
  std::size_t measured = 0;
  for (const Cell& cell : grid.cells) {
    if (std::isnan(cell.period)) continue;
    ++present;
    if (!std::isnan(cell.*phase)) ++measured;
  }
  return present == 0 ? 0 : static_cast<double>(measured) / static_cast<double>(present);
}

struct HiddenPhases {
  bool data, forward, optimizer;
};

float non_synchronising(const Cell& cell, HiddenPhases use) {
  float sum = 0;  // NaN where a phase that the others have is missing
  if (use.data) sum += cell.data;
  if (use.forward) sum += cell.forward;
  if (use.optimizer) sum += cell.optimizer;
  return sum;
}

// Backward of the rank that arrives last holds no waiting: what it spends outside the other phases,
// per forward, bounds everybody's own backward work.
float estimate_backward(const Grid& grid, HiddenPhases use) {
  std::vector<float> ratios;
  for (std::size_t s = 0; s < grid.steps.size(); ++s) {
    const Cell* last = nullptr;
    for (const Cell& cell : grid.row(s)) {
      const float own = non_synchronising(cell, use);
      if (!std::isnan(own) && (last == nullptr || own > non_synchronising(*last, use)))
        last = &cell;
    }
    if (last == nullptr || !(last->forward > 0)) continue;
    const float rest = last->period - non_synchronising(*last, use);
    ratios.push_back(std::max(rest, 0.0F) / last->forward);
  }
  const float ratio = median_of(ratios);
  return std::isnan(ratio) ? 0 : std::min(ratio, backward_per_forward_max);
}

// Forward times of a rank, half smoothed: backward's noise is not forward's, so scaling each step's
// forward up would make ranks look more restless than they are. The weight keeps the variance that
// independent noise would have.
std::vector<float> smoothed_forward(const Grid& grid, float backward_per_forward) {
  constexpr std::size_t block = 16;  // steps
  const float b = backward_per_forward;
  const float instant = b > 0 ? (std::sqrt(1 + b * b) - 1) / b : 1;
  const std::size_t width = grid.ranks.size();
  std::vector<float> forward(grid.cells.size(), missing);
  std::vector<float> values;
  for (std::size_t from = 0; from < grid.steps.size(); from += block) {
    const std::size_t to = std::min(from + block, grid.steps.size());
    for (std::size_t r = 0; r < width; ++r) {
      values.clear();
      for (std::size_t s = from; s < to; ++s) {
        const float value = grid.row(s)[r].forward;
        if (!std::isnan(value)) values.push_back(value);
      }
      const float typical = median_of(values);
      for (std::size_t s = from; s < to; ++s) {
        forward[s * width + r] = instant * grid.row(s)[r].forward + (1 - instant) * typical;
      }
    }
  }
  return forward;
}

bool own_hidden(const Grid& grid, bool waits_are_measured, Work& work) {
  const HiddenPhases use{coverage(grid, &Cell::data) >= coverage_least,
                         coverage(grid, &Cell::forward) >= coverage_least,
                         coverage(grid, &Cell::optimizer) >= coverage_least};
  if (!use.data && !use.forward) return false;
  for (std::size_t i = 0; i < grid.cells.size(); ++i)
    work.own[i] = non_synchronising(grid.cells[i], use);
  if (!use.forward || waits_are_measured) return true;
  work.backward_per_forward = estimate_backward(grid, use);
  const std::vector<float> forward = smoothed_forward(grid, work.backward_per_forward);
  for (std::size_t i = 0; i < grid.cells.size(); ++i)
    work.own[i] += work.backward_per_forward * forward[i];
  return true;
}

bool has_gaps(const Grid& grid) {
  constexpr float gap_least = 0.05F;         // of the step: below it nobody waits between marks
  constexpr std::size_t looked_at = 20'000;  // cells, evenly spread
  std::vector<float> gaps;
  const std::size_t stride = std::max<std::size_t>(grid.cells.size() / looked_at, 1);
  for (std::size_t i = 0; i < grid.cells.size(); i += stride) {
    const Cell& cell = grid.cells[i];
    if (!std::isnan(cell.period)) gaps.push_back((cell.period - cell.duration) / cell.period);
  }
  const float gap = median_of(gaps);
  return gap >= gap_least;
}

bool own_outside(const Grid& grid, bool waits_are_measured, Work& work) {
  for (std::size_t i = 0; i < grid.cells.size(); ++i) {
    const Cell& cell = grid.cells[i];
    work.own[i] = waits_are_measured ? cell.duration - cell.allreduce : cell.duration;
  }
  return true;
}

bool fill_own(const Grid& grid, Method method, Work& work) {
  const bool waits_are_measured = coverage(grid, &Cell::allreduce) >= coverage_least;
  if (method == Method::outside && !has_gaps(grid)) return false;
  work.own.resize(grid.cells.size());
  switch (method) {
    case Method::hidden: return own_hidden(grid, waits_are_measured, work);
    case Method::outside: return own_outside(grid, waits_are_measured, work);
    case Method::measured: break;
  }
  if (!waits_are_measured) return false;
  for (std::size_t i = 0; i < grid.cells.size(); ++i) {
    const Cell& cell = grid.cells[i];
    work.own[i] = std::max(cell.period - cell.allreduce, 0.0F);
  }
  return true;
}

void rank_step(const Grid& grid, Work& work, std::size_t s) {
  float last = missing;
  float second = missing;
  std::int32_t who = -1;
  float least = missing;
  const std::size_t width = grid.ranks.size();
  for (std::size_t r = 0; r < width; ++r) {
    const float own = work.at(s, r);
    if (std::isnan(own)) continue;
    ++work.seen[r];
    const float wait = grid.row(s)[r].allreduce;
    if (!(least <= wait)) least = std::isnan(wait) ? least : wait;
    if (!(own <= last)) {
      second = last;
      last = own;
      who = static_cast<std::int32_t>(r);
    } else if (!(own <= second)) {
      second = own;
    }
  }
  work.last[s] = last;
  work.second[s] = second;
  work.least_wait[s] = least;
  work.last_rank[s] = -1;
  if (!(last > second)) return;
  const auto r = static_cast<std::size_t>(who);
  const double gain = std::min(static_cast<double>(last) - static_cast<double>(second),
                               static_cast<double>(grid.period[s]));
  work.last_rank[s] = who;
  ++work.times_last[r];
  if (gain >= clear_margin * static_cast<double>(grid.period[s])) ++work.clearly_last[r];
  work.gain[r] += gain;
  if (s * 4 >= grid.steps.size() * 3) work.late_gain[r] += gain;
}

// Median of sorted values without the one that equals `out`.
float median_without(std::span<const float> sorted, float out) {
  const std::size_t rest = sorted.size() - 1;
  if (rest == 0) return missing;
  const auto skip = static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), out) -
                                             sorted.begin());
  const auto pick = [&](std::size_t i) { return sorted[i < skip ? i : i + 1]; };
  if (rest % 2 == 1) return pick(rest / 2);
  return (pick(rest / 2 - 1) + pick(rest / 2)) / 2;
}

void collect_step(const Work& work, std::size_t step, std::vector<float>& values) {
  values.clear();
  const std::size_t width = work.gain.size();
  for (std::size_t r = 0; r < width; ++r) {
    const float own = work.at(step, r);
    if (!std::isnan(own)) values.push_back(own);
  }
}

void measure_excess(const Grid& grid, Work& work) {
  const std::size_t width = grid.ranks.size();
  std::vector<double> sum(width, 0);
  std::vector<double> squares(width, 0);
  std::vector<float> scratch;
  for (std::size_t s = 0; s < grid.steps.size(); ++s) {
    collect_step(work, s, scratch);
    const bool leave_one_out = scratch.size() < leave_one_out_max;
    if (leave_one_out) std::sort(scratch.begin(), scratch.end());
    work.median[s] = scratch.empty() ? missing
                     : leave_one_out
                         ? (scratch[(scratch.size() - 1) / 2] + scratch[scratch.size() / 2]) / 2
                         : median_of(scratch);
    for (std::size_t r = 0; r < width; ++r) {
      const float own = work.at(s, r);
      if (std::isnan(own)) continue;
      const float peers = leave_one_out ? median_without(scratch, own) : work.median[s];
      if (std::isnan(peers)) continue;
      const double excess = std::clamp((static_cast<double>(own) - static_cast<double>(peers)) /
                                           static_cast<double>(grid.period[s]),
                                       -2.0, 2.0);
      sum[r] += excess;
      squares[r] += excess * excess;
    }
  }
  for (std::size_t r = 0; r < width; ++r) {
    const auto n = static_cast<double>(work.seen[r]);
    if (n < 2) continue;
    const double mean = sum[r] / n;
    const double variance = std::max(squares[r] / n - mean * mean, 0.0) * n / (n - 1);
    work.excess[r] = mean;
    work.significance[r] = mean / std::sqrt(variance / n + 1e-12);
  }
}

// How long the peers of a set typically work in each step. The median over few peers is noise as
// well as signal: it is drawn to the level of all steps by as much as the peers' own scatter
// explains its changes. One peer tells nothing.
std::vector<float> levels_of(const Work& work, const std::vector<bool>& in_set, Window window) {
  if (in_set.size() >= leave_one_out_max) {  // many peers: their median is all signal
    return {work.median.begin() + static_cast<std::ptrdiff_t>(window.from),
            work.median.begin() + static_cast<std::ptrdiff_t>(window.to)};
  }
  std::vector<float> medians;
  std::vector<float> scratch;
  double within = 0;  // variance of the logarithm among peers, summed over steps
  double freedom = 0;
  for (std::size_t s = window.from; s < window.to; ++s) {
    scratch.clear();
    for (std::size_t r = 0; r < in_set.size(); ++r) {
      const float own = work.at(s, r);
      if (!in_set[r] && own > 0) scratch.push_back(own);
    }
    medians.push_back(median_of(scratch));
    if (scratch.size() < 2) continue;
    for (const float own : scratch) {
      const auto log = static_cast<double>(std::clamp(std::log(own / medians.back()), -1.0F, 1.0F));
      within += log * log;
    }
    freedom += static_cast<double>(scratch.size() - 1);
  }
  std::vector<float> known;
  for (const float median : medians) {
    if (!std::isnan(median)) known.push_back(median);
  }
  const float typical = median_of(known);
  if (!(typical > 0) || freedom == 0) return std::vector<float>(medians.size(), typical);
  double between = 0;
  for (const float median : known) {
    const auto log = static_cast<double>(std::clamp(std::log(median / typical), -2.0F, 2.0F));
    between += log * log / static_cast<double>(known.size());
  }
  const double peers = freedom / static_cast<double>(medians.size()) + 1;
  const double noise =
      1.57 * within / freedom / peers;  // a median scatters 1.57 times as much as a mean
  const auto trust =
      static_cast<float>(between > 0 ? std::clamp(1 - noise / between, 0.0, 1.0) : 0.0);
  for (float& level : medians)
    level = std::isnan(level) ? typical : typical * std::pow(level / typical, trust);
  return medians;
}

// One rank's work in a window against the step's level, sorted.
std::vector<float> sorted_work(const Work& work, std::size_t rank, Window window,
                               std::span<const float> levels) {
  std::vector<float> values;
  values.reserve(window.to - window.from);
  for (std::size_t s = window.from; s < window.to; ++s) {
    const float own = work.at(s, rank) / levels[s - window.from];
    if (!std::isnan(own)) values.push_back(own);
  }
  std::sort(values.begin(), values.end());
  return values;
}

float quantile(std::span<const float> sorted, double at) {
  const double position = std::clamp(at * static_cast<double>(sorted.size()) - 0.5, 0.0,
                                     static_cast<double>(sorted.size() - 1));
  const auto low = static_cast<std::size_t>(position);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  const auto part = static_cast<float>(position - static_cast<double>(low));
  return sorted[low] + (sorted[high] - sorted[low]) * part;
}

// The quantile function of the median peer: for each quantile, the median over peers outside the
// set.
std::vector<float> peer_pace(const Work& work, const std::vector<bool>& in_set, Window window,
                             std::span<const float> levels) {
  std::vector<std::size_t> peers;
  for (std::size_t r = 0; r < in_set.size(); ++r) {
    if (!in_set[r] && work.seen[r] > 0) peers.push_back(r);
  }
  std::vector<std::vector<float>> sorted;
  const std::size_t take = std::min(peers.size(), peers_max);
  for (std::size_t i = 0; i < take; ++i) {
    std::vector<float> values = sorted_work(work, peers[i * peers.size() / take], window, levels);
    if (!values.empty()) sorted.push_back(std::move(values));
  }
  std::vector<float> pace;
  if (sorted.empty()) return pace;
  std::vector<float> scratch;
  for (std::size_t q = 0; q < quantiles; ++q) {
    scratch.clear();
    const double at = (static_cast<double>(q) + 0.5) / static_cast<double>(quantiles);
    for (const std::vector<float>& values : sorted) scratch.push_back(quantile(values, at));
    pace.push_back(median_of(scratch));
  }
  return pace;
}

// A rank's steps at its peers' pace: its k-th longest takes as long as the median peer's k-th
// longest. So its ordinary noise stays and only what sets it apart goes; a healthy rank gains
// nothing.
std::vector<float> mended_work(const Work& work, std::size_t rank, Window window,
                               std::span<const float> levels, std::span<const float> pace) {
  const std::vector<float> sorted = sorted_work(work, rank, window, levels);
  std::vector<float> mended(window.to - window.from, missing);
  for (std::size_t i = 0; i < mended.size(); ++i) {
    const float own = work.at(window.from + i, rank) / levels[i];
    if (std::isnan(own)) continue;
    const auto low = std::lower_bound(sorted.begin(), sorted.end(), own) - sorted.begin();
    const auto high = std::upper_bound(sorted.begin(), sorted.end(), own) - sorted.begin();
    const double at = static_cast<double>(low + high) / 2 / static_cast<double>(sorted.size());
    mended[i] = quantile(pace, at) * levels[i];
  }
  return mended;
}

// The longest own work of the ranks outside the set; NaN if there is none.
float longest_without(const Work& work, std::size_t step, const std::vector<bool>& in_set) {
  const std::int32_t last = work.last_rank[step];
  if (last >= 0 && !in_set[static_cast<std::size_t>(last)]) return work.last[step];
  float longest = missing;
  for (std::size_t r = 0; r < in_set.size(); ++r) {
    const float own = work.at(step, r);
    if (!in_set[r] && !std::isnan(own) && !(own <= longest)) longest = own;
  }
  return longest;
}

}  // namespace

std::optional<Work> measure_work(const Grid& grid, Method method) {
  Work work;
  work.method = method;
  const std::size_t steps = grid.steps.size();
  const std::size_t width = grid.ranks.size();
  work.gain.assign(width, 0);
  if (!fill_own(grid, method, work)) return std::nullopt;
  for (std::vector<float>* by_step : {&work.last, &work.second, &work.median, &work.least_wait}) {
    by_step->assign(steps, missing);
  }
  work.last_rank.assign(steps, -1);
  for (std::vector<double>* by_rank : {&work.late_gain, &work.excess, &work.significance})
    by_rank->assign(width, 0);
  for (std::vector<std::int64_t>* by_rank : {&work.seen, &work.times_last, &work.clearly_last}) {
    by_rank->assign(width, 0);
  }
  for (std::size_t s = 0; s < steps; ++s) rank_step(grid, work, s);
  measure_excess(grid, work);
  return work;
}

float peer_median(const Grid& grid, const Work& work, std::size_t step, std::size_t rank) {
  if (grid.ranks.size() >= leave_one_out_max) return work.median[step];
  std::vector<float> values;
  for (std::size_t r = 0; r < grid.ranks.size(); ++r) {
    const float own = work.at(step, r);
    if (r != rank && !std::isnan(own)) values.push_back(own);
  }
  return median_of(values);
}

std::vector<double> excess_of(const Grid& grid, const Work& work, std::size_t rank, Window window) {
  std::vector<double> excess;
  for (std::size_t s = window.from; s < window.to; ++s) {
    const double over = (static_cast<double>(work.at(s, rank)) -
                         static_cast<double>(peer_median(grid, work, s, rank))) /
                        static_cast<double>(grid.period[s]);
    excess.push_back(std::isnan(over) ? 0 : std::clamp(over, -2.0, 2.0));
  }
  return excess;
}

double what_if(const Grid& grid, const Work& work, std::span<const std::size_t> set,
               Window window) {
  std::vector<bool> in_set(grid.ranks.size(), false);
  for (const std::size_t r : set) in_set[r] = true;
  const std::vector<float> levels = levels_of(work, in_set, window);
  const std::vector<float> pace = peer_pace(work, in_set, window, levels);
  if (pace.empty()) return 0;
  std::vector<std::vector<float>> mended;
  for (const std::size_t r : set) mended.push_back(mended_work(work, r, window, levels, pace));
  double gain = 0;
  double total = 0;
  for (std::size_t s = window.from; s < window.to; ++s) {
    const auto period = static_cast<double>(grid.period[s]);
    total += period;
    float then = longest_without(work, s, in_set);
    for (const std::vector<float>& own : mended) {
      const float value = own[s - window.from];
      if (!std::isnan(value) && !(value <= then)) then = value;
    }
    const double gained = static_cast<double>(work.last[s]) - static_cast<double>(then);
    if (!std::isnan(gained)) gain += std::clamp(gained, -period, period);
  }
  return total > 0 ? gain / total : 0;
}

double significance_of(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  if (values.size() < 2) return 0;
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return mean / std::sqrt(squares / (n - 1) / n + 1e-12);
}

std::optional<std::size_t> rise_of(std::span<const double> values) {
  constexpr std::size_t least = 5;   // steps on either side
  constexpr double significant = 6;  // standard errors: the best of many places is looked for
  constexpr double before_share_max = 0.35;  // of the later excess: before, the rank was not slow
  const std::size_t n = values.size();
  if (n < 2 * least) return std::nullopt;
  double total = 0;
  double squares = 0;
  for (const double value : values) {
    total += value;
    squares += value * value;
  }
  double best = 0;
  std::size_t at = 0;
  double left = 0;
  for (std::size_t k = 1; k < n; ++k) {
    left += values[k - 1];
    if (k < least || n - k < least) continue;
    const auto a = static_cast<double>(k);
    const auto b = static_cast<double>(n - k);
    const double before = left / a;
    const double after = (total - left) / b;
    const double between = a * b / static_cast<double>(n) * (after - before) * (after - before);
    if (after > before && between > best && before < before_share_max * after) {
      best = between;
      at = k;
    }
  }
  if (at == 0) return std::nullopt;
  const double mean = total / static_cast<double>(n);
  const double within = std::max(squares - static_cast<double>(n) * mean * mean - best, 0.0);
  const double variance = within / static_cast<double>(n - 1) + 1e-12;
  if (best < significant * significant * variance) return std::nullopt;
  return at;
}

}  // namespace vetta::diagnose
