// SPDX-License-Identifier: Apache-2.0
// Ranks of a training job, what they did (marks) and what they used (samples). Plain data.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"

namespace vetta::model {

/// Phases of a training step, in the order in which they are stored and shown.
enum class Phase : std::uint8_t { data, forward, backward, optimizer, allreduce };
inline constexpr std::size_t phase_count = 5;
[[nodiscard]] std::string_view name(Phase phase);
[[nodiscard]] std::optional<Phase> parse_phase(std::string_view text);

enum class MarkSource : std::uint8_t { hand = 1, injected = 2 };
[[nodiscard]] std::string_view name(MarkSource source);

inline constexpr double missing_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr Duration missing_duration = Duration(-1);

/// One training step of one rank. `allreduce` is time spent in or waiting for collectives and is
/// not contained in the other phases; what no phase covers is the step's rest.
struct Mark {
  std::uint64_t sequence = 0;  ///< counts from 1 within a rank registration
  std::int64_t step = 0;
  Time start;  ///< wall clock of vettad's host: the agent has added its measured offset
  Duration duration{};
  std::array<Duration, phase_count> phases{missing_duration, missing_duration, missing_duration,
                                           missing_duration, missing_duration};
  double samples = missing_number;  ///< items trained on in this step
  double loss = missing_number;
  MarkSource source = MarkSource::hand;
};

/// Who says that a process is a rank.
enum class RankSource : std::uint8_t { spank = 1, probe = 2, environment = 3 };
[[nodiscard]] std::string_view name(RankSource source);

/// A registered rank: one process of one step. `rank_id` is unique for ever (random, chosen by the
/// agent); a restart of the rank is a new one. `rank` is the framework's (RANK) where known, else
/// Slurm's task id.
struct Rank {
  std::uint64_t rank_id = 0;
  std::uint64_t job_id = 0;
  std::string step_id;  ///< "0", "batch"
  std::uint32_t slurm_restart = 0;
  std::uint32_t elastic_restart = 0;  ///< TORCHELASTIC_RESTART_COUNT
  std::int32_t rank = -1;
  std::int32_t local_rank = -1;
  std::int32_t world_size = -1;
  std::int32_t task = -1;  ///< SLURM_PROCID of the task it belongs to
  std::string node;
  std::uint32_t uid = 0;
  std::int32_t pid = 0;
  std::string devices;  ///< raw indices as Slurm or the environment gave them
  RankSource source = RankSource::spank;
  bool is_probed = false;  ///< has a ring: its marks can arrive
  Time start;
  std::optional<Time> end;
  std::optional<int> exit_code, exit_signal;
  std::uint32_t incarnation =
      0;  ///< within the attempt, given by ingest: counts (step, elastic restart)
};

/// Where a rank is that has not marked its step's end yet, by its probe's word.
struct RankNow {
  std::optional<std::int64_t> step;  ///< the step it is in; empty: between two steps
  std::optional<Phase> phase;        ///< the phase it is in; empty: in none that is marked
  Time since;                        ///< when it entered this; vettad's clock, as in Mark
  /// Sequence of the last mark or note before it: a mark with a higher one says that it moved on.
  std::uint64_t after = 0;

  friend bool operator==(const RankNow&, const RankNow&) = default;
};

/// Counters of one rank's process tree since its start, raw; a reset shows as a smaller value.
struct RankSample {
  Time time;
  std::optional<double> cpu_seconds;
  std::optional<std::uint64_t> rss_bytes, minor_faults, major_faults, read_bytes, write_bytes;
  std::optional<std::uint64_t> voluntary_switches, involuntary_switches;
  std::optional<std::uint32_t> threads, processes;
  std::string gap;  ///< why values are missing; empty if none is
};

/// Counters and gauges of a node. Node metrics of virtual nodes on one kernel carry `shared_host`.
struct NodeSample {
  Time time;
  std::optional<double> cpu_seconds_busy, cpu_seconds_total;
  std::optional<double> load_1m;
  std::optional<std::uint64_t> memory_total_bytes, memory_available_bytes;
  std::optional<std::uint64_t> network_receive_bytes, network_transmit_bytes;
  std::optional<double> pressure_cpu, pressure_memory, pressure_io;  ///< PSI some avg10, ratio 0..1
  bool shared_host = false;
  std::string gap;
};

/// All steps of one incarnation, rank by rank: what diagnose judges.
struct RankSteps {
  std::int32_t rank = -1;
  std::string node;
  std::vector<Mark> marks;  ///< ordered by step
  std::optional<Time> end;  ///< the rank's end, if it ended
};

struct StepTable {
  std::vector<RankSteps> ranks;  ///< ordered by rank
  std::int32_t world_size =
      -1;  ///< as the ranks say it; more than ranks.size() if some have no marks
  std::uint32_t incarnation = 0;
};

}  // namespace vetta::model
