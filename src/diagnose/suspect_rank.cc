// SPDX-License-Identifier: Apache-2.0
// What ranks themselves tell: exceptions, kills for memory, signals and exit codes.
#include <algorithm>
#include <fmt/format.h>

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

constexpr Duration oom_slack = 60s;  // between a kernel's line and the end of the rank
constexpr int sigint = 2, sigabrt = 6, sigbus = 7, sigkill = 9, sigterm = 15, sighup = 1,
              sigxcpu = 24, sigxfsz = 25;

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
  event.source = end.rank_id != 0 ? "agent" : "slurm";
  return event;
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

bool has_oom_state(const WhyInput& input) {
  return input.attempt.state == JobState::out_of_memory ||
         std::any_of(input.steps.begin(), input.steps.end(),
                     [](const model::Step& step) { return step.state == JobState::out_of_memory; });
}

Event oom_event(const WhyInput& input) {
  Event event;
  event.time = input.attempt.end.value_or(input.now);
  event.kind = EventKind::oom_kill;
  event.message = "Slurm's accounting says OUT_OF_MEMORY";
  event.source = "slurm";
  return event;
}

const RankEnd* first_killed(const std::vector<RankEnd>& ends) {
  const RankEnd* killed = nullptr;
  for (const RankEnd& end : ends) {
    if (end.exit_signal == sigkill && (killed == nullptr || end.time < killed->time)) killed = &end;
  }
  return killed;
}

bool is_told_by_exception(const WhyInput& input, const RankEnd& end) {
  return std::any_of(input.events.begin(), input.events.end(), [&](const Event& event) {
    return event.kind == EventKind::exception && is_same_rank(event, end) && concerns(input, event);
  });
}

}  // namespace

std::optional<Suspect> from_end(const WhyInput& input, const RankEnd& end) {
  if (end.exit_signal) return from_signal(input, end);
  if (end.exit_code && *end.exit_code != 0) return from_exit(input, end);
  return std::nullopt;
}

void add_rank_suspects(const WhyInput& input, const std::vector<RankEnd>& ends,
                       std::vector<Suspect>& suspects) {
  std::vector<const RankEnd*> explained;  // by an out-of-memory kill
  for (const Event& event : input.events) {
    if (!concerns(input, event)) continue;
    if (event.kind == EventKind::exception) suspects.push_back(from_exception(input, event));
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
  for (const RankEnd& end : ends) {
    if (std::find(explained.begin(), explained.end(), &end) != explained.end()) continue;
    if (!end.exit_signal && is_told_by_exception(input, end)) continue;
    if (std::optional<Suspect> suspect = from_end(input, end))
      suspects.push_back(*std::move(suspect));
  }
}

}  // namespace vetta::diagnose
