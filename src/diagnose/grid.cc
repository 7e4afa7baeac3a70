// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "diagnose/grid_detail.h"

namespace vetta::diagnose {
namespace {

constexpr double long_step_factor =
    3;  // a step this much longer than the median is a checkpoint or a pause …
constexpr double long_step_share_max = 0.05;  // … as long as such steps are rare
constexpr double phase_slack =
    1.05;  // a phase longer than its step by more than this was not measured

using model::Mark;
using model::Phase;

struct KeyedMark {
  StepKey key;
  const Mark* mark = nullptr;
};

// One rank's usable marks in the order of their keys: the table's own where they are so already,
// which is the usual case, else sorted ones.
struct RankMarks {
  GridRank rank;
  std::span<const Mark> direct;
  std::vector<KeyedMark> keyed;

  [[nodiscard]] std::size_t size() const { return keyed.empty() ? direct.size() : keyed.size(); }

  [[nodiscard]] KeyedMark operator[](std::size_t i) const {
    return keyed.empty() ? KeyedMark{{0, direct[i].step}, &direct[i]} : keyed[i];
  }
};

bool is_usable(const Mark& mark) {
  constexpr std::int64_t longest = std::int64_t{1} << 61;  // 73 years: sums of three stay in range
  return mark.duration.count() > 0 && mark.duration.count() < longest;
}

double start_of(const Mark& mark) {
  return static_cast<double>(mark.start.time_since_epoch().count());
}

auto order_of(const Mark* mark) {
  return std::tuple(mark->step, mark->start, mark->sequence, mark->duration);
}

// Orders one rank's marks by step and time, drops the same mark seen twice, counts repeated step
// numbers.
std::vector<KeyedMark> key_marks(std::vector<const Mark*> marks) {
  const auto before = [](const Mark* a, const Mark* b) { return order_of(a) < order_of(b); };
  if (!std::is_sorted(marks.begin(), marks.end(), before))
    std::sort(marks.begin(), marks.end(), before);
  std::vector<KeyedMark> keyed;
  keyed.reserve(marks.size());
  bool repeats = false;
  for (const Mark* mark : marks) {
    StepKey key{0, mark->step};
    if (!keyed.empty() && keyed.back().key.step == mark->step) {
      const Mark* last = keyed.back().mark;
      if (last->start == mark->start && last->duration == mark->duration) continue;
      key.occurrence = keyed.back().key.occurrence + 1;
      repeats = true;
    }
    keyed.push_back({key, mark});
  }
  if (repeats) {
    std::sort(keyed.begin(), keyed.end(),
              [](const KeyedMark& a, const KeyedMark& b) { return a.key < b.key; });
  }
  return keyed;
}

bool is_in_order(std::span<const Mark> marks) {
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (!is_usable(marks[i]) || (i > 0 && marks[i - 1].step >= marks[i].step)) return false;
  }
  return !marks.empty();
}

std::vector<RankMarks> collect(const model::StepTable& table, std::int64_t& unusable) {
  std::vector<const model::RankSteps*> by_rank;
  by_rank.reserve(table.ranks.size());
  for (const model::RankSteps& rank : table.ranks) by_rank.push_back(&rank);
  std::stable_sort(by_rank.begin(), by_rank.end(), [](const auto* a, const auto* b) {
    return std::tie(a->rank, a->node) < std::tie(b->rank, b->node);
  });
  std::vector<RankMarks> ranks;
  for (std::size_t i = 0; i < by_rank.size();) {
    const model::RankSteps& first = *by_rank[i];
    std::size_t end =
        i + 1;  // the same rank registered twice is one rank; unknown ranks (-1) stay apart
    while (end < by_rank.size() && first.rank >= 0 && by_rank[end]->rank == first.rank) ++end;
    RankMarks rank{{first.rank, first.node}, {}, {}};
    if (end == i + 1 && is_in_order(first.marks)) {
      rank.direct = first.marks;
      i = end;
    } else {
      std::vector<const Mark*> marks;
      for (; i < end; ++i) {
        for (const Mark& mark : by_rank[i]->marks) {
          if (is_usable(mark)) {
            marks.push_back(&mark);
          } else {
            ++unusable;
          }
        }
      }
      rank.keyed = key_marks(std::move(marks));
    }
    if (rank.size() > 0) ranks.push_back(std::move(rank));
  }
  return ranks;
}

// The union of all ranks' steps; the usual case, that all have those of the longest, costs one
// comparison a mark.
std::vector<StepKey> all_steps(const std::vector<RankMarks>& ranks) {
  std::vector<StepKey> base;
  if (ranks.empty()) return base;
  const auto longest = std::max_element(
      ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  base.reserve(longest->size());
  for (std::size_t i = 0; i < longest->size(); ++i) base.push_back((*longest)[i].key);
  std::vector<StepKey> extra;
  for (const RankMarks& rank : ranks) {
    auto at = base.begin();
    for (std::size_t i = 0; i < rank.size(); ++i) {
      const KeyedMark mark = rank[i];
      while (at != base.end() && *at < mark.key) ++at;
      if (at == base.end() || mark.key < *at) extra.push_back(mark.key);
    }
  }
  base.insert(base.end(), extra.begin(), extra.end());
  std::sort(base.begin(), base.end());
  base.erase(std::unique(base.begin(), base.end()), base.end());
  return base;
}

// Keeps the steps that at least half of the ranks marked, without the first ones.
std::vector<StepKey> judged_steps(const std::vector<RankMarks>& ranks, const Options& options,
                                  Grid& grid) {
  const std::vector<StepKey> all = all_steps(ranks);
  std::vector<std::uint32_t> seen(all.size(), 0);
  for (const RankMarks& rank : ranks) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < rank.size(); ++i) {
      const KeyedMark mark = rank[i];
      while (all[at] < mark.key) ++at;
      ++seen[at];
    }
  }
  const std::size_t least = std::max<std::size_t>(ranks.size() > 1 ? 2 : 1, (ranks.size() + 1) / 2);
  std::vector<StepKey> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (seen[i] >= least)
      kept.push_back(all[i]);
    else
      ++grid.sparse_steps;
  }
  const auto size = static_cast<std::int64_t>(kept.size());
  grid.warm_up_steps = std::clamp<std::int64_t>(options.warm_up_steps, 0, size);
  kept.erase(kept.begin(), kept.begin() + grid.warm_up_steps);
  return kept;
}

float phase_of(const Mark& mark, Phase phase, double period) {
  const std::int64_t ns = mark.phases[static_cast<std::size_t>(phase)].count();
  if (ns < 0 || static_cast<double>(ns) > phase_slack * period) return missing;
  return static_cast<float>(ns);
}

bool follows(std::int64_t a, std::int64_t b) {
  return a < b && static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a) == 1;
}

Cell cell_of(const KeyedMark& keyed, const KeyedMark* before) {
  const Mark& mark = *keyed.mark;
  const auto duration = static_cast<double>(mark.duration.count());
  double gap = 0;
  if (before != nullptr && follows(before->key.step, mark.step)) {
    gap = start_of(mark) - start_of(*before->mark) -
          static_cast<double>(before->mark->duration.count());
    if (!(gap > 0)) gap = 0;
  }
  const double period = duration + gap;
  return {static_cast<float>(period),
          static_cast<float>(duration),
          phase_of(mark, Phase::data, period),
          phase_of(mark, Phase::forward, period),
          phase_of(mark, Phase::backward, period),
          phase_of(mark, Phase::optimizer, period),
          phase_of(mark, Phase::allreduce, period)};
}

void fill_cells(const std::vector<RankMarks>& ranks, Grid& grid) {
  constexpr Cell none{missing, missing, missing, missing, missing, missing, missing};
  grid.cells.assign(grid.steps.size() * ranks.size(), none);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankMarks& marks = ranks[r];
    std::size_t at = 0;
    for (std::size_t i = 0; i < marks.size() && at < grid.steps.size(); ++i) {
      const KeyedMark mark = marks[i];
      while (at < grid.steps.size() && grid.steps[at] < mark.key) ++at;
      if (at == grid.steps.size() || mark.key < grid.steps[at]) continue;
      const KeyedMark before = i > 0 ? marks[i - 1] : KeyedMark{};
      grid.cells[at * ranks.size() + r] = cell_of(mark, i > 0 ? &before : nullptr);
    }
  }
}

void measure_periods(Grid& grid) {
  std::vector<float> scratch;
  grid.period.resize(grid.steps.size());
  for (std::size_t s = 0; s < grid.steps.size(); ++s) {
    scratch.clear();
    for (const Cell& cell : grid.row(s)) {
      if (!std::isnan(cell.period)) scratch.push_back(cell.period);
    }
    grid.period[s] = median_of(scratch);
  }
}

void drop_steps(Grid& grid, double limit) {
  std::size_t to = 0;
  const std::size_t width = grid.ranks.size();
  for (std::size_t from = 0; from < grid.steps.size(); ++from) {
    if (static_cast<double>(grid.period[from]) > limit) continue;
    if (to != from) {
      grid.steps[to] = grid.steps[from];
      grid.period[to] = grid.period[from];
      std::copy_n(grid.cells.begin() + static_cast<std::ptrdiff_t>(from * width), width,
                  grid.cells.begin() + static_cast<std::ptrdiff_t>(to * width));
    }
    ++to;
  }
  grid.steps.resize(to);
  grid.period.resize(to);
  grid.cells.resize(to * width);
}

// The longest steps count as the 95th percentile, in proportion: one pause must not outweigh a
// hundred steps.
void cap_steps(Grid& grid, double limit) {
  std::vector<float> sorted = grid.period;
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) * 95 / 100);
  std::nth_element(sorted.begin(), at, sorted.end());
  const float cap = std::max(static_cast<float>(limit), *at);
  const std::size_t width = grid.ranks.size();
  for (std::size_t s = 0; s < grid.steps.size(); ++s) {
    if (!(grid.period[s] > cap)) continue;
    const float scale = cap / grid.period[s];
    grid.period[s] = cap;
    for (std::size_t i = s * width; i < (s + 1) * width; ++i) {
      Cell& cell = grid.cells[i];
      cell = {cell.period * scale,   cell.duration * scale, cell.data * scale,
              cell.forward * scale,  cell.backward * scale, cell.optimizer * scale,
              cell.allreduce * scale};
    }
  }
}

// Checkpoints, evaluations and pauses: steps longer than three medians are set aside where they are
// rare, else capped.
void tame_long_steps(Grid& grid, LongSteps mode) {
  std::vector<float> sorted = grid.period;
  const double limit = long_step_factor * static_cast<double>(median_of(sorted));
  const auto is_long = [&](float period) { return static_cast<double>(period) > limit; };
  const auto count = std::count_if(grid.period.begin(), grid.period.end(), is_long);
  if (count == 0) return;
  const double most = std::max(1.0, long_step_share_max * static_cast<double>(grid.period.size()));
  if (mode == LongSteps::keep || static_cast<double>(count) > most) return cap_steps(grid, limit);
  grid.long_steps = count;
  drop_steps(grid, limit);
}

}  // namespace

float median_of(std::span<float> values) {
  if (values.empty()) return missing;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

Grid build_grid(const model::StepTable& table, const Options& options, LongSteps mode) {
  Grid grid;
  const std::vector<RankMarks> ranks = collect(table, grid.unusable_marks);
  for (const RankMarks& rank : ranks) grid.ranks.push_back(rank.rank);
  grid.steps = judged_steps(ranks, options, grid);
  fill_cells(ranks, grid);
  measure_periods(grid);
  tame_long_steps(grid, mode);
  return grid;
}

}  // namespace vetta::diagnose
