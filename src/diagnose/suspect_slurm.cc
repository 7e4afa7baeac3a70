// SPDX-License-Identifier: Apache-2.0
// What Slurm tells: nodes that failed, states of the job, and its accounting of steps and job
// script.
#include <algorithm>
#include <fmt/format.h>

#include "core/text.h"
#include "diagnose/suspect_detail.h"

namespace vetta::diagnose {
namespace {

using namespace std::chrono_literals;
using model::Answer;
using model::Event;
using model::EventKind;
using model::JobState;

// Where a node went: the words behind the last arrow of "IDLE -> DOWN" or "from IDLE to DOWN",
// without the reason, which is prose: "usable → DOWN: unable to kill a process".
std::string_view target_state(std::string_view message) {
  message = message.substr(0, message.find(": "));
  for (const std::string_view arrow : {" to ", "->", "→"}) {
    if (const std::size_t at = message.rfind(arrow); at != std::string_view::npos)
      return message.substr(at + arrow.size());
  }
  return message;
}

bool is_node_loss(const Event& event) {
  if (event.kind != EventKind::node_state) return false;
  const std::string_view state = target_state(event.message);
  for (const std::string_view word :
       {"DOWN", "FAIL", "NOT_RESP", "NO_RESP", "POWERED_DOWN", "UNKNOWN"}) {
    if (state.find(word) != std::string_view::npos) return true;
  }
  return false;
}

// A node that came back while the job went on, or that went down after a good end, explains only
// what nothing else does.
Weight weight_of_loss(const WhyInput& input, const Event& loss) {
  const model::Attempt& attempt = input.attempt;
  if (attempt.state == JobState::node_fail) return Weight::strong;
  if (attempt.state == JobState::completed && attempt.end && loss.time > *attempt.end)
    return Weight::consequence;
  const bool came_back =
      std::any_of(input.events.begin(), input.events.end(), [&](const Event& event) {
        return event.kind == EventKind::node_state && event.node == loss.node &&
               event.time > loss.time && !is_node_loss(event) &&
               (!attempt.end || event.time <= *attempt.end);
      });
  return came_back ? Weight::consequence : Weight::strong;
}

Suspect from_node(const WhyInput& input, Event event) {
  Suspect suspect;
  suspect.weight = weight_of_loss(input, event);
  suspect.answer = Answer::machine;
  suspect.headline =
      fmt::format("node {} failed", event.node.empty() ? input.attempt.nodes : event.node);
  if (!event.message.empty())
    suspect.evidence.push_back(fmt::format("node {}: {}", event.node, first_line(event.message)));
  for (const Event& other :
       input.events) {  // the agent falls silent before Slurm gives the node up
    if (other.kind != EventKind::agent_lost || other.node != event.node || other.time > event.time)
      continue;
    suspect.evidence.push_back(
        fmt::format("its agent fell silent {}", when_text(input, other.time)));
  }
  suspect.advice.push_back(
      fmt::format("nothing to mend in the job: submit again, from a checkpoint{}",
                  event.node.empty()
                      ? ""
                      : fmt::format(", with --exclude={} while it is not repaired", event.node)));
  suspect.event = std::move(event);
  return suspect;
}

Event state_event(const WhyInput& input, Time time) {
  Event event;
  event.time = time;
  event.kind = EventKind::job_state;
  event.message = input.attempt.state_text.empty() ? std::string(model::name(input.attempt.state))
                                                   : input.attempt.state_text;
  event.source = "slurm";
  return event;
}

std::string cancelled_by(const model::Attempt& attempt) {
  constexpr std::string_view by = "by ";
  const std::size_t at = attempt.state_text.rfind(by);
  if (at == std::string::npos) return "somebody (Slurm did not say who)";
  const Result<std::uint64_t> uid =
      parse_uint(trim(std::string_view(attempt.state_text).substr(at + by.size())));
  if (!uid) return "somebody (Slurm did not say who)";
  if (attempt.uid && *attempt.uid == *uid)
    return attempt.user.empty() ? "its owner"
                                : fmt::format("its owner, {}", one_line(attempt.user));
  if (*uid == 0) return "root: an operator, or Slurm itself";
  return fmt::format("another user, uid {}", *uid);
}

std::string progress_text(const WhyInput& input) {
  const std::optional<std::int64_t> furthest = furthest_step(input);
  if (!furthest) return {};
  if (!input.median_step) return fmt::format("it got to step {}", *furthest);
  return fmt::format("it got to step {}, at {} a step", *furthest, human(*input.median_step));
}

Suspect from_timeout(const WhyInput& input, Time end) {
  Suspect suspect;
  suspect.weight = Weight::strong;
  suspect.answer = Answer::limit;
  suspect.event = state_event(input, end);
  suspect.headline = input.attempt.time_limit ? fmt::format("the job reached its time limit of {}",
                                                            human(*input.attempt.time_limit))
                                              : std::string("the job reached its time limit");
  if (std::string progress = progress_text(input); !progress.empty())
    suspect.evidence.push_back(std::move(progress));
  suspect.advice.emplace_back(
      "ask for more with --time, or write checkpoints and continue from the last one");
  if (input.median_step && input.median_step->count() > 0) {
    suspect.advice.push_back(
        fmt::format("each further 1000 steps need about {}", human(*input.median_step * 1000)));
  }
  return suspect;
}

Suspect from_cancel(const WhyInput& input, Time end) {
  Suspect suspect;
  suspect.weight = Weight::strong;
  suspect.answer = Answer::cancelled;
  suspect.event = state_event(input, end);
  const bool dependency = input.attempt.reason.starts_with("Dependency");
  suspect.headline =
      fmt::format("the job was cancelled by {}{}", cancelled_by(input.attempt),
                  !input.attempt.start
                      ? ", before it started"
                      : fmt::format(", {} after its start", human(end - *input.attempt.start)));
  if (dependency) suspect.evidence.emplace_back("the job that it depended on did not end as asked");
  if (std::string progress = progress_text(input); !progress.empty())
    suspect.evidence.push_back(std::move(progress));
  suspect.advice.emplace_back("ask them, or submit again");
  return suspect;
}

struct StateRow {
  JobState state;
  Answer answer;
  const char* headline;
  const char* advice;
};

constexpr StateRow state_rows[] = {
    {JobState::preempted, Answer::cancelled,
     "Slurm took the job's nodes away for a job that goes before it (preempted)",
     "write checkpoints and submit with --requeue, or use a partition or QOS that is not "
     "preempted"},
    {JobState::deadline, Answer::limit, "the job ran into its deadline (--deadline)",
     "submit earlier, or with a later --deadline"},
    {JobState::boot_fail, Answer::machine, "a node of the job did not boot",
     "submit again; tell the operators the nodes' names"},
    {JobState::revoked, Answer::cancelled,
     "the job was started by another cluster of the federation", "look for it there"},
};

void add_state(const WhyInput& input, std::vector<Suspect>& suspects) {
  const model::Attempt& attempt = input.attempt;
  const Time end = attempt.end.value_or(input.now);
  if (attempt.state == JobState::timeout) suspects.push_back(from_timeout(input, end));
  if (attempt.state == JobState::cancelled) suspects.push_back(from_cancel(input, end));
  for (const StateRow& row : state_rows) {
    if (row.state != attempt.state) continue;
    suspects.push_back(
        {Weight::strong, row.answer, state_event(input, end), row.headline, {}, {row.advice}});
    if (std::string progress = progress_text(input); !progress.empty())
      suspects.back().evidence.push_back(std::move(progress));
  }
  const bool knows_node = std::any_of(suspects.begin(), suspects.end(),
                                      [](const Suspect& s) { return is_node_loss(s.event); });
  if (attempt.state == JobState::node_fail && !knows_node) {
    Event event = state_event(input, end);
    for (const Event& lost : input.events) {  // which node: the one whose agent fell silent
      if (lost.kind == EventKind::agent_lost && concerns(input, lost)) {
        event.node = lost.node;
        event.time = std::min(event.time, lost.time);
      }
    }
    suspects.push_back(from_node(input, std::move(event)));
  }
  if (attempt.reason.starts_with("JobLaunchFailure") && attempt.state == JobState::failed) {
    suspects.push_back({Weight::strong,
                        Answer::machine,
                        state_event(input, attempt.start.value_or(end)),
                        "Slurm could not start the job on its node",
                        {},
                        {"submit again; tell the operators the node's name"}});
  }
}

bool ran_steps(const WhyInput& input) {
  return !input.ranks.empty() ||
         std::any_of(input.steps.begin(), input.steps.end(), [](const model::Step& step) {
           return step.step_id != "batch" && step.step_id != "extern";
         });
}

// How a step or the job script ended, as accounting says it; `who` stands for the rank in the
// headline.
void add_accounted(const WhyInput& input, RankEnd end, std::string_view who,
                   std::vector<Suspect>& suspects) {
  read_signal(end);
  std::optional<Suspect> suspect = from_end(input, end);
  if (!suspect) return;
  suspect->headline.replace(0, who_text(-1, "").size(), who);
  suspect->event.message = suspect->headline;
  suspects.push_back(*std::move(suspect));
}

// Accounting, for jobs without ranks or whose ranks' ends nobody saw. The script ends after its
// steps and repeats their code, and a step after its ranks: what is seen of these tells more, and
// comes first.
void add_steps(const WhyInput& input, const std::vector<RankEnd>& ends,
               std::vector<Suspect>& suspects) {
  Time end = input.attempt.end.value_or(input.now);
  for (const RankEnd& rank : ends) end = std::max(end, rank.time);  // Slurm's end is a whole second
  const bool ran = ran_steps(input);
  for (const model::Step& step : input.steps) {
    if (step.step_id == "extern") continue;
    const bool is_batch = step.step_id == "batch";
    RankEnd accounted;
    accounted.time = step.end.value_or(end);
    accounted.exit_code = step.exit_code;
    accounted.exit_signal = step.exit_signal;
    if (!input.ranks.empty() || (is_batch && ran)) accounted.time = std::max(accounted.time, end);
    const std::string who =
        is_batch ? fmt::format("the job script{}", ran ? "" : ", which started no step,")
                 : fmt::format("step {} ({})", step.step_id, one_line(step.name, 60));
    add_accounted(input, accounted, who, suspects);
  }
  if (!input.steps.empty()) return;
  RankEnd script;
  script.time = end;
  script.exit_code = input.attempt.exit_code;
  script.exit_signal = input.attempt.exit_signal;
  if (input.attempt.state == JobState::failed)
    add_accounted(input, script, "the job script", suspects);
  script.exit_code = input.attempt.derived_exit_code;
  script.exit_signal = input.attempt.derived_exit_signal;
  if (input.attempt.state == JobState::completed)
    add_accounted(input, script, "one of its steps", suspects);
}

}  // namespace

void add_slurm_suspects(const WhyInput& input, const std::vector<RankEnd>& ends,
                        std::vector<Suspect>& suspects) {
  for (const Event& event : input.events) {
    if (is_node_loss(event) && concerns(input, event)) suspects.push_back(from_node(input, event));
  }
  add_state(input, suspects);
  add_steps(input, ends, suspects);
}

}  // namespace vetta::diagnose
