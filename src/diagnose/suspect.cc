// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "core/text.h"
#include "diagnose/message_detail.h"
#include "diagnose/suspect_detail.h"

namespace vetta::diagnose {

using namespace std::chrono_literals;
using model::Event;
using model::EventKind;

namespace {

constexpr Duration strong_bonus =
    1s;  // clocks and polls differ: the better explanation wins within it
constexpr Duration node_after_end = 120s;  // a node's failure may be seen after the job's end

}  // namespace

bool is_same_rank(const Event& event, const RankEnd& end) {
  if (event.rank_id != 0 && end.rank_id != 0 && event.rank_id == end.rank_id) return true;
  return event.rank >= 0 && event.rank == end.rank;
}

void read_signal(RankEnd& end) {
  if (end.exit_signal && *end.exit_signal == 0) end.exit_signal.reset();
  if (end.exit_code && !end.exit_signal) end.exit_signal = signal_of_exit(*end.exit_code);
}

std::string first_line(const std::string& text) {
  return one_line(text, 300);
}

std::string who_text(std::int32_t rank, const std::string& node) {
  const std::string who = rank >= 0 ? fmt::format("rank {}", rank) : std::string("a process");
  return node.empty() ? who : fmt::format("{} on {}", who, one_line(node, 80));
}

std::string when_text(const WhyInput& input, Time time) {
  if (!input.attempt.start || time < *input.attempt.start) return fmt::format("at {}", iso(time));
  return fmt::format("at {}, {} after the start", iso(time), human(time - *input.attempt.start));
}

bool concerns(const WhyInput& input, const Event& event) {
  const model::Attempt& attempt = input.attempt;
  if (event.attempt) return *event.attempt == attempt.key;
  if (event.rank_id != 0) {
    return std::any_of(input.ranks.begin(), input.ranks.end(),
                       [&](const model::Rank& rank) { return rank.rank_id == event.rank_id; });
  }
  if (!attempt.start || event.time < *attempt.start - end_slack) return false;
  if (attempt.end && event.time > *attempt.end + node_after_end) return false;
  if (event.node.empty()) return false;
  const auto on_node = [&](const auto& holder) { return holder.node == event.node; };
  return std::any_of(input.allocations.begin(), input.allocations.end(), on_node) ||
         std::any_of(input.ranks.begin(), input.ranks.end(), on_node) ||
         attempt.nodes == event.node;
}

std::vector<RankEnd> ends_of(const WhyInput& input) {
  std::vector<RankEnd> ends;
  for (const model::Rank& rank : input.ranks) {
    if (!rank.end) continue;
    ends.push_back({rank.rank, rank.rank_id, rank.node, rank.pid, *rank.end, rank.exit_code,
                    rank.exit_signal});
  }
  for (const Event& event : input.events) {
    if (event.kind != EventKind::signal && event.kind != EventKind::rank_exit) continue;
    if (!concerns(input, event)) continue;
    const auto known = std::find_if(ends.begin(), ends.end(),
                                    [&](const RankEnd& end) { return is_same_rank(event, end); });
    if (known == ends.end()) {
      ends.push_back({event.rank, event.rank_id, event.node, 0, event.time, event.exit_code,
                      event.exit_signal});
      continue;
    }
    if (!known->exit_code) known->exit_code = event.exit_code;
    if (!known->exit_signal) known->exit_signal = event.exit_signal;
    known->time = std::min(known->time, event.time);
  }
  for (RankEnd& end : ends) read_signal(end);
  return ends;
}

std::vector<Suspect> collect_suspects(const WhyInput& input) {
  std::vector<Suspect> suspects;
  const std::vector<RankEnd> ends = ends_of(input);
  add_rank_suspects(input, ends, suspects);
  add_slurm_suspects(input, ends, suspects);
  std::stable_sort(suspects.begin(), suspects.end(), [](const Suspect& a, const Suspect& b) {
    const auto time = [](const Suspect& s) {
      return s.event.time - (s.weight == Weight::strong ? strong_bonus : 0s);
    };
    return time(a) < time(b);
  });
  return suspects;
}

const Suspect* first_cause(const std::vector<Suspect>& suspects) {
  for (const Suspect& suspect : suspects) {
    if (suspect.weight != Weight::consequence) return &suspect;
  }
  return suspects.empty() ? nullptr : &suspects.front();
}

}  // namespace vetta::diagnose
