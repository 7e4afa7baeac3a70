// SPDX-License-Identifier: Apache-2.0
// Private to diagnose: everything that went wrong in an attempt, and which of it came first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnose/why.h"

namespace vetta::diagnose {

/// How far a happening explains the others. A consequence is never the first cause if anything else
/// is known.
enum class Weight { consequence, plain, strong };

struct Suspect {
  Weight weight = Weight::plain;
  model::Answer answer = model::Answer::cannot_tell;
  model::Event event;
  std::string headline;  ///< one sentence without its full stop
  std::vector<std::string> evidence, advice;
};

/// A rank's end as the rank itself or an event told it.
struct RankEnd {
  std::int32_t rank = -1;
  std::uint64_t rank_id = 0;
  std::string node;
  std::int32_t pid = 0;
  Time time;
  std::optional<int> exit_code, exit_signal;  ///< a shell's 128 + n is a signal here
};

/// Slurm writes whole seconds, and its signals come around a job's end.
inline constexpr Duration end_slack = std::chrono::seconds(5);

[[nodiscard]] std::vector<RankEnd> ends_of(const WhyInput& input);
/// A shell's code 128 + n becomes signal n; signal 0 is none.
void read_signal(RankEnd& end);
[[nodiscard]] bool is_same_rank(const model::Event& event, const RankEnd& end);
/// What the end of a rank, a step or a script says; empty if it was a good one.
[[nodiscard]] std::optional<Suspect> from_end(const WhyInput& input, const RankEnd& end);

/// From exceptions, kills for memory and ends of ranks.
void add_rank_suspects(const WhyInput& input, const std::vector<RankEnd>& ends,
                       std::vector<Suspect>& suspects);
/// From nodes, states of the job and accounting.
void add_slurm_suspects(const WhyInput& input, const std::vector<RankEnd>& ends,
                        std::vector<Suspect>& suspects);

/// All of them, in the order of time.
[[nodiscard]] std::vector<Suspect> collect_suspects(const WhyInput& input);

/// The first that is no consequence, else the first; null if there is none.
[[nodiscard]] const Suspect* first_cause(const std::vector<Suspect>& suspects);

/// Ranks stand still: who is behind and since when. Empty if they step, or if it cannot be seen.
[[nodiscard]] std::optional<Suspect> find_hang(const WhyInput& input, Time until);

/// The highest step that any rank has ended; empty if none has.
[[nodiscard]] std::optional<std::int64_t> furthest_step(const WhyInput& input);

/// The line of a message that is shown.
[[nodiscard]] std::string first_line(const std::string& text);
/// "rank 3 on n002"; "a process on n002" without a rank.
[[nodiscard]] std::string who_text(std::int32_t rank, const std::string& node);
/// "at 2026-11-30T13:42:05Z, 12m03s after the start"
[[nodiscard]] std::string when_text(const WhyInput& input, Time time);
/// Whether the event speaks of this attempt, or of one of its nodes while it ran.
[[nodiscard]] bool concerns(const WhyInput& input, const model::Event& event);

/// What was lost, and what could not be seen.
[[nodiscard]] std::vector<model::Loss> losses_of(const WhyInput& input);
[[nodiscard]] std::vector<std::string> unknowns_of(const WhyInput& input);

}  // namespace vetta::diagnose
