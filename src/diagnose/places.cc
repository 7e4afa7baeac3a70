// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "diagnose/places_detail.h"
#include "diagnose/suspect_detail.h"

namespace vetta::diagnose {
namespace {

using namespace std::chrono_literals;
using model::Phase;
using Marks = std::vector<const LastMark*>;

constexpr std::size_t places_listed_max = 6;
constexpr Duration end_settle = 10s;  // ranks of a job that ends do not end at once

// The step that a rank is in, or would be in next; as far as it is known.
std::optional<std::int64_t> step_of(const LastMark& mark) {
  if (mark.now && mark.now->step) return mark.now->step;
  if (mark.step) return *mark.step + 1;
  return std::nullopt;
}

bool is_later(const LastMark& mark, std::optional<std::int64_t> step) {
  const auto own = step_of(mark);
  return own && step && *own > *step;
}

bool is_earlier(const LastMark& mark, std::optional<std::int64_t> step) {
  const auto own = step_of(mark);
  return own && step && *own < *step;
}

std::optional<std::int64_t> latest_step(const Marks& marks) {
  std::optional<std::int64_t> latest;
  for (const LastMark* mark : marks) latest = std::max(latest, step_of(*mark));
  return latest;
}

// In a step of synchronous training: whoever is in an earlier one keeps the others.
int order_of(Phase phase) {
  switch (phase) {
    case Phase::data: return 0;
    case Phase::forward: return 1;
    case Phase::backward: return 2;
    case Phase::allreduce: return 3;
    case Phase::optimizer: return 4;
  }
  return 0;
}

// A phase of its own stands out against none, and against a later one; none stands out against any.
bool is_before(const std::optional<Phase>& own, const std::optional<Phase>& most) {
  if (!own || !most) return own != most;
  return order_of(*own) < order_of(*most);
}

// Few of the waiting are in the collective of an earlier step: they call other ones.
void find_laggards(Standing& standing) {
  const auto latest = latest_step(standing.waiting);
  Marks laggards;
  for (const LastMark* mark : standing.waiting)
    if (mark->now->step && is_earlier(*mark, latest)) laggards.push_back(mark);
  if (laggards.empty() || 2 * laggards.size() >= standing.waiting.size()) return;
  std::erase_if(standing.waiting, [&](const LastMark* mark) {
    return std::ranges::find(laggards, mark) != laggards.end();
  });
  standing.holders = std::move(laggards);
}

// Some wait in a collective: those hold them who are not in it and not past it.
void find_outside(Standing& standing) {
  const auto latest = latest_step(standing.waiting);
  Marks holders;
  for (const LastMark* mark : standing.outside)
    if (!is_later(*mark, latest)) holders.push_back(mark);
  if (holders.size() <= standing.waiting.size()) standing.holders = std::move(holders);
}

// Nobody is known to be in a collective (its wait hides in another phase, or is not marked): then
// most are at one place, and the few at an earlier one hold them.
void find_minority(Standing& standing) {
  std::map<std::pair<std::optional<std::int64_t>, int>, Marks> places;
  for (const LastMark* mark : standing.outside)
    places[{step_of(*mark), mark->now && mark->now->phase ? order_of(*mark->now->phase) : -1}]
        .push_back(mark);
  const auto most =
      std::ranges::max_element(places, {}, [](const auto& place) { return place.second.size(); });
  if (most == places.end()) return;
  const LastMark& there = *most->second.front();
  if (2 * most->second.size() <= standing.outside.size() + standing.unknown.size() || !there.now)
    return;
  const auto step = step_of(there);
  for (const LastMark* mark : standing.outside) {
    if (!mark->now) continue;
    const bool is_same_step = step_of(*mark) == step;
    if (is_earlier(*mark, step) || (is_same_step && is_before(mark->now->phase, there.now->phase)))
      standing.holders.push_back(mark);
  }
  if (!standing.holders.empty()) standing.waiting = most->second;
}

// By the steps that were marked alone.
void find_behind(const WhyInput& input, Standing& standing) {
  const auto by_step = [](const LastMark& a, const LastMark& b) { return a.step < b.step; };
  const auto [least, most] =
      std::minmax_element(input.last_marks.begin(), input.last_marks.end(), by_step);
  if (least->step == most->step) return;
  Marks behind;
  for (const LastMark& mark : input.last_marks)
    if (mark.step == least->step) behind.push_back(&mark);
  if (2 * behind.size() > input.last_marks.size()) return;  // most of them: nobody stands out
  standing.holders = std::move(behind);
  standing.are_behind = true;
}

// Ranks of the newest incarnation of which no mark and no place came, as far as they are known.
std::vector<std::int32_t> unheard_of(const WhyInput& input) {
  std::uint32_t newest = 0;
  for (const model::Rank& rank : input.ranks) newest = std::max(newest, rank.incarnation);
  std::set<std::int32_t> all;
  for (const model::Rank& rank : input.ranks)
    if (rank.incarnation == newest && rank.rank >= 0) all.insert(rank.rank);
  for (const LastMark& mark : input.last_marks) all.erase(mark.rank);
  return {all.begin(), all.end()};
}

Nobody why_nobody(const Standing& standing) {
  const bool all_are_known = standing.unknown.empty() && standing.unheard.empty();
  if (standing.outside.empty() && !standing.waiting.empty())
    return all_are_known ? Nobody::all_wait : Nobody::some_unknown;
  const bool all_fetch = std::ranges::all_of(standing.outside, [](const LastMark* mark) {
    return mark->now && mark->now->phase == Phase::data;
  });
  if (standing.waiting.empty() && !standing.outside.empty() && all_fetch && all_are_known)
    return Nobody::all_fetch;
  return Nobody::no_places;
}

}  // namespace

const model::Rank* rank_of(const WhyInput& input, std::int32_t rank) {
  const model::Rank* found = nullptr;
  for (const model::Rank& each : input.ranks) {
    if (each.rank != rank) continue;
    if (found == nullptr ||
        std::pair(each.incarnation, each.start) >= std::pair(found->incarnation, found->start))
      found = &each;
  }
  return found;
}

bool has_ended(const WhyInput& input, std::int32_t rank, Time until) {
  const model::Rank* found = rank_of(input, rank);
  return found != nullptr && found->end && *found->end + end_settle <= until;
}

Standing stand(const WhyInput& input, Time until) {
  Standing standing;
  standing.unheard = unheard_of(input);
  for (const LastMark& mark : input.last_marks) {
    const bool is_gone = has_ended(input, mark.rank, until);
    if (!is_gone && !mark.now)
      standing.unknown.push_back(&mark);
    else if (!is_gone && mark.now->phase == Phase::allreduce)
      standing.waiting.push_back(&mark);
    else
      standing.outside.push_back(&mark);
  }
  if (!standing.waiting.empty() && !standing.outside.empty()) find_outside(standing);
  if (standing.holders.empty() && !standing.waiting.empty()) find_laggards(standing);
  if (standing.waiting.empty()) find_minority(standing);
  if (standing.holders.empty()) find_behind(input, standing);
  if (standing.holders.empty()) standing.why_nobody = why_nobody(standing);
  return standing;
}

std::string place_text(const LastMark& mark) {
  if (!mark.now) return "nobody knows where";
  const model::RankNow& now = *mark.now;
  const std::string after =
      mark.step ? fmt::format("after step {}", *mark.step) : std::string("before its first step");
  if (!now.phase && !now.step) return fmt::format("between two steps, {}", after);
  if (!now.phase) return fmt::format("in step {}, outside of its marked phases", *now.step);
  const std::string phase = now.phase == Phase::allreduce
                                ? std::string("in the all-reduce")
                                : fmt::format("in the {} phase", model::name(*now.phase));
  return now.step ? fmt::format("{} of step {}", phase, *now.step)
                  : fmt::format("{} {}", phase, after);
}

std::string waiting_text(const Standing& standing) {
  const LastMark& first = *standing.waiting.front();
  const bool is_one = std::ranges::all_of(
      standing.waiting, [&](const LastMark* mark) { return step_of(*mark) == step_of(first); });
  return is_one ? place_text(first) : "in all-reduces of different steps";
}

std::string ranks_text(const std::vector<std::int32_t>& ranks) {
  std::string text = ranks.size() > 1 ? "ranks " : "rank ";
  const std::size_t shown = std::min<std::size_t>(ranks.size(), 8);
  for (std::size_t i = 0; i < shown; ++i) text += fmt::format("{}{}", i > 0 ? ", " : "", ranks[i]);
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

std::string ranks_text(const Marks& marks) {
  std::vector<std::int32_t> ranks;
  for (const LastMark* mark : marks) ranks.push_back(mark->rank);
  const std::string text = ranks_text(ranks);
  const bool one_node = std::all_of(marks.begin(), marks.end(),
                                    [&](const LastMark* m) { return m->node == marks[0]->node; });
  return one_node && !marks[0]->node.empty() ? fmt::format("{} on {}", text, marks[0]->node) : text;
}

std::vector<std::string> places_of(const Standing& standing, Time until) {
  std::map<std::string, Marks> places;
  for (const Marks* marks : {&standing.holders, &standing.waiting, &standing.outside}) {
    for (const LastMark* mark : *marks) {
      if (!mark->now) continue;
      Marks& there = places[place_text(*mark)];
      if (std::ranges::find(there, mark) == there.end()) there.push_back(mark);
    }
  }
  std::vector<std::string> lines;
  for (auto& [place, marks] : places) {
    if (lines.size() == places_listed_max) {
      lines.push_back(fmt::format("and {} more places", places.size() - lines.size()));
      break;
    }
    std::ranges::sort(marks, {}, &LastMark::rank);
    const auto first =
        std::ranges::min_element(marks, {}, [](const LastMark* mark) { return mark->now->since; });
    lines.push_back(fmt::format("{}: {} for {}", ranks_text(marks), place,
                                human(until - (*first)->now->since)));
  }
  if (!places.empty() && !standing.unknown.empty())
    lines.push_back(fmt::format("{}: where is not known", ranks_text(standing.unknown)));
  return lines;
}

}  // namespace vetta::diagnose
