// SPDX-License-Identifier: Apache-2.0
// What a job lost before or beside its first failure, and what could not be seen.
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "core/text.h"
#include "diagnose/suspect_detail.h"

namespace vetta::diagnose {
namespace {

using namespace std::chrono_literals;
using model::EventKind;

constexpr std::size_t listed_max = 8;

void add_queue(const WhyInput& input, std::vector<model::Loss>& lost) {
  const model::Attempt& attempt = input.attempt;
  const Time from = attempt.eligible.value_or(attempt.key.submit);
  const std::optional<Time> to = attempt.start ? attempt.start
                                 : attempt.state == model::JobState::pending
                                     ? std::optional(input.now)
                                     : attempt.end;
  if (!to || *to - from < 1s) return;
  lost.push_back({"waiting in the queue", *to - from,
                  attempt.eligible ? "since it could have run" : "since it was submitted"});
}

void add_restarts(const WhyInput& input, std::vector<model::Loss>& lost) {
  Duration ran{};
  std::string note;
  for (const model::Attempt& earlier : input.earlier) {
    if (!earlier.start || !earlier.end || *earlier.end < *earlier.start) continue;
    ran += *earlier.end - *earlier.start;
    note += fmt::format("{}{} on {} after {}", note.empty() ? "" : "; ", model::name(earlier.state),
                        one_line(earlier.nodes, 60), human(*earlier.end - *earlier.start));
  }
  if (input.earlier.empty()) return;
  lost.push_back(
      {fmt::format("{} earlier attempt{}", input.earlier.size(),
                   input.earlier.size() > 1 ? "s" : ""),
       ran,
       note.empty() ? "how long they ran is not known" : note + "; less what checkpoints saved"});
}

/// Ranks that began anew inside the attempt. The batch script's own task comes before the first
/// step of every job and is none of its ranks unless it trains.
void add_rank_restarts(const WhyInput& input, std::vector<model::Loss>& lost) {
  std::map<std::uint32_t, Time> begun;  // by incarnation
  for (const model::Rank& rank : input.ranks) {
    if ((rank.step_id == "batch" || rank.step_id == "interactive") && !rank.is_probed) continue;
    const auto [it, is_new] = begun.emplace(rank.incarnation, rank.start);
    if (!is_new) it->second = std::min(it->second, rank.start);
  }
  if (begun.size() < 2) return;
  const Duration lost_time = begun.rbegin()->second - begun.begin()->second;
  if (lost_time <= Duration::zero()) return;
  const std::size_t restarts = begun.size() - 1;
  lost.push_back({fmt::format("{} restart{} of the ranks", restarts, restarts > 1 ? "s" : ""),
                  lost_time, "until the newest ranks began; less what checkpoints saved"});
}

void add_rest(const WhyInput& input, std::vector<model::Loss>& lost) {
  Duration suspended = input.attempt.suspended_total.value_or(Duration{});
  if (!input.attempt.suspended_total) {
    for (const model::Span& span : input.attempt.suspended)
      suspended += span.end.value_or(input.now) - span.start;
  }
  if (suspended >= 1s) lost.push_back({"suspended by Slurm", suspended, {}});
  add_rank_restarts(input, lost);
  if (!input.diagnosis || input.diagnosis->outcome != model::Outcome::slow_rank) return;
  const model::Diagnosis& diagnosis = *input.diagnosis;
  lost.push_back(
      {fmt::format("waiting for {}{}", who_text(diagnosis.rank, diagnosis.node),
                   diagnosis.cause == model::CauseClass::data ? ", which waits for data" : ""),
       diagnosis.lost_time, fmt::format("{:.0f} % of step time", 100 * diagnosis.lost_share)});
}

template <typename Names>
std::string list(const Names& names) {
  std::string text;
  std::size_t shown = 0;
  for (const auto& name : names) {
    if (shown++ == listed_max) {
      text += fmt::format(" and {} more", names.size() - listed_max);
      break;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  }
  return text;
}

void add_ranks_unknown(const WhyInput& input, std::vector<std::string>& unknown) {
  std::set<std::int32_t> unprobed;
  std::set<std::int32_t> unseen_end;
  std::uint32_t incarnation = 0;
  for (const model::Rank& rank : input.ranks) incarnation = std::max(incarnation, rank.incarnation);
  std::set<std::int32_t> probed;
  for (const model::Rank& rank : input.ranks) {
    if (rank.incarnation != incarnation) continue;
    (rank.is_probed ? probed : unprobed).insert(rank.rank);
    if (rank.end && !rank.exit_code && !rank.exit_signal) unseen_end.insert(rank.rank);
  }
  for (const std::int32_t rank : probed) unprobed.erase(rank);
  if (input.ranks.empty() && input.attempt.start) {
    unknown.emplace_back(
        "its ranks: none was registered, for no agent ran on its nodes or the rank plugin is not "
        "installed");
  } else if (!unprobed.empty()) {
    unknown.push_back(
        fmt::format("steps and exceptions of ranks {}: they were not probed (--probe, or "
                    "vetta_probe in the loop)",
                    list(unprobed)));
  }
  if (!unseen_end.empty())
    unknown.push_back(fmt::format("how ranks {} ended: nobody saw it", list(unseen_end)));
}

}  // namespace

std::vector<model::Loss> losses_of(const WhyInput& input) {
  std::vector<model::Loss> lost;
  add_queue(input, lost);
  add_restarts(input, lost);
  add_rest(input, lost);
  return lost;
}

std::vector<std::string> unknowns_of(const WhyInput& input) {
  std::vector<std::string> unknown;
  for (const model::Source& source : input.sources) {
    if (source.knowledge == model::Knowledge::known) continue;
    unknown.push_back(
        fmt::format("what {} knows: {}", one_line(source.name, 80),
                    source.reason.empty() ? "it did not answer" : one_line(source.reason)));
  }
  std::set<std::string> gaps;
  for (const model::Event& event : input.events) {
    if (!concerns(input, event)) continue;
    if (event.kind == EventKind::gap)
      gaps.insert(fmt::format("{}{}", event.node.empty() ? "" : event.node + ": ",
                              one_line(event.message)));
    if (event.kind != EventKind::agent_lost) continue;
    const bool back =
        std::any_of(input.events.begin(), input.events.end(), [&](const model::Event& other) {
          return other.kind == EventKind::agent_back && other.node == event.node &&
                 other.time >= event.time;
        });
    if (!back)
      gaps.insert(
          fmt::format("{} since {}: its agent is not connected", event.node, iso(event.time)));
  }
  for (const std::string& gap : gaps) {
    if (unknown.size() >= 2 * listed_max) break;
    unknown.push_back(gap);
  }
  add_ranks_unknown(input, unknown);
  return unknown;
}

}  // namespace vetta::diagnose
