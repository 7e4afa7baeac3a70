// SPDX-License-Identifier: Apache-2.0
// The ranks of this node, and what each word about them changes. Pure: no file, no clock.
//
// A Slurm task is a rank until a process below it turns out to be one of another identity (torchrun
// with several workers, mpirun): then the task is a launcher, its rank, local_rank and world_size
// are -1, and it is kept for its exit code.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "collect/environment.h"
#include "collect/registration.h"
#include "model/rank.h"

namespace vetta::collect {

struct RankState {
  model::Rank rank;                ///< end, exit_code, exit_signal are set once it has ended
  std::uint64_t start_ticks = 0;   ///< with rank.pid names the process; 0: unknown
  std::int32_t tasks = -1;         ///< of the step
  std::uint64_t task_rank_id = 0;  ///< the task's rank, for a rank below a task; 0: it is the task
  std::uint64_t revision = 1;      ///< rises when vettad must hear of the rank again
  std::int32_t writer_pid = 0;     ///< of the process that has the ring
  bool is_launcher = false;

  [[nodiscard]] bool is_ended() const { return rank.end.has_value(); }

  /// It had begun and not ended then; clocks and ways differ by up to `slack`.
  [[nodiscard]] bool was_there(Time at, Duration slack) const {
    return at + slack >= rank.start && (!rank.end || at - slack <= *rank.end);
  }
};

/// A process as the kernel knows it.
struct ProcessFacts {
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::uint32_t uid = 0;
  Time start;
};

class RankTable {
 public:
  static constexpr std::size_t ranks_a_user_max = 4096;

  /// `new_id` gives a number that was never given before (random). No user has more than
  /// `ranks_a_user` ranks here, ended ones among them.
  RankTable(std::string node, std::function<std::uint64_t()> new_id,
            std::size_t ranks_a_user = ranks_a_user_max)
      : node_(std::move(node)), new_id_(std::move(new_id)), ranks_a_user_(ranks_a_user) {}

  [[nodiscard]] RankState* find(std::uint64_t rank_id);
  /// The rank whose own process this is and which has not ended.
  [[nodiscard]] RankState* find_live(std::int32_t pid);
  /// The rank whose own process this was at that time, ended or not: ids are used again.
  [[nodiscard]] RankState* find_at(std::int32_t pid, Time at, Duration slack);

  [[nodiscard]] const std::map<std::uint64_t, RankState>& all() const { return ranks_; }

  /// False: this would be one rank too many of its user, which is counted. To be asked before
  /// take() of the same; what a process's environment says of its rank, take() judges itself.
  [[nodiscard]] bool may_take(const Registration& registration);
  [[nodiscard]] bool may_take(const ProcessFacts& process);
  [[nodiscard]] bool may_take(const RankState& owner, const ProbeHello& hello,
                              const ProcessFacts& process);

  /// How often each user was refused so far.
  [[nodiscard]] const std::map<std::uint32_t, std::uint64_t>& refused() const { return refused_; }

  /// Of every user with more ended ranks than this, the oldest of them.
  [[nodiscard]] std::vector<std::uint64_t> ended_beyond(std::size_t ended_a_user) const;

  /// A start, or an exit (which may be the first that is heard of a task).
  RankState& take(const Registration& registration);
  /// A task that the plugin did not tell of: found by its environment.
  RankState& take(const SlurmTask& task, const ProcessFacts& process, model::RankSource source);
  /// A process below `owner` says by its environment that it is a rank. It may be `owner` itself.
  RankState& take(RankState& owner, const FrameworkRank& framework, const ProcessFacts& process);
  /// A probe of the process (which is `owner`'s or below it) wants a ring.
  RankState& take(RankState& owner, const ProbeHello& hello, const ProcessFacts& process);
  void end(RankState& state, Time at, std::optional<int> exit_code, std::optional<int> exit_signal);
  /// Puts back what a state file had.
  void restore(RankState state);
  void erase(std::uint64_t rank_id);

  /// Ids of ranks that were made, changed or ended since the last call.
  [[nodiscard]] std::set<std::uint64_t> take_changed();

 private:
  RankState& add(RankState state);
  RankState& add_below(RankState& owner, const FrameworkRank& framework,
                       const ProcessFacts& process, model::RankSource source);
  void changed(RankState& state);
  /// The rank of which a registration speaks, if it is here.
  [[nodiscard]] RankState* known(const Registration& registration);
  [[nodiscard]] bool has_room(std::uint32_t uid);

  std::string node_;
  std::function<std::uint64_t()> new_id_;
  std::map<std::uint64_t, RankState> ranks_;
  std::unordered_map<std::int32_t, std::uint64_t> live_;  ///< by pid
  std::set<std::uint64_t> changed_;
  std::size_t ranks_a_user_;
  std::unordered_map<std::uint32_t, std::size_t> counts_;  ///< by uid
  std::map<std::uint32_t, std::uint64_t> refused_;
};

}  // namespace vetta::collect
