// SPDX-License-Identifier: Apache-2.0
// Words of the model: each enumerator's one spelling, and the way back.
#include <array>
#include <optional>
#include <string_view>

#include "model/cluster.h"
#include "model/job.h"
#include "model/judgement.h"
#include "model/rank.h"

namespace vetta::model {
namespace {

struct StateWord {
  JobState state;
  std::string_view word;
  std::string_view letters;  ///< squeue's compact form
};

constexpr std::array state_words = {
    StateWord{JobState::pending, "PENDING", "PD"},
    StateWord{JobState::configuring, "CONFIGURING", "CF"},
    StateWord{JobState::running, "RUNNING", "R"},
    StateWord{JobState::suspended, "SUSPENDED", "S"},
    StateWord{JobState::stopped, "STOPPED", "ST"},
    StateWord{JobState::completing, "COMPLETING", "CG"},
    StateWord{JobState::resizing, "RESIZING", "RS"},
    StateWord{JobState::signaling, "SIGNALING", "SI"},
    StateWord{JobState::stage_out, "STAGE_OUT", "SO"},
    StateWord{JobState::completed, "COMPLETED", "CD"},
    StateWord{JobState::cancelled, "CANCELLED", "CA"},
    StateWord{JobState::failed, "FAILED", "F"},
    StateWord{JobState::timeout, "TIMEOUT", "TO"},
    StateWord{JobState::node_fail, "NODE_FAIL", "NF"},
    StateWord{JobState::preempted, "PREEMPTED", "PR"},
    StateWord{JobState::boot_fail, "BOOT_FAIL", "BF"},
    StateWord{JobState::deadline, "DEADLINE", "DL"},
    StateWord{JobState::out_of_memory, "OUT_OF_MEMORY", "OOM"},
    StateWord{JobState::requeued, "REQUEUED", "RQ"},
    StateWord{JobState::revoked, "REVOKED", "RV"},
};

template <typename Enum, std::size_t Size>
std::optional<Enum> find(const std::array<std::string_view, Size>& words, std::string_view text,
                         std::size_t first = 0) {
  for (std::size_t i = first; i < Size; ++i)
    if (words.at(i) == text) return static_cast<Enum>(i);
  return std::nullopt;
}

template <typename Enum, std::size_t Size>
std::string_view word(const std::array<std::string_view, Size>& words, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < Size ? words.at(index) : std::string_view("unknown");
}

constexpr std::array<std::string_view, phase_count> phases = {"data", "forward", "backward",
                                                              "optimizer", "allreduce"};
constexpr std::array<std::string_view, 3> mark_sources = {"", "hand", "injected"};
constexpr std::array<std::string_view, 4> rank_sources = {"", "spank", "probe", "environment"};
constexpr std::array<std::string_view, 13> event_kinds = {
    "job_state", "node_state", "rank_start", "rank_exit",  "exception",   "oom_kill",   "signal",
    "hang",      "gap",        "agent_lost", "agent_back", "source_lost", "source_back"};
constexpr std::array<std::string_view, 5> causes = {"none", "compute", "data", "communication",
                                                    "unknown"};
constexpr std::array<std::string_view, 3> outcomes = {"nothing_wrong", "slow_rank",
                                                      "not_distinguishable"};
constexpr std::array<std::string_view, 9> answers = {
    "fine", "code", "data", "machine", "limit", "cancelled", "waiting", "slow_rank", "cannot_tell"};
constexpr std::array<std::string_view, 3> knowledges = {"known", "gone", "could_not_ask"};

}  // namespace

std::string_view name(JobState state) {
  for (const StateWord& row : state_words)
    if (row.state == state) return row.word;
  return "UNKNOWN";
}

JobState parse_job_state(std::string_view text) {
  const std::string_view first = text.substr(0, text.find_first_of(" +*"));
  for (const StateWord& row : state_words)
    if (row.word == first || row.letters == first) return row.state;
  return JobState::unknown;
}

bool is_final(JobState state) {
  return state >= JobState::completed && state <= JobState::revoked;
}

bool holds_nodes(JobState state) {
  return state >= JobState::configuring && state <= JobState::stage_out;
}

std::string_view name(Phase phase) {
  return word(phases, phase);
}

std::optional<Phase> parse_phase(std::string_view text) {
  return find<Phase>(phases, text);
}

std::string_view name(MarkSource source) {
  return word(mark_sources, source);
}

std::string_view name(RankSource source) {
  return word(rank_sources, source);
}

std::string_view name(EventKind kind) {
  return word(event_kinds, kind);
}

std::optional<EventKind> parse_event_kind(std::string_view text) {
  return find<EventKind>(event_kinds, text);
}

std::string_view name(CauseClass cause) {
  return word(causes, cause);
}

std::string_view name(Outcome outcome) {
  return word(outcomes, outcome);
}

std::string_view name(Answer answer) {
  return word(answers, answer);
}

std::string_view name(Knowledge knowledge) {
  return word(knowledges, knowledge);
}

bool is_usable(const Node& node) {
  constexpr std::array<std::string_view, 4> base = {"IDLE", "MIXED", "ALLOCATED", "COMPLETING"};
  constexpr std::array<std::string_view, 14> bad = {
      "DOWN",          "DRAIN", "DRAINED",        "DRAINING",     "FAIL",
      "FAILING",       "ERROR", "NOT_RESPONDING", "POWERED_DOWN", "REBOOT",
      "REBOOT_ISSUED", "INVAL", "INVALID_REG",    "FUTURE"};
  bool has_base = false;
  for (const std::string& state : node.states) {
    for (const std::string_view word : base) has_base |= state == word;
    for (const std::string_view word : bad)
      if (state == word) return false;
  }
  return has_base;
}

}  // namespace vetta::model
