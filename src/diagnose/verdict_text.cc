// SPDX-License-Identifier: Apache-2.0
// The sentences of a diagnosis, with figures.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "diagnose/verdict_detail.h"

namespace vetta::diagnose {
namespace {

std::string_view phase_text(const PhaseTimes& times) {
  return times.phase ? model::name(*times.phase) : "time that no phase covers";
}

std::string cause_text(const Cause& cause) {
  if (cause.whole_process) return "all of its work is slower, compute and loader alike";
  if (!cause.phase) return "where it loses the time was not measured";
  switch (*cause.phase) {
    case model::Phase::data: return "it waits for its data";
    case model::Phase::forward:
    case model::Phase::backward:
      return fmt::format("its {} computes slower", model::name(*cause.phase));
    case model::Phase::optimizer: return "its optimizer takes longer";
    case model::Phase::allreduce: break;
  }
  return "its collectives take longer";
}

std::string set_text(const Grid& grid, const std::vector<std::size_t>& set) {
  std::string names;
  bool one_node = true;
  std::vector<std::int32_t> ranks;
  for (const std::size_t r : set) {
    ranks.push_back(grid.ranks[r].rank);
    one_node = one_node && grid.ranks[r].node == grid.ranks[set[0]].node;
  }
  std::sort(ranks.begin(), ranks.end());
  const std::size_t shown = std::min<std::size_t>(ranks.size(), 8);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i > 0 && i + 1 == shown && shown == ranks.size();
    names += fmt::format("{}{}", i == 0 ? "" : is_last ? " and " : ", ", ranks[i]);
  }
  if (shown < ranks.size()) names += fmt::format(" and {} more", ranks.size() - shown);
  const std::string& node = grid.ranks[set[0]].node;
  return one_node && !node.empty() ? fmt::format("ranks {} on {}", names, node)
                                   : fmt::format("ranks {}", names);
}

std::string work_text(const Work& work, const Culprit& culprit, const Grid& grid,
                      const Cause& cause) {
  const char* before = work.method == Method::measured ? "before its all-reduce"
                       : work.method == Method::hidden ? "in the phases that do not wait for others"
                                                       : "between its marks' start and end";
  return fmt::format("{} works {} a step {}, its peers {} (median): {:.2f} times as long",
                     rank_text(grid.ranks[culprit.set[0]]), time_text(cause.own_culprit), before,
                     time_text(cause.own_peers),
                     cause.own_culprit / std::max(cause.own_peers, 1e-9));
}

void add_phases(const Cause& cause, std::vector<std::string>& evidence) {
  const double extra = cause.own_culprit - cause.own_peers;
  for (const PhaseTimes& times : cause.phases) {
    if (times.phase && *times.phase == model::Phase::allreduce) {
      if (times.peers > times.culprit) {
        evidence.push_back(
            fmt::format("in collectives it spends {}, its peers {}: they wait for it",
                        time_text(times.culprit), time_text(times.peers)));
      }
      continue;
    }
    if (times.culprit - times.peers < 0.1 * extra) continue;
    evidence.push_back(fmt::format("{}: {} a step against {} of its peers", phase_text(times),
                                   time_text(times.culprit), time_text(times.peers)));
  }
}

// Whether it still holds the others: bursts and what is over are told.
void add_course(const Grid& grid, const Work& work, const Culprit& culprit,
                std::vector<std::string>& evidence) {
  const std::vector<double> excess = excess_of(grid, work, culprit.set[0], culprit.window);
  const std::size_t n = excess.size();
  const auto slow = [](double value) { return value >= clear_margin; };
  const auto held = static_cast<double>(std::count_if(excess.begin(), excess.end(), slow)) /
                    static_cast<double>(n);
  const std::size_t tail = std::max<std::size_t>(n / 5, std::min<std::size_t>(n, 10));
  const auto late = static_cast<double>(std::count_if(
                        excess.end() - static_cast<std::ptrdiff_t>(tail), excess.end(), slow)) /
                    static_cast<double>(tail);
  if (const auto rise = rise_of(excess)) {
    evidence.push_back(
        fmt::format("it began at step {}", grid.steps[culprit.window.from + *rise].step));
  } else if (culprit.window.from > 0) {
    evidence.push_back(fmt::format("it began at step {}; the {} steps before it are not counted",
                                   grid.steps[culprit.window.from].step, culprit.window.from));
  }
  if (late < 0.25 * held) {
    const auto last = std::find_if(excess.rbegin(), excess.rend(), slow);
    const auto at = static_cast<std::size_t>(excess.rend() - last) - 1;
    evidence.push_back(fmt::format("it is over: step {} was the last in which it was slow",
                                   grid.steps[culprit.window.from + at].step));
  } else if (held < 0.6) {
    evidence.push_back(
        fmt::format("it comes and goes: the rank was slow in {:.0f} % of the steps", 100 * held));
  }
}

}  // namespace

std::string rank_text(const GridRank& rank) {
  const std::string who =
      rank.rank >= 0 ? fmt::format("rank {}", rank.rank) : "a rank without a number";
  return rank.node.empty() ? who : fmt::format("{} on {}", who, rank.node);
}

Duration to_duration(double nanoseconds) {
  constexpr double longest = 9.0e18;
  if (std::isnan(nanoseconds)) return Duration{};
  return Duration(static_cast<std::int64_t>(std::clamp(nanoseconds, -longest, longest)));
}

std::string time_text(double nanoseconds) {
  return human(to_duration(nanoseconds));
}

std::string reason_of(const Grid& grid, const Culprit& culprit, const Cause& cause) {
  const double percent = 100 * culprit.share;
  if (culprit.set.size() > 1) {
    return fmt::format(
        "{} are slow together and hold the others: {:.0f} % of step time is lost to them; {} is "
        "the "
        "slowest: {}",
        set_text(grid, culprit.set), percent, rank_text(grid.ranks[culprit.set[0]]),
        cause_text(cause));
  }
  return fmt::format("{} holds the others: {:.0f} % of step time is lost waiting for it; {}",
                     rank_text(grid.ranks[culprit.set[0]]), percent, cause_text(cause));
}

std::vector<std::string> evidence_of(const Grid& grid, const Work& work, const Culprit& culprit,
                                     const Cause& cause, const model::Diagnosis& diagnosis) {
  std::vector<std::string> evidence;
  evidence.push_back(work_text(work, culprit, grid, cause));
  add_phases(cause, evidence);
  evidence.push_back(fmt::format("{} was the last by a clear margin in {:.0f} % of {} steps",
                                 culprit.set.size() > 1 ? "one of them" : "it",
                                 100 * diagnosis.persistence, diagnosis.steps));
  const double step = static_cast<double>(diagnosis.median_step.count());
  evidence.push_back(
      fmt::format("at its peers' pace the step of {} would take about {}: {} lost over {} steps, "
                  "{} summed over the ranks that "
                  "waited",
                  time_text(step), time_text(step * (1 - culprit.share)),
                  human(diagnosis.lost_time), diagnosis.steps, human(diagnosis.lost_rank_time)));
  add_course(grid, work, culprit, evidence);
  if (work.method == Method::hidden) {
    evidence.push_back(
        work.backward_per_forward > 0
            ? fmt::format(
                  "allreduce was not measured: own backward work is estimated as {:.1f} times "
                  "forward",
                  work.backward_per_forward)
            : std::string("waiting lies hidden in backward or in the step's rest: the loss is a "
                          "lower bound"));
  }
  return evidence;
}

void add_left_out(const Grid& grid, std::int32_t world_size, std::vector<std::string>& evidence) {
  std::string left;
  const auto add = [&](std::int64_t count, std::string_view what) {
    if (count > 0) left += fmt::format("{}{} {}", left.empty() ? "" : ", ", count, what);
  };
  add(grid.warm_up_steps, "of warm-up");
  add(grid.long_steps, "longer than three medians (checkpoint, evaluation or pause)");
  add(grid.sparse_steps, "that fewer than half of the ranks marked");
  if (!left.empty()) evidence.push_back(fmt::format("steps left out: {}", left));
  if (grid.unusable_marks > 0) {
    evidence.push_back(
        fmt::format("{} marks without a possible duration were left out", grid.unusable_marks));
  }
  const auto seen = static_cast<std::int32_t>(grid.ranks.size());
  if (!grid.ranks.empty() && seen < world_size) {
    evidence.push_back(fmt::format("{} of {} ranks have marks", seen, world_size));
  }
}

}  // namespace vetta::diagnose
