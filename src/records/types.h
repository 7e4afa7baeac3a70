// SPDX-License-Identifier: Apache-2.0
// Rows of the records database as plain data, and the filters that pages are asked with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/time.h"
#include "model/cluster.h"
#include "model/job.h"
#include "model/judgement.h"
#include "model/rank.h"

namespace vetta::records {

/// Row of an attempt; stable while the attempt is kept, never used again after it.
using AttemptId = std::int64_t;

/// Who told how an attempt stands, in rising order of trust in its end.
enum class ViewSource : std::uint8_t {
  inferred = 1,    ///< concluded (a later attempt of the same job is there)
  controller = 2,  ///< slurmctld
  accounting = 3,  ///< slurmdbd
};

struct AttemptRow {
  AttemptId id = 0;
  model::Attempt attempt;
  std::uint32_t number = 1;    ///< 1 is the job's first try, 2 the one after a requeue, …
  bool is_superseded = false;  ///< a later attempt of the same job is known
  ViewSource source = ViewSource::controller;  ///< of the state
  Time as_of;              ///< when the source said what is kept here (of the last change)
  std::string gap;         ///< why the end is not known although Slurm lists it no longer
  bool is_sealed = false;  ///< its file of marks is closed
};

struct Incarnation {
  std::uint32_t number = 0;  ///< from 0, in order of first sight
  std::string step_id;
  std::uint32_t elastic_restart = 0;
  Time start;               ///< of its first rank
  std::optional<Time> end;  ///< of its last rank, when all have ended
  std::uint32_t ranks = 0;  ///< registered
  std::int32_t world_size = -1;
};

struct RankRow {
  model::Rank rank;
  AttemptId attempt = 0;
  std::uint64_t overwritten = 0;        ///< marks lost because its ring was full
  std::optional<model::RankNow> now{};  ///< where it stayed long enough to tell, or ended
};

/// An attempt not known to have ended.
struct OpenAttempt {
  AttemptId id = 0;
  model::AttemptKey key;
  bool has_gap = false;
};

/// A value and the time at which Slurm told it.
template <typename T>
struct Known {
  T value;
  Time as_of;
};

/// What Slurm tells of a cluster, each in an answer of its own.
enum class Listing { jobs, nodes, partitions };

inline constexpr std::size_t filter_values_max = 200;  ///< of each list in a JobFilter

/// Which jobs; empty members do not filter. The window asks for jobs that existed within it.
struct JobFilter {
  std::string cluster{};
  std::vector<std::string> users{}, accounts{}, partitions{};
  std::optional<std::uint32_t> uid{};
  std::vector<model::JobState> states{};
  std::string name_contains{};  ///< bytes; ASCII letters match without regard to case
  std::optional<std::uint64_t> array_job_id{}, het_job_id{};
  std::string node{};  ///< held an allocation there
  std::optional<Time> from{}, to{};
  bool active_only = false;
  bool all_attempts = false;  ///< also those that a requeue has superseded
};

/// Where a page begins: strictly after this row in falling order of (submit, id).
struct JobCursor {
  Time submit;
  AttemptId id = 0;
};

struct JobPage {
  std::vector<AttemptRow> rows;   ///< newest submit first
  std::optional<JobCursor> next;  ///< empty: no more
};

struct StateCount {
  model::JobState state = model::JobState::unknown;
  std::uint64_t jobs = 0;
};

struct JobCounts {
  std::vector<StateCount> states;
  std::uint64_t total = 0;
  bool is_capped = false;  ///< counting stopped at the limit: there are more
};

struct EventFilter {
  std::uint64_t after_id = 0;  ///< strictly after
  std::optional<AttemptId> attempt{};
  std::optional<std::uint32_t> uid{};  ///< of this user's jobs, or of no job and no rank
  std::string cluster{}, node{};
  std::optional<AttemptId> nodes_of{};  ///< of a node that this attempt held, or of no node
  std::vector<model::EventKind> kinds{};
  std::optional<Time> from{}, to{};
  bool newest_first = false;
  std::size_t limit = 1000;  ///< at most 10,000
};

/// An agent as records know it.
struct AgentRow {
  std::uint64_t agent_id = 0;
  std::string cluster{}, node{}, version{};
  Time last_batch{};
  std::uint64_t dropped_batches = 0;
};

/// What an agent said of a rank whose job is not known yet: an encoded model::Batch with that rank
/// alone. A rank has one row that registers it, with its job id, and some with the rest, without.
struct Unplaced {
  std::int64_t id = 0;
  std::uint64_t rank_id = 0;
  std::string cluster;
  std::uint64_t job_id = 0;  ///< 0: no registration
  Time seen;
  std::string frame;
};

}  // namespace vetta::records
