// SPDX-License-Identifier: Apache-2.0
// Ranks that stand still: from the silence of their marks alone.
#include <algorithm>
#include <fmt/format.h>

#include "diagnose/suspect_detail.h"

namespace vetta::diagnose {
namespace {

using namespace std::chrono_literals;
using model::Event;
using model::EventKind;

constexpr std::int64_t silent_steps =
    20;  // median steps: a checkpoint or an evaluation is shorter, mostly
constexpr Duration silent_least = 60s;     // marks come in batches, and short jobs pause, too
constexpr Duration silent_unknown = 5min;  // where no median step is known

std::string ranks_text(const std::vector<const LastMark*>& marks) {
  std::string text = marks.size() > 1 ? "ranks " : "rank ";
  const std::size_t shown = std::min<std::size_t>(marks.size(), 8);
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", marks[i]->rank);
  if (shown < marks.size()) text += fmt::format(" and {} more", marks.size() - shown);
  const bool one_node = std::all_of(marks.begin(), marks.end(),
                                    [&](const LastMark* m) { return m->node == marks[0]->node; });
  return one_node && !marks[0]->node.empty() ? fmt::format("{} on {}", text, marks[0]->node) : text;
}

// Those who keep the others: in another phase while most wait in allreduce, else fewer steps than
// the others.
std::vector<const LastMark*> those_behind(const std::vector<LastMark>& marks) {
  std::vector<const LastMark*> waiting;
  std::vector<const LastMark*> elsewhere;
  std::int64_t least = marks.front().step;
  std::int64_t most = least;
  for (const LastMark& mark : marks) {
    least = std::min(least, mark.step);
    most = std::max(most, mark.step);
    if (mark.phase_now)
      (*mark.phase_now == model::Phase::allreduce ? waiting : elsewhere).push_back(&mark);
  }
  if (!waiting.empty() && !elsewhere.empty() && elsewhere.size() <= waiting.size())
    return elsewhere;
  std::vector<const LastMark*> behind;
  for (const LastMark& mark : marks) {
    if (mark.step == least && least < most) behind.push_back(&mark);
  }
  if (2 * behind.size() > marks.size()) behind.clear();  // most of them: then nobody stands out
  return behind;
}

// Marks cannot arrive from a node whose agent is away.
bool is_unheard(const WhyInput& input, const std::string& node) {
  bool lost = false;
  std::optional<Time> at;
  for (const Event& event : input.events) {
    if (event.node != node || (at && event.time < *at)) continue;
    if (event.kind != EventKind::agent_lost && event.kind != EventKind::agent_back) continue;
    lost = event.kind == EventKind::agent_lost;
    at = event.time;
  }
  return lost;
}

void describe(const WhyInput& input, const std::vector<const LastMark*>& behind,
              std::int64_t furthest, Suspect& hang) {
  Event& event = hang.event;
  if (behind.empty()) {
    hang.headline = fmt::format(
        "no rank has marked a step since step {}: the job hangs, and marks do not tell at whom",
        furthest);
    hang.answer = event.rank >= 0 ? model::Answer::code : model::Answer::cannot_tell;
    if (event.rank >= 0) {
      hang.headline =
          fmt::format("{} hangs, and the others wait for it", who_text(event.rank, event.node));
    }
    return;
  }
  hang.answer = model::Answer::code;
  event.rank = behind.front()->rank;
  event.node = behind.front()->node;
  hang.headline = fmt::format(
      "{} {}, and the others wait: {}", ranks_text(behind), behind.size() > 1 ? "hang" : "hangs",
      behind.front()->phase_now
          ? fmt::format("{} not come to the all-reduce", behind.size() > 1 ? "they have" : "it has")
          : fmt::format("the last step is {}, the others' {}", behind.front()->step, furthest));
  const auto ended = std::find_if(
      input.ranks.begin(), input.ranks.end(),
      [&](const model::Rank& rank) { return rank.rank == event.rank && rank.end.has_value(); });
  if (ended != input.ranks.end()) {
    event.rank_id = ended->rank_id;
    hang.headline =
        fmt::format("{} has ended, and the others wait for it", who_text(event.rank, event.node));
  }
}

}  // namespace

std::optional<Suspect> find_hang(const WhyInput& input, Time until) {
  if (input.last_marks.empty()) return std::nullopt;
  Time newest = input.last_marks.front().time;
  std::int64_t furthest = input.last_marks.front().step;
  for (const LastMark& mark : input.last_marks) {
    newest = std::max(newest, mark.time);
    furthest = std::max(furthest, mark.step);
  }
  const Duration limit = input.median_step
                             ? std::max(*input.median_step * silent_steps, silent_least)
                             : silent_unknown;
  if (until - newest < limit) return std::nullopt;
  const bool all_unheard =
      std::all_of(input.last_marks.begin(), input.last_marks.end(),
                  [&](const LastMark& mark) { return is_unheard(input, mark.node); });
  if (all_unheard) return std::nullopt;
  Suspect hang;
  hang.weight = Weight::strong;
  hang.event.kind = EventKind::hang;
  hang.event.time = newest;
  hang.event.attempt = input.attempt.key;
  hang.event.source = "marks";
  for (const Event& event : input.events) {  // somebody who saw more, such as stacks
    if (event.kind == EventKind::hang && event.time >= newest && event.rank >= 0 &&
        concerns(input, event))
      hang.event = event;
  }
  describe(input, those_behind(input.last_marks), furthest, hang);
  if (hang.event.message.empty()) hang.event.message = hang.headline;
  hang.evidence.push_back(fmt::format(
      "the newest mark of any rank is of step {}, {}; since then {} without a step{}", furthest,
      when_text(input, newest), human(until - newest),
      input.median_step ? fmt::format(", where a step takes {}", human(*input.median_step)) : ""));
  hang.advice.push_back(hang.event.rank >= 0
                            ? fmt::format("see where it stands: py-spy dump --pid on {}; a lock, a "
                                          "loader or a file server are usual",
                                          hang.event.node.empty() ? "its node" : hang.event.node)
                            : std::string("see where the ranks stand: py-spy dump --pid on each; "
                                          "the one that is not in a collective is the one"));
  hang.advice.emplace_back("a long checkpoint or evaluation without marks looks the same");
  return hang;
}

}  // namespace vetta::diagnose
