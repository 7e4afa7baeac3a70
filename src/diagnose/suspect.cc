// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "core/text.h"
#include "diagnose/message_detail.h"
#include "diagnose/suspect_detail.h"

namespace vetta::diagnose {
namespace {

using namespace std::chrono_literals;
using model::Answer;
using model::Event;
using model::EventKind;
using model::JobState;

constexpr Duration end_slack =
    5s;  // Slurm writes whole seconds, and its signals come around a job's end
constexpr Duration oom_slack = 60s;  // between a kernel's line and the end of the rank
constexpr Duration strong_bonus =
    1s;  // clocks and polls differ: the better explanation wins within it
constexpr Duration node_after_end = 120s;  // a node's failure may be seen after the job's end
constexpr int sigint = 2, sigabrt = 6, sigbus = 7, sigkill = 9, sigterm = 15, sighup = 1,
              sigxcpu = 24, sigxfsz = 25;

std::string first_line(const std::string& text) {
  return one_line(text, 300);
}

// From when on the end of a rank says nothing, for Slurm was ending the job for a reason of its
// own.
std::optional<Time> cut_of(const model::Attempt& attempt) {
  switch (attempt.state) {
    case JobState::timeout:
    case JobState::cancelled:
    case JobState::preempted:
    case JobState::deadline:
    case JobState::node_fail:
      if (attempt.end) return *attempt.end - end_slack;
      return std::nullopt;
    default: return std::nullopt;
  }
}

bool is_after_cut(const WhyInput& input, Time time) {
  const std::optional<Time> cut = cut_of(input.attempt);
  return cut && time >= *cut;
}

Event event_of(const RankEnd& end, EventKind kind) {
  Event event;
  event.time = end.time;
  event.kind = kind;
  event.node = end.node;
  event.rank = end.rank;
  event.rank_id = end.rank_id;
  event.exit_code = end.exit_code;
  event.exit_signal = end.exit_signal;
  event.source = "slurm";
  return event;
}

bool is_same_rank(const Event& event, const RankEnd& end) {
  if (event.rank_id != 0 && end.rank_id != 0 && event.rank_id == end.rank_id) return true;
  return event.rank >= 0 && event.rank == end.rank;
}

Suspect from_exception(const WhyInput& input, const Event& event) {
  const Meaning& meaning = meaning_of(event.message);
  Suspect suspect;
  suspect.event = event;
  suspect.answer = meaning.answer;
  suspect.weight = meaning.is_consequence || is_after_cut(input, event.time) ? Weight::consequence
                                                                             : Weight::strong;
  suspect.headline = fmt::format("{}: {}: {}", who_text(event.rank, event.node), meaning.what,
                                 first_line(event.message));
  if (const std::string place = place_in(event.detail); !place.empty()) {
    suspect.evidence.push_back(fmt::format("the traceback ends at {}", one_line(place)));
  }
  if (const std::string_view path = path_in(event.message); !path.empty()) {
    suspect.evidence.push_back(
        fmt::format("the path is {}{}", one_line(path),
                    path.starts_with("/dev/shm") ? ", which is the node's memory" : ""));
  }
  suspect.advice.emplace_back(meaning.advice);
  return suspect;
}

// The rank that the kernel killed: the pid stands in its line, else the one killed on that node at
// about that time.
const RankEnd* killed_by(const Event& oom, const std::vector<RankEnd>& ends) {
  const RankEnd* near = nullptr;
  for (const RankEnd& end : ends) {
    if (end.node != oom.node && !oom.node.empty()) continue;
    const bool by_name =
        (end.pid > 0 && (oom.message + oom.detail).find(fmt::format("rocess {} ", end.pid)) !=
                            std::string::npos) ||
        is_same_rank(oom, end);
    if (by_name) return &end;
    const Duration apart = end.time > oom.time ? end.time - oom.time : oom.time - end.time;
    if (end.exit_signal == sigkill && apart <= oom_slack &&
        (near == nullptr || end.time < near->time))
      near = &end;
  }
  return near;
}

Suspect from_oom(const WhyInput& input, Event event, const RankEnd* killed) {
  if (killed != nullptr) {
    event.rank = killed->rank;
    event.rank_id = killed->rank_id;
    if (event.node.empty()) event.node = killed->node;
    event.time = std::min(event.time, killed->time);
    if (!event.exit_signal) event.exit_signal = killed->exit_signal;
  }
  const std::string line = event.message + " " + event.detail;
  const bool whole_node = line.find("CONSTRAINT_NONE") != std::string::npos ||
                          (line.find("Out of memory: Kill") != std::string::npos &&
                           line.find("emory cgroup") == std::string::npos);
  Suspect suspect;
  suspect.weight = Weight::strong;
  suspect.answer = whole_node ? Answer::machine : Answer::code;
  suspect.headline =
      whole_node ? fmt::format("{} was killed because the whole node was out of memory",
                               who_text(event.rank, event.node))
                 : fmt::format("{} was killed because it used more memory than the job may have",
                               who_text(event.rank, event.node));
  if (!event.message.empty()) suspect.evidence.push_back(first_line(event.message));
  for (const model::Step& step : input.steps) {
    if (step.max_rss_bytes) {
      suspect.evidence.push_back(
          fmt::format("the largest task of step {} held {:.1f} GiB at its last sample",
                      step.step_id, static_cast<double>(*step.max_rss_bytes) / (1U << 30U)));
    }
  }
  suspect.advice.emplace_back(whole_node ? "whose memory it was cannot be told: ask for the memory "
                                           "that the job needs with --mem, and tell the operators"
                                         : "ask for more with --mem, use fewer loader workers or a "
                                           "smaller batch, or read the data in parts");
  suspect.event = std::move(event);
  return suspect;
}

struct SignalRow {
  Answer answer;
  Weight weight;
  const char* what;
  const char* advice;
};

SignalRow signal_row(int number) {
  switch (number) {
    case sigkill:
      return {Answer::cannot_tell, Weight::plain,
              "was killed from outside (SIGKILL); no out-of-memory kill was seen",
              "who sent it was not seen: a person, a watchdog, or memory limits outside of Slurm; "
              "ask on that node"};
    case sigterm:
    case sigint:
    case sighup:
      return {Answer::cannot_tell, Weight::plain, "was told to end",
              "see who sent the signal: the job script, a person or "
              "another program"};
    case sigabrt:
      return {Answer::code, Weight::plain, "aborted",
              "see the last lines of its output; NCCL's watchdog ends ranks like that, too"};
    case sigbus:
      return {Answer::code, Weight::strong, "died of a bus error",
              "often /dev/shm is full or a mapped file was cut short: fewer loader workers, or df "
              "/dev/shm on that node"};
    case sigxcpu:
      return {Answer::limit, Weight::strong, "used up its limit of processor time",
              "see ulimit -t"};
    case sigxfsz:
      return {Answer::limit, Weight::strong, "wrote a file larger than its limit", "see ulimit -f"};
    default:
      return {Answer::code, Weight::strong, "crashed in native code",
              "run with PYTHONFAULTHANDLER=1 to see where"};
  }
}

Suspect from_signal(const WhyInput& input, const RankEnd& end) {
  const SignalRow row = signal_row(*end.exit_signal);
  Suspect suspect;
  suspect.event = event_of(end, EventKind::signal);
  suspect.answer = row.answer;
  suspect.weight = is_after_cut(input, end.time) ? Weight::consequence : row.weight;
  if (input.attempt.state == JobState::completed && *end.exit_signal == sigterm)
    suspect.weight = Weight::consequence;
  suspect.headline = fmt::format("{} {}", who_text(end.rank, end.node), row.what);
  if (*end.exit_signal != sigkill)
    suspect.headline += fmt::format(" ({})", signal_text(*end.exit_signal));
  suspect.advice.emplace_back(row.advice);
  return suspect;
}

std::string_view exit_what(int code) {
  if (code == 127) return ": the shell did not find the command";
  if (code == 126) return ": the command may not be executed";
  return "";
}

std::string exit_advice(int code) {
  if (code == 127)
    return "check the name and PATH in the job script: is the environment activated?";
  if (code == 126) return "check that the file is executable and made for this machine";
  return "see the last lines of its output";
}

Suspect from_exit(const WhyInput& input, const RankEnd& end) {
  Suspect suspect;
  suspect.event = event_of(end, EventKind::rank_exit);
  suspect.answer = Answer::code;
  suspect.weight = is_after_cut(input, end.time) ? Weight::consequence : Weight::plain;
  suspect.headline = fmt::format("{} ended with exit code {}{}", who_text(end.rank, end.node),
                                 *end.exit_code, exit_what(*end.exit_code));
  suspect.advice.push_back(exit_advice(*end.exit_code));
  return suspect;
}

// Where a node went: the words behind the last arrow of "IDLE -> DOWN" or "from IDLE to DOWN".
std::string_view target_state(std::string_view message) {
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

Suspect from_node(const WhyInput& input, Event event) {
  Suspect suspect;
  suspect.weight = Weight::strong;
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
  if (end.exit_signal && *end.exit_signal == 0) end.exit_signal.reset();
  if (end.exit_code && !end.exit_signal) end.exit_signal = signal_of_exit(*end.exit_code);
  if (end.exit_signal) {
    suspects.push_back(from_signal(input, end));
  } else if (end.exit_code && *end.exit_code != 0) {
    suspects.push_back(from_exit(input, end));
  } else {
    return;
  }
  Suspect& suspect = suspects.back();
  suspect.headline.replace(0, who_text(-1, "").size(), who);
  suspect.event.message = suspect.headline;
}

// Accounting, for jobs without ranks or whose ranks' ends nobody saw. The script ends after its
// steps and repeats their code, and a step after its ranks: what is seen of these tells more, and
// comes first.
void add_steps(const WhyInput& input, std::vector<Suspect>& suspects) {
  const Time end = input.attempt.end.value_or(input.now);
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

bool has_oom_state(const WhyInput& input) {
  return input.attempt.state == JobState::out_of_memory ||
         std::any_of(input.steps.begin(), input.steps.end(),
                     [](const model::Step& step) { return step.state == JobState::out_of_memory; });
}

Event oom_event(const WhyInput& input) {
  Event event = state_event(input, input.attempt.end.value_or(input.now));
  event.kind = EventKind::oom_kill;
  event.message = "Slurm's accounting says OUT_OF_MEMORY";
  return event;
}

const RankEnd* first_killed(const std::vector<RankEnd>& ends) {
  const RankEnd* killed = nullptr;
  for (const RankEnd& end : ends) {
    if (end.exit_signal == sigkill && (killed == nullptr || end.time < killed->time)) killed = &end;
  }
  return killed;
}

void add_ends(const WhyInput& input, const std::vector<RankEnd>& ends,
              std::vector<const RankEnd*> explained, std::vector<Suspect>& suspects) {
  for (const RankEnd& end : ends) {
    if (std::find(explained.begin(), explained.end(), &end) != explained.end()) continue;
    if (end.exit_signal) {
      suspects.push_back(from_signal(input, end));
      continue;
    }
    if (!end.exit_code || *end.exit_code == 0) continue;
    const bool told =
        std::any_of(input.events.begin(), input.events.end(), [&](const Event& event) {
          return event.kind == EventKind::exception && is_same_rank(event, end) &&
                 concerns(input, event);
        });
    if (!told) suspects.push_back(from_exit(input, end));
  }
}

}  // namespace

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
  for (RankEnd& end : ends) {
    if (end.exit_signal && *end.exit_signal == 0) end.exit_signal.reset();
    if (end.exit_code && !end.exit_signal) end.exit_signal = signal_of_exit(*end.exit_code);
  }
  return ends;
}

std::vector<Suspect> collect_suspects(const WhyInput& input) {
  std::vector<Suspect> suspects;
  const std::vector<RankEnd> ends = ends_of(input);
  std::vector<const RankEnd*> explained;  // by an out-of-memory kill
  for (const Event& event : input.events) {
    if (!concerns(input, event)) continue;
    if (event.kind == EventKind::exception) suspects.push_back(from_exception(input, event));
    if (is_node_loss(event)) suspects.push_back(from_node(input, event));
    if (event.kind == EventKind::oom_kill) {
      const RankEnd* killed = killed_by(event, ends);
      if (killed != nullptr) explained.push_back(killed);
      suspects.push_back(from_oom(input, event, killed));
    }
  }
  if (explained.empty() && has_oom_state(input)) {
    const RankEnd* killed = first_killed(ends);
    if (killed != nullptr) explained.push_back(killed);
    suspects.push_back(from_oom(input, oom_event(input), killed));
  }
  add_ends(input, ends, std::move(explained), suspects);
  add_state(input, suspects);
  add_steps(input, suspects);
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
