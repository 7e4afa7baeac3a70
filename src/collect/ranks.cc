// SPDX-License-Identifier: Apache-2.0
#include "collect/ranks.h"

#include <algorithm>
#include <utility>

#include "sys/process.h"

namespace vetta::collect {
namespace {

/// Is this what the task itself is by Slurm's word? Then it is no rank of its own.
bool is_identity_of(const RankState& task, const FrameworkRank& framework) {
  return framework.rank == task.rank.task &&
         (framework.world_size < 0 || task.tasks < 0 || framework.world_size == task.tasks);
}

bool set_identity(model::Rank& rank, const FrameworkRank& framework) {
  const auto before = std::tuple(rank.rank, rank.local_rank, rank.world_size, rank.elastic_restart);
  if (framework.rank >= 0) rank.rank = framework.rank;
  if (framework.local_rank >= 0) rank.local_rank = framework.local_rank;
  if (framework.world_size >= 0) rank.world_size = framework.world_size;
  rank.elastic_restart = framework.elastic_restart;
  return before != std::tuple(rank.rank, rank.local_rank, rank.world_size, rank.elastic_restart);
}

FrameworkRank identity_of(const ProbeHello& hello) {
  return {hello.rank, hello.local_rank, hello.world_size, hello.elastic_restart};
}

/// Is the process that says hello another rank than the one it is below of?
bool needs_own_rank(const RankState& owner, const ProbeHello& hello, const ProcessFacts& process) {
  const FrameworkRank said = identity_of(hello);
  const bool is_own_process = process.pid == owner.rank.pid;
  const bool is_again = owner.rank.is_probed && owner.writer_pid == process.pid;
  const bool is_same = owner.task_rank_id == 0 ? is_identity_of(owner, said) || said.rank < 0
                                               : owner.rank.rank == said.rank || said.rank < 0;
  const bool is_free = !owner.rank.is_probed && !owner.is_launcher;
  return !is_own_process && !is_again && !(is_free && is_same);
}

}  // namespace

RankState* RankTable::find(std::uint64_t rank_id) {
  const auto it = ranks_.find(rank_id);
  return it == ranks_.end() ? nullptr : &it->second;
}

RankState* RankTable::find_live(std::int32_t pid) {
  const auto it = live_.find(pid);
  return it == live_.end() ? nullptr : find(it->second);
}

RankState* RankTable::find_at(std::int32_t pid, Time at, Duration slack) {
  for (auto& [id, state] : ranks_)
    if (state.rank.pid == pid && state.was_there(at, slack)) return &state;
  return nullptr;
}

void RankTable::changed(RankState& state) {
  ++state.revision;
  changed_.insert(state.rank.rank_id);
}

RankState& RankTable::add(RankState state) {
  state.rank.node = node_;
  do {
    state.rank.rank_id = new_id_();
  } while (state.rank.rank_id == 0 || ranks_.contains(state.rank.rank_id));
  const std::uint64_t id = state.rank.rank_id;
  if (state.rank.pid > 0 && !state.is_ended()) live_[state.rank.pid] = id;
  changed_.insert(id);
  ++counts_[state.rank.uid];
  return ranks_[id] = std::move(state);
}

void RankTable::restore(RankState state) {
  const std::uint64_t id = state.rank.rank_id;
  erase(id);
  if (!state.is_ended()) live_[state.rank.pid] = id;
  ++counts_[state.rank.uid];
  ranks_[id] = std::move(state);
}

void RankTable::erase(std::uint64_t rank_id) {
  const auto it = ranks_.find(rank_id);
  if (it == ranks_.end()) return;
  const auto live = live_.find(it->second.rank.pid);
  if (live != live_.end() && live->second == rank_id) live_.erase(live);
  const auto count = counts_.find(it->second.rank.uid);
  if (count != counts_.end() && --count->second == 0) counts_.erase(count);
  ranks_.erase(it);
  changed_.erase(rank_id);
}

std::set<std::uint64_t> RankTable::take_changed() {
  return std::exchange(changed_, {});
}

bool RankTable::has_room(std::uint32_t uid) {
  const auto count = counts_.find(uid);
  if (count == counts_.end() || count->second < ranks_a_user_) return true;
  constexpr std::size_t users_max = 1024;  // that are remembered by name
  if (refused_.size() < users_max || refused_.contains(uid)) ++refused_[uid];
  return false;
}

bool RankTable::may_take(const Registration& registration) {
  return known(registration) != nullptr || has_room(registration.uid);
}

bool RankTable::may_take(const ProcessFacts& process) {
  const RankState* known = find_live(process.pid);
  return (known != nullptr && known->start_ticks == process.start_ticks) || has_room(process.uid);
}

bool RankTable::may_take(const RankState& owner, const ProbeHello& hello,
                         const ProcessFacts& process) {
  return !needs_own_rank(owner, hello, process) || has_room(process.uid);
}

std::vector<std::uint64_t> RankTable::ended_beyond(std::size_t ended_a_user) const {
  std::map<std::uint32_t, std::vector<std::pair<Time, std::uint64_t>>> ended;
  for (const auto& [id, state] : ranks_)
    if (state.is_ended()) ended[state.rank.uid].emplace_back(*state.rank.end, id);
  std::vector<std::uint64_t> out;
  for (auto& [uid, of_user] : ended) {
    if (of_user.size() <= ended_a_user) continue;
    std::ranges::sort(of_user);
    of_user.resize(of_user.size() - ended_a_user);
    for (const auto& [end, id] : of_user) out.push_back(id);
  }
  return out;
}

RankState* RankTable::known(const Registration& registration) {
  RankState* known = find_live(registration.pid);
  const auto is_this = [&registration](const RankState& state) {
    return state.task_rank_id == 0 && state.rank.job_id == registration.job_id &&
           state.rank.step_id == registration.step_id && state.rank.task == registration.task &&
           state.rank.slurm_restart == registration.restart;
  };
  if (known != nullptr &&
      (!is_this(*known) || (registration.start_ticks != 0 && known->start_ticks != 0 &&
                            registration.start_ticks != known->start_ticks)))
    known = nullptr;
  if (known == nullptr && registration.is_exit) {  // its end may have been noticed already
    for (auto& [id, state] : ranks_)
      if (is_this(state) && state.rank.pid == registration.pid) known = &state;
  }
  return known;
}

RankState& RankTable::take(const Registration& registration) {
  RankState* known = this->known(registration);
  if (known == nullptr) {
    RankState state;
    model::Rank& rank = state.rank;
    rank.job_id = registration.job_id;
    rank.step_id = registration.step_id;
    rank.slurm_restart = registration.restart;
    rank.task = rank.rank = registration.task;
    rank.local_rank = registration.local_task;
    rank.world_size = state.tasks = registration.tasks;
    rank.uid = registration.uid;
    rank.pid = registration.pid;
    rank.start = registration.time;
    state.start_ticks = registration.start_ticks;
    known = &add(std::move(state));
  }
  if (known->rank.source != model::RankSource::spank || known->rank.devices.empty()) {
    const bool news = known->rank.source != model::RankSource::spank ||
                      known->rank.devices != registration.devices;
    known->rank.source = model::RankSource::spank;
    if (!registration.devices.empty()) known->rank.devices = registration.devices;
    if (news) changed(*known);
  }
  if (registration.is_exit) {
    const sys::ExitStatus status = sys::exit_status_of_wait(registration.wait_status.value_or(0));
    end(*known, registration.time, status.code, status.signal);
  }
  return *known;
}

RankState& RankTable::take(const SlurmTask& task, const ProcessFacts& process,
                           model::RankSource source) {
  if (RankState* known = find_live(process.pid);
      known != nullptr && known->start_ticks == process.start_ticks)
    return *known;
  RankState state;
  model::Rank& rank = state.rank;
  rank.job_id = task.job_id;
  rank.step_id = task.step_id;
  rank.slurm_restart = task.restart;
  rank.task = rank.rank = task.task;
  rank.local_rank = task.local_task;
  rank.world_size = state.tasks = task.tasks;
  rank.devices = task.devices;
  rank.uid = process.uid;
  rank.pid = process.pid;
  rank.start = process.start;
  rank.source = source;
  state.start_ticks = process.start_ticks;
  return add(std::move(state));
}

RankState& RankTable::add_below(RankState& owner, const FrameworkRank& framework,
                                const ProcessFacts& process, model::RankSource source) {
  RankState* above = owner.task_rank_id == 0 ? nullptr : find(owner.task_rank_id);
  RankState& task = above == nullptr ? owner : *above;  // an ended task may be forgotten already
  RankState state;
  state.rank = task.rank;
  state.rank.rank = state.rank.local_rank = state.rank.world_size = -1;
  state.rank.end.reset();
  state.rank.exit_code.reset();
  state.rank.exit_signal.reset();
  state.rank.is_probed = false;
  set_identity(state.rank, framework);
  state.rank.uid = process.uid;
  state.rank.pid = process.pid;
  state.rank.start = process.start;
  state.rank.source = source;
  state.start_ticks = process.start_ticks;
  state.tasks = task.tasks;
  state.task_rank_id = task.rank.rank_id;
  if (!task.is_launcher && !task.rank.is_probed) {
    task.is_launcher = true;
    task.rank.rank = task.rank.local_rank = task.rank.world_size = -1;
    changed(task);
  }
  return add(std::move(state));
}

RankState& RankTable::take(RankState& owner, const FrameworkRank& framework,
                           const ProcessFacts& process) {
  const bool is_own_process = process.pid == owner.rank.pid;
  if (is_own_process || (owner.task_rank_id == 0 && is_identity_of(owner, framework)) ||
      (owner.task_rank_id != 0 && owner.rank.rank == framework.rank)) {
    const bool may_learn = is_own_process && !owner.rank.is_probed && !owner.is_launcher;
    if (may_learn && set_identity(owner.rank, framework)) changed(owner);
    return owner;
  }
  if (!has_room(process.uid)) return owner;
  return add_below(owner, framework, process, model::RankSource::environment);
}

RankState& RankTable::take(RankState& owner, const ProbeHello& hello, const ProcessFacts& process) {
  const FrameworkRank said = identity_of(hello);
  RankState* state = &owner;
  if (needs_own_rank(owner, hello, process))
    state = &add_below(owner, said, process, model::RankSource::probe);
  const bool is_new_identity = set_identity(state->rank, said);
  const bool is_surer = state->rank.source == model::RankSource::environment;
  if (is_surer) state->rank.source = model::RankSource::probe;
  if (is_new_identity || is_surer || !state->rank.is_probed || state->is_launcher) {
    state->rank.is_probed = true;
    state->is_launcher = false;
    changed(*state);
  }
  state->writer_pid = process.pid;
  return *state;
}

void RankTable::end(RankState& state, Time at, std::optional<int> exit_code,
                    std::optional<int> exit_signal) {
  const bool has_status = state.rank.exit_code || state.rank.exit_signal;
  if (state.is_ended() && (has_status || (!exit_code && !exit_signal))) return;
  state.rank.end = at;
  state.rank.exit_code = exit_code;
  state.rank.exit_signal = exit_signal;
  const auto live = live_.find(state.rank.pid);
  if (live != live_.end() && live->second == state.rank.rank_id) live_.erase(live);
  changed(state);
}

}  // namespace vetta::collect
