// SPDX-License-Identifier: Apache-2.0
#include "diagnose/slow_rank.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <set>

#include "diagnose/verdict_detail.h"

namespace vetta::diagnose {
namespace {

using model::CauseClass;
using model::Diagnosis;
using model::Outcome;

constexpr double together_tolerance =
    0.10;  // ranks whose steps differ by more do not step together
constexpr double communication_share =
    0.5;  // of the step, for the last to arrive: then the network is the matter
constexpr double unseen_wait_share =
    0.10;                              // the least wait that a rank that was not seen may explain
constexpr double spread_least = 0.10;  // of the step, between groups of ranks
constexpr std::size_t ratio_steps_max = 512;  // looked at for the ratios of all ranks

Diagnosis refuse(Diagnosis diagnosis, std::string reason) {
  diagnosis.outcome = Outcome::not_distinguishable;
  diagnosis.reason = std::move(reason);
  return diagnosis;
}

std::size_t world_of(const model::StepTable& table, const Grid& grid) {
  const std::size_t said = table.world_size > 0 ? static_cast<std::size_t>(table.world_size) : 0;
  std::set<std::int32_t> registered;
  for (const model::RankSteps& rank : table.ranks) registered.insert(rank.rank);
  return std::max({said, registered.size(), grid.ranks.size()});
}

double total_period(const Grid& grid, Window window) {
  double total = 0;
  for (std::size_t s = window.from; s < window.to; ++s)
    total += static_cast<double>(grid.period[s]);
  return total;
}

// Why the table cannot be judged at all; empty if it can.
std::string obstacle(const model::StepTable& table, const Grid& grid, const Options& options) {
  if (grid.ranks.empty()) return "no rank has marked a step: is the probe in the training loop?";
  if (grid.ranks.size() == 1) {
    const std::size_t world = world_of(table, grid);
    if (world == 1) return "there is a single rank: it has no peers to be compared with";
    return fmt::format("only {} of {} ranks has marks: it cannot be compared with its peers",
                       rank_text(grid.ranks[0]), world);
  }
  const auto steps = static_cast<std::int64_t>(grid.steps.size());
  const std::int64_t least = std::max<std::int64_t>(options.least_steps, 2);
  if (steps < least) {
    return fmt::format("too few steps: {} after {} of warm-up, at least {} are needed", steps,
                       grid.warm_up_steps, least);
  }
  return {};
}

// Training is synchronous where all ranks' steps take the same time in sum. Returns the worst rank
// if they do not.
struct Pace {
  std::size_t rank = 0;
  double ratio = 1;
};

Pace worst_pace(const Grid& grid) {
  constexpr float absurd = 5;  // medians; one absurd mark must not decide
  const std::size_t width = grid.ranks.size();
  std::vector<double> own(width, 0);
  std::vector<double> all(width, 0);
  for (std::size_t s = 0; s < grid.steps.size(); ++s) {
    const std::span<const Cell> row = grid.row(s);
    for (std::size_t r = 0; r < width; ++r) {
      if (std::isnan(row[r].period)) continue;
      own[r] += static_cast<double>(std::min(row[r].period, absurd * grid.period[s]));
      all[r] += static_cast<double>(grid.period[s]);
    }
  }
  Pace worst;
  for (std::size_t r = 0; r < width; ++r) {
    if (!(all[r] > 0)) continue;
    const double ratio = own[r] / all[r];
    if (std::abs(ratio - 1) > std::abs(worst.ratio - 1)) worst = {r, ratio};
  }
  return worst;
}

float median_phase(const Grid& grid, std::size_t rank, float Cell::* field) {
  std::vector<float> values;
  const std::size_t take = std::min(grid.steps.size(), ratio_steps_max);
  for (std::size_t i = 0; i < take; ++i) {
    const float value = grid.row(i * grid.steps.size() / take)[rank].*field;
    if (!std::isnan(value)) values.push_back(value);
  }
  return median_of(values);
}

// Ratio of each value to the median of the others; empty where missing or where the others have
// none.
std::vector<std::optional<double>> against_peers(const std::vector<float>& values) {
  std::vector<float> sorted;
  for (const float value : values) {
    if (!std::isnan(value)) sorted.push_back(value);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::optional<double>> ratios(values.size());
  if (sorted.size() < 2) return ratios;
  std::vector<float> others(sorted.size() - 1);
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (std::isnan(values[r])) continue;
    const auto skip = std::lower_bound(sorted.begin(), sorted.end(), values[r]) - sorted.begin();
    const auto pick = [&](std::size_t i) {
      return sorted[i < static_cast<std::size_t>(skip) ? i : i + 1];
    };
    const std::size_t rest = others.size();
    const float median = rest % 2 == 1 ? pick(rest / 2) : (pick(rest / 2 - 1) + pick(rest / 2)) / 2;
    if (median > 0) ratios[r] = static_cast<double>(values[r]) / static_cast<double>(median);
  }
  return ratios;
}

void describe_ranks(const Grid& grid, const Work* work, Diagnosis& diagnosis) {
  const std::size_t width = grid.ranks.size();
  diagnosis.ranks.resize(width);
  for (std::size_t r = 0; r < width; ++r) {
    diagnosis.ranks[r].rank = grid.ranks[r].rank;
    diagnosis.ranks[r].node = grid.ranks[r].node;
    diagnosis.ranks[r].phases.resize(model::phase_count);
  }
  std::vector<float> values(width);
  for (std::size_t p = 0; p < model::phase_count; ++p) {
    for (std::size_t r = 0; r < width; ++r) values[r] = median_phase(grid, r, phase_fields[p]);
    const auto ratios = against_peers(values);
    for (std::size_t r = 0; r < width; ++r) diagnosis.ranks[r].phases[p] = ratios[r];
  }
  if (work == nullptr || grid.steps.empty()) return;
  const std::size_t take = std::min(grid.steps.size(), ratio_steps_max);
  std::vector<float> own;
  for (std::size_t r = 0; r < width; ++r) {
    own.clear();
    for (std::size_t i = 0; i < take; ++i) {
      const float value = work->at(i * grid.steps.size() / take, r);
      if (!std::isnan(value)) own.push_back(value);
    }
    values[r] = median_of(own);
    diagnosis.ranks[r].share_last =
        static_cast<double>(work->times_last[r]) / static_cast<double>(grid.steps.size());
  }
  const auto ratios = against_peers(values);
  for (std::size_t r = 0; r < width; ++r) diagnosis.ranks[r].own = ratios[r].value_or(1);
}

double method_trust(Method method) {
  switch (method) {
    case Method::measured: return 1;
    case Method::hidden: return 0.8;
    case Method::outside: return 0.7;
  }
  return 0;
}

double persistence_of(const Grid& grid, const Work& work, const Culprit& culprit) {
  std::int64_t held = 0;
  for (std::size_t s = culprit.window.from; s < culprit.window.to; ++s) {
    const double margin = clear_margin * static_cast<double>(grid.period[s]);
    if (culprit.set.size() == 1) {
      held += work.last_rank[s] == static_cast<std::int32_t>(culprit.set[0]) &&
              static_cast<double>(work.last[s]) - static_cast<double>(work.second[s]) >= margin;
      continue;
    }
    const bool in_set = std::find(culprit.set.begin(), culprit.set.end(),
                                  static_cast<std::size_t>(work.last_rank[s])) != culprit.set.end();
    held += work.last_rank[s] >= 0 && in_set &&
            static_cast<double>(work.last[s]) - static_cast<double>(work.median[s]) >= margin;
  }
  return static_cast<double>(held) / static_cast<double>(culprit.window.to - culprit.window.from);
}

// The first step from which it holds the others: the rise of its excess, else the first step in
// which it was slow.
std::int64_t since_step(const Grid& grid, const Work& work, const Culprit& culprit) {
  const std::vector<double> excess = excess_of(grid, work, culprit.set[0], culprit.window);
  if (const auto rise = rise_of(excess)) return grid.steps[culprit.window.from + *rise].step;
  for (std::size_t i = 0; i < excess.size(); ++i) {
    if (excess[i] >= clear_margin) return grid.steps[culprit.window.from + i].step;
  }
  return grid.steps[culprit.window.from].step;
}

Diagnosis name_culprit(const Grid& grid, const Work& work, const Culprit& culprit,
                       std::size_t world, Diagnosis diagnosis) {
  const Cause cause = find_cause(grid, work, culprit);
  const GridRank& rank = grid.ranks[culprit.set[0]];
  diagnosis.outcome = Outcome::slow_rank;
  diagnosis.rank = rank.rank;
  diagnosis.node = rank.node;
  diagnosis.phase = cause.phase;
  diagnosis.cause = cause.cause;
  diagnosis.lost_share = culprit.share;
  const double lost = culprit.share * total_period(grid, culprit.window);
  diagnosis.lost_time = to_duration(lost);
  diagnosis.lost_rank_time = to_duration(lost * static_cast<double>(world - culprit.set.size()));
  diagnosis.persistence = persistence_of(grid, work, culprit);
  diagnosis.since_step = since_step(grid, work, culprit);
  diagnosis.steps = static_cast<std::int64_t>(culprit.window.to - culprit.window.from);
  const double certain = culprit.significance / (culprit.significance + 2);
  const double seen = static_cast<double>(grid.ranks.size()) / static_cast<double>(world);
  diagnosis.confidence =
      std::clamp(certain * std::sqrt(seen) * method_trust(work.method), 0.05, 0.99);
  diagnosis.reason = reason_of(grid, culprit, cause);
  diagnosis.evidence = evidence_of(grid, work, culprit, cause, diagnosis);
  return diagnosis;
}

// Shares of the step that the last rank to arrive still spends in collectives: the median, and
// whether it rose.
struct Communication {
  double share = 0;
  std::optional<std::size_t> rise;
  double before = 0, after = 0;  // medians
};

Communication communication_of(const Grid& grid, const Work& work) {
  std::vector<float> shares;
  std::vector<float> waits;
  std::vector<double> series;
  std::vector<float> periods = grid.period;
  const float typical = median_of(periods);
  for (std::size_t s = 0; s < grid.steps.size(); ++s) {
    if (std::isnan(work.least_wait[s])) return {};
    shares.push_back(work.least_wait[s] / grid.period[s]);
    waits.push_back(work.least_wait[s] / typical);
    series.push_back(std::min(static_cast<double>(waits.back()), 2.0));
  }
  Communication communication;
  communication.share = static_cast<double>(median_of(shares));
  communication.rise = rise_of(series);
  if (!communication.rise) return communication;
  const std::span<float> all(waits);
  communication.before = static_cast<double>(median_of(all.first(*communication.rise)));
  communication.after = static_cast<double>(median_of(all.subspan(*communication.rise)));
  return communication;
}

// Several ranks are slow, too many to be the exception; names them, or nothing.
std::string groups_text(const Grid& grid, const Work& work) {
  std::vector<std::size_t> slow;
  const double most = *std::max_element(work.excess.begin(), work.excess.end());
  for (std::size_t r = 0; r < work.excess.size(); ++r) {
    if (work.excess[r] >= 0.5 * most && work.significance[r] >= 3) slow.push_back(r);
  }
  if (most < spread_least || slow.size() < 2 || slow.size() * 4 < grid.ranks.size()) return {};
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(slow.size(), 8); ++i) {
    names += fmt::format("{}{}", i > 0 ? ", " : "", grid.ranks[slow[i]].rank);
  }
  return fmt::format(
      "{} of {} ranks ({}{}) work longer than the others by up to {:.0f} % of the step: too many "
      "to be one rank's "
      "fault; uneven nodes, uneven shares of the data or pipeline stages look like this",
      slow.size(), grid.ranks.size(), names, slow.size() > 8 ? ", …" : "", 100 * most);
}

Diagnosis name_nobody(const Grid& grid, const Work& work, const Search& search, std::size_t world,
                      const Options& options, Diagnosis diagnosis) {
  const std::string best = rank_text(grid.ranks[search.best_rank]);
  if (search.best_share >= options.least_share) {
    return refuse(
        std::move(diagnosis),
        fmt::format(
            "{} may hold the others ({:.0f} % of step time), but its steps vary too much for {} "
            "steps to tell",
            best, 100 * search.best_share, grid.steps.size()));
  }
  if (std::string groups = groups_text(grid, work); !groups.empty()) {
    return refuse(std::move(diagnosis), std::move(groups));
  }
  const Communication communication = communication_of(grid, work);
  const bool waits_are_measured = work.method == Method::measured;
  if (waits_are_measured && world > grid.ranks.size() && communication.share >= unseen_wait_share) {
    return refuse(
        std::move(diagnosis),
        fmt::format(
            "all of the {} ranks seen wait for at least {:.0f} % of the step; one of the {} ranks "
            "without marks, or the network, may be the reason",
            grid.ranks.size(), 100 * communication.share, world - grid.ranks.size()));
  }
  if (waits_are_measured && communication.rise &&
      communication.after >= 1.5 * communication.before &&
      communication.after - communication.before >= options.least_share) {
    diagnosis.cause = CauseClass::communication;
    const std::int64_t since = grid.steps[*communication.rise].step;
    diagnosis.since_step = since;
    return refuse(
        std::move(diagnosis),
        fmt::format("since step {} collectives take {:.1f} times as long for every rank, the last "
                    "to arrive "
                    "included: the network or a link slowed down, marks cannot tell which",
                    since, communication.after / std::max(communication.before, 1e-9)));
  }
  diagnosis.outcome = Outcome::nothing_wrong;
  const double share = std::max(search.best_share, 0.0);
  diagnosis.confidence =
      std::clamp(method_trust(work.method) * (1 - share / (2 * options.least_share)) *
                     static_cast<double>(grid.ranks.size()) / static_cast<double>(world),
                 0.05, 0.99);
  diagnosis.reason = "no rank holds the others";
  if (share > 0.001) {
    diagnosis.evidence.push_back(
        fmt::format("the most to gain from one rank at its peers' pace is {:.1f} % of step "
                    "time ({}); one is named from {:.0f} %",
                    100 * share, best, 100 * options.least_share));
  }
  if (waits_are_measured && communication.share >= communication_share) {
    diagnosis.cause = CauseClass::communication;
    diagnosis.reason = fmt::format(
        "no rank holds the others, but {:.0f} % of each step goes into collectives even for the "
        "last rank to arrive: "
        "network, message size or too little work a step",
        100 * communication.share);
  } else if (waits_are_measured) {
    diagnosis.evidence.push_back(
        fmt::format("the last rank to arrive spends {:.1f} % of its step in collectives",
                    100 * communication.share));
  }
  return diagnosis;
}

// Where the peers' waiting for this rank shows up in their measured allreduce, that measure told
// all there is: work that is estimated another way must not overrule it.
bool explains_waits(const Grid& grid, const Work& work, const Culprit& culprit) {
  if (work.method == Method::measured) return true;
  const Cause cause = find_cause(grid, work, culprit);
  for (const PhaseTimes& times : cause.phases) {
    if (times.phase != model::Phase::allreduce) continue;
    return times.peers - times.culprit < 0.3 * (cause.own_culprit - cause.own_peers);
  }
  return true;
}

bool measures_forward(const Grid& grid) {
  return std::any_of(grid.cells.begin(), grid.cells.end(),
                     [](const Cell& cell) { return !std::isnan(cell.forward); });
}

Diagnosis judge(const Grid& grid, const Options& options, std::size_t world, Diagnosis diagnosis) {
  std::optional<Work> first;
  Search first_search;
  for (const Method method : {Method::measured, Method::hidden, Method::outside}) {
    std::optional<Work> work = measure_work(grid, method);
    if (!work) continue;
    Search search = find_culprit(grid, *work, options);
    if (search.culprit && explains_waits(grid, *work, *search.culprit)) {
      describe_ranks(grid, &*work, diagnosis);
      return name_culprit(grid, *work, *search.culprit, world, std::move(diagnosis));
    }
    if (first) continue;
    first = std::move(work);
    first_search = std::move(search);
  }
  describe_ranks(grid, first ? &*first : nullptr, diagnosis);
  if (!first || first->method == Method::outside) {
    return refuse(std::move(diagnosis),
                  "the marks carry no phases and all ranks' steps take equally long, as they do "
                  "when they wait for "
                  "each other: mark allreduce, or data and forward, to tell who waits for whom");
  }
  if (first->method == Method::hidden && !measures_forward(grid)) {
    return refuse(std::move(diagnosis),
                  "only the loader was timed, and it takes equally long on all ranks: mark "
                  "allreduce, or forward, to "
                  "see compute");
  }
  diagnosis = name_nobody(grid, *first, first_search, world, options, std::move(diagnosis));
  if (first->method == Method::hidden) {
    diagnosis.evidence.emplace_back(
        "allreduce was not measured: a rank that is slow in backward alone cannot be seen");
  }
  return diagnosis;
}

// Whether most of the long steps that were set aside are long because of the rank that was named:
// then they are its bursts, not checkpoints.
bool holds_long_steps(const model::StepTable& table, const Options& options,
                      const Diagnosis& diagnosis) {
  constexpr double always =
      0.6;  // of the steps: such a rank has no bursts, and its long steps are something else
  if (diagnosis.outcome != Outcome::slow_rank || diagnosis.persistence >= always) return false;
  const Grid grid = build_grid(table, options, LongSteps::keep);
  const std::optional<Work> work = measure_work(grid, Method::measured);
  if (!work) return false;
  std::vector<float> periods = grid.period;
  const float median = median_of(periods);
  std::size_t long_steps = 0;
  std::size_t held = 0;
  for (std::size_t s = 0; s < grid.steps.size(); ++s) {
    if (!(grid.period[s] > 3 * median)) continue;
    ++long_steps;
    const std::int32_t last = work->last_rank[s];
    held += last >= 0 && grid.ranks[static_cast<std::size_t>(last)].rank == diagnosis.rank;
  }
  return 3 * held >= 2 * long_steps;
}

Diagnosis diagnose_with(const model::StepTable& table, const Options& options, LongSteps mode) {
  const Grid grid = build_grid(table, options, mode);
  const std::size_t world = world_of(table, grid);
  Diagnosis diagnosis;
  diagnosis.steps = static_cast<std::int64_t>(grid.steps.size());
  std::vector<float> periods = grid.period;
  if (!periods.empty())
    diagnosis.median_step = to_duration(static_cast<double>(median_of(periods)));
  if (std::string reason = obstacle(table, grid, options); !reason.empty()) {
    diagnosis = refuse(std::move(diagnosis), std::move(reason));
    describe_ranks(grid, nullptr, diagnosis);
  } else if (const Pace pace = worst_pace(grid); std::abs(pace.ratio - 1) > together_tolerance) {
    describe_ranks(grid, nullptr, diagnosis);
    diagnosis =
        refuse(std::move(diagnosis),
               fmt::format(
                   "the ranks do not step together: a step of {} takes {:.2f} times as long as the "
                   "median rank's, so nobody waits for it within a step",
                   rank_text(grid.ranks[pace.rank]), pace.ratio));
  } else {
    diagnosis = judge(grid, options, world, std::move(diagnosis));
    if (mode == LongSteps::set_aside && grid.long_steps > 0 &&
        holds_long_steps(table, options, diagnosis)) {
      return diagnose_with(table, options, LongSteps::keep);
    }
  }
  add_left_out(grid, static_cast<std::int32_t>(world), diagnosis.evidence);
  return diagnosis;
}

}  // namespace

model::Diagnosis diagnose(const model::StepTable& table, const Options& options) {
  return diagnose_with(table, options, LongSteps::set_aside);
}

}  // namespace vetta::diagnose
