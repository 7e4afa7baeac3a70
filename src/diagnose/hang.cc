// SPDX-License-Identifier: Apache-2.0
// Ranks that stand still: from the silence of their marks, and from where they are now.
#include <algorithm>
#include <fmt/format.h>

#include "diagnose/places_detail.h"
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

// Most of the ranks have come where they are only lately: a long step, and no hang.
bool is_moving(const WhyInput& input, Time until, Duration limit) {
  const auto moved = std::ranges::count_if(input.last_marks, [&](const LastMark& mark) {
    return mark.now && until - mark.now->since < limit;
  });
  return 2 * static_cast<std::size_t>(moved) > input.last_marks.size();
}

std::string steps_text(std::optional<std::int64_t> furthest) {
  return furthest ? fmt::format("no rank has marked a step since step {}", *furthest)
                  : std::string("no rank has ended its first step");
}

void describe_nobody(const Standing& standing, std::optional<std::int64_t> furthest,
                     Suspect& hang) {
  const Event& event = hang.event;
  hang.answer = model::Answer::cannot_tell;
  if (event.rank >= 0) {
    hang.answer = model::Answer::code;
    hang.headline =
        fmt::format("{} hangs, and the others wait for it", who_text(event.rank, event.node));
    return;
  }
  switch (standing.why_nobody) {
    case Nobody::all_wait:
      hang.headline = fmt::format(
          "all {} ranks wait {}: no rank is outside of it, so it is the network between them, "
          "or a collective that they do not call alike",
          standing.waiting.size(), waiting_text(standing));
      hang.advice.emplace_back(
          "run it with TORCH_DISTRIBUTED_DEBUG=DETAIL: it says which collectives do not fit each "
          "other; if they all fit, look at the links between the nodes");
      return;
    case Nobody::all_fetch:
      hang.answer = model::Answer::data;
      hang.headline =
          fmt::format("all {} ranks wait for data, and none comes", standing.outside.size());
      hang.advice.emplace_back(
          "look at the file system that the data lie on, and at the loader's "
          "workers");
      return;
    case Nobody::some_unknown: {
      std::vector<std::int32_t> unknown = standing.unheard;
      for (const LastMark* mark : standing.unknown) unknown.push_back(mark->rank);
      std::ranges::sort(unknown);
      hang.headline = fmt::format("the job hangs: {} wait {}, and where {} {} is not known",
                                  ranks_text(standing.waiting), waiting_text(standing),
                                  ranks_text(unknown), unknown.size() > 1 ? "are" : "is");
      return;
    }
    case Nobody::no_places: break;
  }
  hang.headline =
      fmt::format("{}: the job hangs, and marks do not tell at whom", steps_text(furthest));
}

void describe(const WhyInput& input, const Standing& standing, Time until,
              std::optional<std::int64_t> furthest, Suspect& hang) {
  if (standing.holders.empty()) return describe_nobody(standing, furthest, hang);
  const bool are_many = standing.holders.size() > 1;
  const LastMark& first = *standing.holders.front();
  Event& event = hang.event;
  event.rank = first.rank;
  event.node = first.node;
  hang.answer = model::Answer::code;
  if (const model::Rank* rank = rank_of(input, first.rank)) event.rank_id = rank->rank_id;
  const std::string others = standing.waiting.empty() || standing.are_behind
                                 ? std::string("the others wait")
                                 : "the others wait " + waiting_text(standing);
  if (has_ended(input, first.rank, until)) {
    hang.headline = fmt::format("{} {} ended, and {} for {}", ranks_text(standing.holders),
                                are_many ? "have" : "has", others, are_many ? "them" : "it");
  } else if (first.now) {
    if (first.now->phase == model::Phase::data) hang.answer = model::Answer::data;
    hang.headline = fmt::format("{} {} {}, and {}", ranks_text(standing.holders),
                                are_many ? "hang" : "hangs", place_text(first), others);
  } else {
    hang.headline =
        fmt::format("{} {}, and {}: the last step is {}, the others' {}",
                    ranks_text(standing.holders), are_many ? "hang" : "hangs", others,
                    first.step ? std::to_string(*first.step) : "none", furthest.value_or(0));
  }
}

void add_advice(const WhyInput& input, const Standing& standing, Suspect& hang) {
  const Event& event = hang.event;
  if (event.rank < 0) {
    if (hang.advice.empty())
      hang.advice.emplace_back(
          "see where the ranks stand: py-spy dump --pid on each; the one that is not in a "
          "collective is the one");
    if (standing.why_nobody == Nobody::no_places)
      hang.advice.emplace_back(
          "mark the all-reduce as a phase (or start with --probe): then the rank that has not come "
          "to it can be named");
  } else {
    const model::Rank* rank = rank_of(input, event.rank);
    hang.advice.push_back(fmt::format(
        "see where it stands: py-spy dump --pid {}on {}; a lock, a loader or a file server are "
        "usual",
        rank != nullptr && rank->pid > 0 ? std::to_string(rank->pid) + " " : "",
        event.node.empty() ? "its node" : event.node));
  }
  hang.advice.emplace_back("a long checkpoint or evaluation without marks looks the same");
}

}  // namespace

std::optional<std::int64_t> furthest_step(const WhyInput& input) {
  std::optional<std::int64_t> furthest;
  for (const LastMark& mark : input.last_marks) furthest = std::max(furthest, mark.step);
  return furthest;
}

std::optional<Suspect> find_hang(const WhyInput& input, Time until) {
  if (input.last_marks.empty()) return std::nullopt;
  Time newest = input.last_marks.front().time;
  for (const LastMark& mark : input.last_marks) newest = std::max(newest, mark.time);
  const Duration limit = input.median_step
                             ? std::max(*input.median_step * silent_steps, silent_least)
                             : silent_unknown;
  if (until - newest < limit || is_moving(input, until, limit)) return std::nullopt;
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
  const std::optional<std::int64_t> furthest = furthest_step(input);
  const Standing standing = stand(input, until);
  describe(input, standing, until, furthest, hang);
  if (hang.event.message.empty()) hang.event.message = hang.headline;
  hang.evidence.push_back(fmt::format(
      "{}, {}; since then {} without a step{}",
      furthest ? fmt::format("the newest mark of any rank is of step {}", *furthest)
               : std::string("no rank has ended its first step; the last came to where it is"),
      when_text(input, newest), human(until - newest),
      input.median_step ? fmt::format(", where a step takes {}", human(*input.median_step)) : ""));
  for (std::string& line : places_of(standing, until)) hang.evidence.push_back(std::move(line));
  add_advice(input, standing, hang);
  return hang;
}

}  // namespace vetta::diagnose
