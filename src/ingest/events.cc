// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text.h"
#include "ingest/events_detail.h"

namespace vetta::ingest {
namespace {

using model::Attempt;
using model::Event;
using model::EventKind;
using model::JobState;

std::string dedup_of(const model::AttemptKey& key, std::string_view what) {
  return fmt::format("job:{}:{}:{}:{}", key.cluster, key.job_id, epoch_seconds(key.submit), what);
}

Event job_event(const Attempt& attempt, Time time, std::string_view what, std::string message) {
  Event e;
  e.time = time;
  e.kind = EventKind::job_state;
  e.attempt = attempt.key;
  e.message = std::move(message);
  e.source = "slurm";
  e.dedup = dedup_of(attempt.key, what);
  return e;
}

bool has_started(const Attempt& attempt) {
  return attempt.start && attempt.state != JobState::pending;
}

Event ended(const Attempt& attempt) {
  const auto from = has_started(attempt) ? "RUNNING" : "PENDING";
  std::string message = fmt::format("{} → {}", from, model::name(attempt.state));
  if (attempt.exit_code && *attempt.exit_code != 0)
    message += fmt::format(", exit code {}", *attempt.exit_code);
  if (attempt.exit_signal && *attempt.exit_signal != 0)
    message += fmt::format(", signal {}", *attempt.exit_signal);
  if (!attempt.reason.empty() && attempt.reason != "None")
    message += ", " + one_line(attempt.reason);
  Event e = job_event(attempt, attempt.end.value_or(attempt.key.submit), "ended", message);
  e.exit_code = attempt.exit_code;
  e.exit_signal = attempt.exit_signal;
  return e;
}

/// Words that say that work comes and goes, not how the node is.
constexpr std::array busy_words{"IDLE",     "MIXED",   "ALLOCATED",  "COMPLETING",
                                "RESERVED", "PLANNED", "ALLOCATED+", "PERFCTRS"};

std::string standing(const model::Node& node) {
  std::vector<std::string_view> words;
  for (const auto& word : node.states)
    if (std::ranges::find(busy_words, word) == busy_words.end()) words.push_back(word);
  if (words.empty()) return "usable";
  return fmt::format("{}", fmt::join(words, "+"));
}

}  // namespace

std::vector<Event> events_of(const Attempt& attempt, bool is_inferred) {
  std::vector<Event> out;
  const bool is_final = model::is_final(attempt.state);
  if (has_started(attempt)) {
    out.push_back(job_event(attempt, *attempt.start, "started",
                            fmt::format("PENDING → RUNNING on {}", one_line(attempt.nodes))));
  }
  for (const auto& span : attempt.suspended) {
    const auto start = epoch_nanoseconds(span.start);
    out.push_back(
        job_event(attempt, span.start, fmt::format("suspended:{}", start), "RUNNING → SUSPENDED"));
    if (!span.end || is_final) continue;
    out.push_back(
        job_event(attempt, *span.end, fmt::format("resumed:{}", start), "SUSPENDED → RUNNING"));
  }
  if (is_final && !is_inferred) out.push_back(ended(attempt));
  return out;
}

std::optional<Event> event_of(const std::string& cluster, const std::optional<model::Node>& before,
                              const model::Node& after, Time as_of) {
  const std::string now = standing(after);
  const std::string then = before ? standing(*before) : "usable";
  if (now == then && (!before || before->reason == after.reason)) return std::nullopt;
  Event e;
  e.time = as_of;
  e.kind = EventKind::node_state;
  e.node = after.name;
  e.message = fmt::format("{} → {}", then, now);
  if (!after.reason.empty()) e.message += ": " + one_line(after.reason);
  e.source = "slurm";
  e.dedup = fmt::format("node:{}:{}:{}:{}", cluster, after.name, now, epoch_nanoseconds(as_of));
  return e;
}

std::optional<Event> event_of(const model::Rank& rank) {
  const bool by_signal = rank.exit_signal.value_or(0) != 0;
  if (!rank.end || (!by_signal && rank.exit_code.value_or(0) == 0)) return std::nullopt;
  Event e;
  e.time = *rank.end;
  e.kind = by_signal ? EventKind::signal : EventKind::rank_exit;
  e.node = rank.node;
  e.rank = rank.rank;
  e.rank_id = rank.rank_id;
  e.exit_code = rank.exit_code;
  e.exit_signal = rank.exit_signal;
  const std::string who =
      rank.rank >= 0 ? fmt::format("rank {}", rank.rank) : fmt::format("process {}", rank.pid);
  if (by_signal) {
    const char* name = sigabbrev_np(*rank.exit_signal);
    e.message = fmt::format("{} was ended by signal {}{}", who, *rank.exit_signal,
                            name != nullptr ? fmt::format(" (SIG{})", name) : "");
  } else {
    e.message = fmt::format("{} ended with exit code {}", who, *rank.exit_code);
  }
  e.source = "agent";
  e.dedup = fmt::format("rank_exit:{:016x}", rank.rank_id);
  return e;
}

}  // namespace vetta::ingest
