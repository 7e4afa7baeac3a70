// SPDX-License-Identifier: Apache-2.0
// Events, findings, and what Vetta concludes from them. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "model/job.h"
#include "model/rank.h"

namespace vetta::model {

enum class EventKind : std::uint8_t {
  job_state,   ///< a job changed its state; message says from what to what
  node_state,  ///< a node changed its state
  rank_start,
  rank_exit,
  exception,  ///< an uncaught exception or a fatal message that the probe saw
  oom_kill,   ///< the kernel's out-of-memory killer ended a process
  signal,     ///< a rank ended by a signal
  hang,       ///< ranks stopped stepping
  gap,        ///< something could not be observed; message says what and why
  agent_lost,
  agent_back,
  source_lost,
  source_back,  ///< slurmctld or slurmdbd stopped or began to answer
};

[[nodiscard]] std::string_view name(EventKind kind);
[[nodiscard]] std::optional<EventKind> parse_event_kind(std::string_view text);

struct Event {
  std::uint64_t id = 0;  ///< rises by order of arrival; 0 before it is kept
  Time time;             ///< when it happened
  EventKind kind = EventKind::gap;
  std::optional<AttemptKey> attempt;
  std::string node;
  std::int32_t rank = -1;
  std::uint64_t rank_id = 0;
  std::optional<int> exit_code, exit_signal;
  std::string message;  ///< one line
  std::string detail;   ///< traceback, kernel line, …; bounded
  std::string source;   ///< who saw it: "slurm", "spank", "probe", "kernel", "agent"
  std::string dedup;    ///< equal for the same happening seen twice; unique in records
};

enum class CauseClass : std::uint8_t { none, compute, data, communication, unknown };
[[nodiscard]] std::string_view name(CauseClass cause);

enum class Outcome : std::uint8_t {
  nothing_wrong,        ///< enough was seen and no rank stands out
  slow_rank,            ///< one rank holds the others
  not_distinguishable,  ///< what was seen cannot tell; `reason` says why
};
[[nodiscard]] std::string_view name(Outcome outcome);

/// One rank against its peers, in ratios: 1.0 is the peers' median.
struct RankSlowdown {
  std::int32_t rank = -1;
  std::string node;
  double own = 1;  ///< own work (all phases but allreduce) against the peers' median
  std::vector<std::optional<double>> phases;  ///< by Phase; empty where not measured
  double share_last = 0;  ///< share of steps in which this rank was the last to finish its own work
};

/// The first diagnosis: from marks alone.
struct Diagnosis {
  Outcome outcome = Outcome::not_distinguishable;
  std::string reason;      ///< one sentence that a researcher understands
  std::int32_t rank = -1;  ///< the rank that holds the others, for slow_rank
  std::string node;
  std::optional<Phase> phase;  ///< where its extra time lies
  CauseClass cause = CauseClass::none;
  double lost_share = 0;      ///< of step time: gain if this rank were at its peers' median
  Duration lost_time{};       ///< lost_share over the steps judged, wall time of the job
  Duration lost_rank_time{};  ///< the same, summed over all ranks that waited
  double persistence = 0;     ///< share of steps in which the rank was the last
  double confidence = 0;      ///< 0..1
  std::optional<std::int64_t> since_step;  ///< the first step from which it holds the others
  std::int64_t steps = 0;                  ///< judged, after warm-up
  Duration median_step{};
  std::vector<RankSlowdown> ranks;
  std::vector<std::string> evidence;  ///< sentences with figures
};

/// "my code, my data, or your machine?"
enum class Answer : std::uint8_t {
  fine,
  code,
  data,
  machine,
  limit,
  cancelled,
  waiting,
  slow_rank,
  cannot_tell,
};
[[nodiscard]] std::string_view name(Answer answer);

struct Loss {
  std::string what;  ///< "waiting in the queue", "restarts", "waiting for rank 5"
  Duration time{};   ///< wall time of the job
  std::string note;
};

struct Why {
  Answer answer = Answer::cannot_tell;
  std::string headline;        ///< one sentence: what happened
  std::optional<Event> first;  ///< the first event that went wrong
  std::vector<std::string> evidence;
  std::vector<Loss> lost;
  std::vector<std::string> advice;
  std::optional<Diagnosis> diagnosis;
  std::vector<std::string> unknown;  ///< what could not be seen, each with its reason
};

/// A judgement that is kept: about an attempt, a node or a rank.
struct Finding {
  std::uint64_t id = 0;
  Time time;
  std::string kind;  ///< "slow_rank", "why", …
  std::optional<AttemptKey> attempt;
  std::string node;
  std::int32_t rank = -1;
  std::string message;
  std::string json;  ///< the whole judgement in its one JSON form
};

}  // namespace vetta::model
