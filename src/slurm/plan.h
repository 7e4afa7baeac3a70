// SPDX-License-Identifier: Apache-2.0
// When to ask Slurm what, within a budget of RPCs: pure, the clock is passed in. Small clusters are
// read every few seconds; the more a round costs the controller (RPCs, time it takes, threads it
// has busy), the longer the pause; failures back off.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/time.h"
#include "slurm/question.h"

namespace vetta::slurm {

struct PollLimits {
  double rpcs_per_minute_max = 5.5;  ///< from `jobs_large` jobs on, in all, nudges too
  int rpcs_per_round_max = 6;        ///< of large clusters: no minute sees more than one round
  std::size_t jobs_small = 1'000;    ///< up to here the pause is `pause_min`
  std::size_t jobs_large = 10'000;   ///< from here on the budget binds
  Duration pause_min = std::chrono::seconds(3);
  Duration pause_max = std::chrono::minutes(5);  ///< also of the back-off
  /// Of the back-off from a controller that is down, and after the first answer that was too late.
  Duration pause_absent_max = std::chrono::seconds(30);
  Duration pause_timeout = std::chrono::seconds(25);
  Duration nudge_gap = std::chrono::seconds(1);  ///< small clusters: a nudge waits this long
  double busy_share = 0.2;  ///< a round of t seconds is followed by a pause of at least t / this
  Duration accounting_every = std::chrono::seconds(30);
  Duration accounting_overlap = std::chrono::minutes(10);
  Duration accounting_window_max = std::chrono::hours(6);  ///< catching up goes in such pieces
};

/// What a round told, as far as the next one depends on it. Durations are of one monotonic clock.
struct PollState {
  std::optional<Duration> last_round;  ///< when it began; nullopt: none yet
  Duration round_took{};
  int round_rpcs = 0;
  std::size_t jobs = 0;            ///< tasks of arrays counted one by one
  int failures = 0;                ///< rounds in a row whose jobs could not be asked, of one kind
  bool is_timeout = false;         ///< that kind: no answer in time; else asking burdens nobody
  bool controller_busy = false;    ///< sdiag: threads or agent queue over what is healthy
  std::optional<Duration> nudged;  ///< the oldest nudge that no round has answered yet
  std::optional<Duration> last_partitions, last_nodes, last_allocations, last_sdiag;
  std::optional<Duration> last_accounting;
  int accounting_failures = 0;
  bool accounting_behind = false;  ///< the last window did not reach the present
};

/// One more round whose jobs could not be asked; another kind than before starts its count anew.
void note_failure(PollState& state, bool is_timeout);

/// 0 for small clusters (freshness counts), 1 for large ones (the budget binds), between them the
/// logarithm of the jobs.
[[nodiscard]] double largeness(std::size_t jobs, const PollLimits& limits);
/// The pause from the start of one round to the start of the next, nudges apart.
[[nodiscard]] Duration pause_of(const PollState& state, const PollLimits& limits);
/// When the next round / the next accounting window is due; may lie in the past (then: now).
[[nodiscard]] Duration next_round(const PollState& state, const PollLimits& limits);
[[nodiscard]] Duration next_accounting(const PollState& state, const PollLimits& limits);

/// Whether sdiag is due; it is the first question of a round, for it tells how large the queue is.
[[nodiscard]] bool is_sdiag_due(const PollState& state, const PollLimits& limits, Duration at);

/// What to ask of a round beside the jobs, in this order. What has never been asked comes first;
/// on large clusters a round costs at most rpcs_per_round_max, and what does not fit waits.
struct RoundPlan {
  std::vector<Question> questions;
};

/// `spent`: RPCs of this round so far; `wants_allocations`: the jobs show a holder whose
/// allocation is not known.
[[nodiscard]] RoundPlan plan_round(const PollState& state, const PollLimits& limits, Duration at,
                                   int spent, bool wants_allocations);

struct Window {
  Time from, until;
  bool reaches_present = false;
};

/// The accounting window to ask: from the watermark less the overlap, at most window_max long.
[[nodiscard]] Window accounting_window(std::optional<Time> watermark, Time now,
                                       const PollLimits& limits);

}  // namespace vetta::slurm
