// SPDX-License-Identifier: Apache-2.0
#include "diagnose/why.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "core/text.h"
#include "diagnose/message_detail.h"
#include "diagnose/suspect_detail.h"

namespace vetta::diagnose {
namespace {

using model::Answer;
using model::JobState;
using model::Outcome;
using model::Why;

std::string limit_text(const WhyInput& input) {
  const model::Attempt& attempt = input.attempt;
  if (!attempt.time_limit || !attempt.start) return {};
  const Duration left = *attempt.start + *attempt.time_limit - input.now;
  if (left.count() <= 0) return {};
  return fmt::format("{} of its time limit of {} are left", human(left),
                     human(*attempt.time_limit));
}

void add_progress(const WhyInput& input, Why& why) {
  const std::optional<std::int64_t> furthest = furthest_step(input);
  if (!furthest) return;
  why.evidence.push_back(
      fmt::format("step {}{}", *furthest,
                  input.median_step ? fmt::format(", {} a step", human(*input.median_step)) : ""));
}

Why explain_pending(const WhyInput& input) {
  const model::Attempt& attempt = input.attempt;
  Why why;
  why.answer = Answer::waiting;
  if (attempt.reason.empty()) {
    why.headline = "the job waits; Slurm's reason is not known";
    why.unknown.emplace_back("the reason: Slurm did not say one, or could not be asked");
  } else {
    const PendingReason reason = pending_reason(attempt.reason);
    why.headline =
        fmt::format("the job {}: {} ({})", reason.never ? "will not start as it is" : "waits",
                    reason.what, one_line(attempt.reason));
    why.advice.emplace_back(reason.advice);
  }
  if (!attempt.dependency.empty() && attempt.reason.starts_with("Dependency")) {
    why.evidence.push_back(fmt::format("its dependency: {}", one_line(attempt.dependency)));
  }
  if (attempt.expected_start) {
    why.evidence.push_back(
        fmt::format("Slurm expects it to start at {}, in {}", iso(*attempt.expected_start),
                    human(std::max(*attempt.expected_start - input.now, Duration{}))));
  } else if (!attempt.reason.empty()) {
    why.evidence.emplace_back("Slurm has no expected start for it");
  }
  if (!input.earlier.empty()) {
    const model::Attempt& last = input.earlier.back();
    why.evidence.push_back(
        fmt::format("it waits again: its last attempt ended as {}{}", model::name(last.state),
                    last.nodes.empty() ? "" : " on " + one_line(last.nodes, 60)));
  }
  return why;
}

// What ended after the first cause, in one sentence: "7 other ranks ended after it: 5 by SIGTERM, 2
// with exit code 1".
void add_aftermath(const WhyInput& input, const Suspect& first, Why& why) {
  std::map<std::string, int> ways;
  int others = 0;
  for (const RankEnd& end : ends_of(input)) {
    if (end.rank == first.event.rank || end.time < first.event.time) continue;
    if (!end.exit_signal && end.exit_code.value_or(0) == 0) continue;
    ++others;
    ++ways[end.exit_signal ? "by " + signal_text(*end.exit_signal)
                           : fmt::format("with exit code {}", *end.exit_code)];
  }
  if (others == 0) return;
  std::string text;
  for (const auto& [way, count] : ways)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, way);
  why.evidence.push_back(fmt::format("{} {}rank{} ended after it, as a consequence: {}", others,
                                     first.event.rank >= 0 ? "other " : "", others > 1 ? "s" : "",
                                     text));
}

void add_first_facts(const WhyInput& input, const Suspect& first, Why& why) {
  const model::Event& event = first.event;
  std::string fact = fmt::format("first seen {}", when_text(input, event.time));
  if (event.exit_signal)
    fact += fmt::format("; {}", signal_text(*event.exit_signal));
  else if (event.exit_code)
    fact += fmt::format("; exit code {}", *event.exit_code);
  why.evidence.push_back(std::move(fact));
  for (const RankEnd& end : ends_of(input)) {  // an exception's rank also has an end
    if (event.exit_code || event.exit_signal || event.rank < 0 || end.rank != event.rank ||
        end.time < event.time)
      continue;
    if (end.exit_signal)
      why.evidence.push_back(fmt::format("the rank ended by {}", signal_text(*end.exit_signal)));
    else if (end.exit_code)
      why.evidence.push_back(fmt::format("the rank ended with exit code {}", *end.exit_code));
    break;
  }
}

// All that is known are consequences: then a rank that ended in peace while the others went on is
// the cause.
std::optional<Suspect> quiet_leaver(const WhyInput& input, const Suspect& first) {
  const std::vector<RankEnd> ends = ends_of(input);
  const RankEnd* leaver = nullptr;
  for (const RankEnd& end : ends) {
    if (end.exit_signal || end.exit_code != 0 || end.time >= first.event.time) continue;
    if (leaver == nullptr || end.time < leaver->time) leaver = &end;
  }
  if (leaver == nullptr) return std::nullopt;
  Suspect suspect;
  suspect.weight = Weight::plain;
  suspect.answer = Answer::code;
  suspect.event.kind = model::EventKind::rank_exit;
  suspect.event.time = leaver->time;
  suspect.event.rank = leaver->rank;
  suspect.event.rank_id = leaver->rank_id;
  suspect.event.node = leaver->node;
  suspect.event.exit_code = 0;
  suspect.headline = fmt::format("{} ended on its own (exit code 0) while the others went on",
                                 who_text(leaver->rank, leaver->node));
  suspect.advice.emplace_back(
      "ranks must leave together: an uneven share of the data or a sys.exit on one rank is usual");
  return suspect;
}

std::string outcome_text(const WhyInput& input, const Suspect& first) {
  const JobState state = input.attempt.state;
  if (first.event.kind == model::EventKind::job_state || state == JobState::failed ||
      state == JobState::unknown)
    return {};
  if (state == JobState::completed)
    return "; Slurm says COMPLETED, for the job script ended with 0 all the same";
  if (!model::is_final(state)) return "; the job still holds its nodes";
  return fmt::format("; Slurm says {}",
                     one_line(input.attempt.state_text.empty() ? std::string(model::name(state))
                                                               : input.attempt.state_text,
                              60));
}

Why explain_cause(const WhyInput& input, Suspect first) {
  Why why;
  if (first.weight == Weight::consequence) {
    if (auto leaver = quiet_leaver(input, first)) {
      first = std::move(*leaver);
    } else {
      first.answer = Answer::cannot_tell;
      first.headline += "; which rank failed first was not seen";
    }
  }
  why.answer = first.answer;
  why.headline = first.headline + outcome_text(input, first);
  add_first_facts(input, first, why);
  why.evidence.insert(why.evidence.end(), first.evidence.begin(), first.evidence.end());
  add_aftermath(input, first, why);
  if (input.attempt.state == JobState::completed) {
    why.advice.emplace_back(
        "let the job script fail with its steps: set -euo pipefail, and no || true behind srun");
  }
  why.advice.insert(why.advice.begin(), first.advice.begin(), first.advice.end());
  why.first = std::move(first.event);
  return why;
}

Why explain_slow(const WhyInput& input) {
  const model::Diagnosis& diagnosis = *input.diagnosis;
  Why why;
  why.answer = Answer::slow_rank;
  why.headline = diagnosis.reason;
  why.evidence = diagnosis.evidence;
  switch (diagnosis.cause) {
    case model::CauseClass::data:
      why.advice.push_back(fmt::format(
          "look at the loader of rank {}: its shard, its workers, the file system on {}",
          diagnosis.rank, diagnosis.node));
      break;
    case model::CauseClass::compute:
      why.advice.push_back(
          fmt::format("look at {}: clocks, other processes, pinning and quotas of rank {}; try "
                      "without it: --exclude={}",
                      diagnosis.node, diagnosis.rank, diagnosis.node));
      break;
    default:
      why.advice.push_back(fmt::format(
          "mark phases (data, forward, backward, allreduce) to see where rank {} loses its time",
          diagnosis.rank));
  }
  return why;
}

Why explain_fine(const WhyInput& input) {
  const model::Attempt& attempt = input.attempt;
  Why why;
  why.answer = Answer::fine;
  if (attempt.state == JobState::completed) {
    why.headline = "the job ended as it should: COMPLETED, and nothing that went wrong was seen";
  } else {
    why.headline = "the job runs, and nothing that went wrong was seen";
    if (std::string left = limit_text(input); !left.empty())
      why.evidence.push_back(std::move(left));
  }
  add_progress(input, why);
  if (input.diagnosis) {
    why.evidence.push_back(input.diagnosis->reason);
  }
  return why;
}

Why cannot_tell(const WhyInput& input, std::string headline) {
  Why why;
  why.answer = Answer::cannot_tell;
  why.headline = std::move(headline);
  add_progress(input, why);
  if (!input.attempt.std_out.empty())
    why.advice.push_back(fmt::format("see its output: {}", one_line(input.attempt.std_out)));
  if (!input.attempt.std_err.empty() && input.attempt.std_err != input.attempt.std_out) {
    why.advice.push_back(fmt::format("and its errors: {}", one_line(input.attempt.std_err)));
  }
  return why;
}

// Failures from which the ranks were started again (torchrun, a launcher with spares) are losses,
// not the answer. Slurm cuts its times to seconds: what it dates into the second in which they were
// started may have come after that.
void drop_recovered(const WhyInput& input, std::vector<Suspect>& suspects) {
  std::uint32_t newest = 0;
  for (const model::Rank& rank : input.ranks) newest = std::max(newest, rank.incarnation);
  if (newest == 0) return;
  std::optional<Time> began;
  for (const model::Rank& rank : input.ranks) {
    if (rank.incarnation == newest && (!began || rank.start < *began)) began = rank.start;
  }
  const Time second = std::chrono::floor<std::chrono::seconds>(*began);
  std::erase_if(suspects, [&](const Suspect& suspect) {
    return suspect.event.source == "slurm" ? suspect.event.time < second
                                           : suspect.event.time < *began;
  });
}

Why decide_by(const WhyInput& input, const std::vector<Suspect>& suspects) {
  const JobState state = input.attempt.state;
  const Suspect* first = first_cause(suspects);
  const bool bad_end = model::is_final(state) && state != JobState::completed;
  if (first != nullptr && (first->weight != Weight::consequence || bad_end)) {
    Why why = explain_cause(input, *first);
    constexpr Duration slurm_tick = std::chrono::seconds(1);  // its times are whole seconds
    if (const auto hang =
            input.attempt.end ? find_hang(input, *input.attempt.end + slurm_tick) : std::nullopt;
        hang && bad_end && first->event.kind == model::EventKind::job_state) {
      why.evidence.push_back("before that it may have hung: " + hang->headline);
      why.evidence.insert(why.evidence.end(), hang->evidence.begin(), hang->evidence.end());
    }
    return why;
  }
  if (state == JobState::running) {
    if (auto hang = find_hang(input, input.now)) return explain_cause(input, std::move(*hang));
  }
  if (state == JobState::suspended || state == JobState::stopped) {
    Why why = cannot_tell(input, "the job is suspended: it holds its place and does not run");
    why.answer = Answer::waiting;
    why.advice = {
        "jobs of higher priority or an operator suspend jobs; it goes on when they let it"};
    return why;
  }
  if (bad_end) {
    return cannot_tell(input, fmt::format("the job ended as {}, and what went wrong was not seen",
                                          model::name(state)));
  }
  if (state == JobState::unknown)
    return cannot_tell(input, "Slurm's state of the job is not known");
  if (input.diagnosis && input.diagnosis->outcome == Outcome::slow_rank) return explain_slow(input);
  return explain_fine(input);
}

Why decide(const WhyInput& input) {
  const JobState state = input.attempt.state;
  if (state == JobState::pending) return explain_pending(input);
  std::vector<Suspect> suspects = collect_suspects(input);
  const std::vector<Suspect> all = suspects;
  drop_recovered(input, suspects);
  if (suspects.size() < all.size()) {
    Why why = decide_by(input, suspects);
    why.evidence.push_back(
        fmt::format("the ranks were started again before, after: {}", first_cause(all)->headline));
    return why;
  }
  return decide_by(input, suspects);
}
}  // namespace

model::Why explain(const WhyInput& input) {
  Why why = decide(input);
  why.lost = losses_of(input);
  for (std::string& unknown : unknowns_of(input)) why.unknown.push_back(std::move(unknown));
  why.diagnosis = input.diagnosis;
  std::erase_if(why.advice, [](const std::string& advice) { return advice.empty(); });
  return why;
}

}  // namespace vetta::diagnose
