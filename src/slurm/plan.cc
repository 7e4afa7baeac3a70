// SPDX-License-Identifier: Apache-2.0
#include "slurm/plan.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace vetta::slurm {
namespace {

/// A doubling for each failure in a row, from `base` up to `most`.
Duration backed_off(Duration base, int failures, Duration most) {
  if (failures <= 0) return base;
  const double factor = std::pow(2.0, std::min(failures, 20));
  return std::min(most, from_seconds(seconds(base) * factor));
}

/// sdiag and partitions change slowly: each tenth round, between half a minute and ten minutes.
Duration slow_period(const PollState& state, const PollLimits& limits) {
  return std::clamp<Duration>(pause_of(state, limits) * 10, std::chrono::seconds(30),
                              std::chrono::minutes(10));
}

bool is_due(const std::optional<Duration>& last, Duration period, Duration at) {
  return !last || at - *last >= period;
}

struct Candidate {
  Question question;
  bool wanted;
  int rank;  ///< lower comes first
};

}  // namespace

int rpcs_of(Question question) {
  switch (question) {
    case Question::accounting: return 0;  // goes to slurmdbd
    case Question::partitions:            // PARTITION_INFO
    case Question::sdiag: return 1;       // STATS_INFO
    case Question::nodes:                 // NODE_INFO, PARTITION_INFO
    case Question::jobs:                  // JOB_INFO, PARTITION_INFO
    case Question::allocations:           // JOB_INFO, NODE_INFO
    case Question::cluster: return 2;     // BUILD_INFO, PING
  }
  return 0;
}

double largeness(std::size_t jobs, const PollLimits& limits) {
  const auto small = static_cast<double>(std::max<std::size_t>(limits.jobs_small, 1));
  const auto large = std::max(static_cast<double>(limits.jobs_large), small + 1);
  const auto count = std::clamp(static_cast<double>(jobs), small, large);
  return std::log(count / small) / std::log(large / small);
}

void note_failure(PollState& state, bool is_timeout) {
  if (state.is_timeout != is_timeout) state.failures = 0;
  ++state.failures;
  state.is_timeout = is_timeout;
}

Duration pause_of(const PollState& state, const PollLimits& limits) {
  // The time that a failed round took is the client's own patience, not the controller's work.
  if (state.failures > 0 && state.is_timeout)
    return backed_off(limits.pause_timeout, state.failures - 1, limits.pause_max);
  if (state.failures > 0)
    return backed_off(limits.pause_min, state.failures, limits.pause_absent_max);
  const double share = largeness(state.jobs, limits);
  const double fast = seconds(limits.pause_min);
  // As if every round were as dear as one may be: a cheap round must not bring the next one nearer.
  const int dearest = std::max(state.round_rpcs, limits.rpcs_per_round_max);
  const double within_budget =
      std::max(fast, dearest * 60.0 / std::max(limits.rpcs_per_minute_max, 0.01));
  double pause = std::pow(fast, 1 - share) * std::pow(within_budget, share);
  pause = std::max(pause, seconds(state.round_took) / std::max(limits.busy_share, 0.001));
  if (state.controller_busy) pause = std::max(pause * 2, within_budget);
  return std::min(from_seconds(pause), limits.pause_max);
}

Duration next_round(const PollState& state, const PollLimits& limits) {
  if (!state.last_round) return Duration::zero();
  const Duration pause = pause_of(state, limits);
  const Duration regular = *state.last_round + pause;
  if (!state.nudged || state.failures > 0 || state.controller_busy) return regular;
  // A nudge shortens the pause of a small cluster to nudge_gap and leaves a large one's as it is.
  const double share = largeness(state.jobs, limits);
  const Duration gap =
      std::max(limits.nudge_gap,
               from_seconds(seconds(limits.nudge_gap) * (1 - share) + seconds(pause) * share));
  const Duration least = std::max(
      gap, from_seconds(seconds(state.round_took) / std::max(limits.busy_share, 0.001) / 4));
  return std::min(regular, *state.last_round + least);
}

Duration next_accounting(const PollState& state, const PollLimits& limits) {
  if (!state.last_accounting) return Duration::zero();
  Duration pause = std::max(limits.accounting_every, pause_of(state, limits));
  if (state.accounting_failures > 0)
    pause = backed_off(pause, state.accounting_failures, std::max(pause, limits.pause_max));
  else if (state.accounting_behind)
    pause = std::min<Duration>(pause, std::chrono::seconds(1));
  return *state.last_accounting + pause;
}

bool is_sdiag_due(const PollState& state, const PollLimits& limits, Duration at) {
  return is_due(state.last_sdiag, slow_period(state, limits), at);
}

RoundPlan plan_round(const PollState& state, const PollLimits& limits, Duration at, int spent,
                     bool wants_allocations) {
  std::array candidates = {
      Candidate{Question::partitions, is_due(state.last_partitions, slow_period(state, limits), at),
                state.last_partitions ? 4 : 0},
      Candidate{Question::nodes, true, state.last_nodes ? 5 : 1},
      Candidate{Question::allocations, wants_allocations, state.last_allocations ? 3 : 2},
  };
  std::ranges::sort(candidates, {}, &Candidate::rank);
  const bool is_bound = state.jobs >= limits.jobs_large;
  RoundPlan plan;
  for (const Candidate& candidate : candidates) {
    const int cost = rpcs_of(candidate.question);
    if (!candidate.wanted || (is_bound && spent + cost > limits.rpcs_per_round_max)) continue;
    plan.questions.push_back(candidate.question);
    spent += cost;
  }
  return plan;
}

Window accounting_window(std::optional<Time> watermark, Time now, const PollLimits& limits) {
  Window window;
  window.from = std::min(watermark.value_or(now), now) - limits.accounting_overlap;
  window.until = std::min(now, window.from + limits.accounting_window_max);
  window.reaches_present = window.until == now;
  return window;
}

}  // namespace vetta::slurm
