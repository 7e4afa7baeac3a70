// SPDX-License-Identifier: Apache-2.0
#include "collect/discovery.h"

#include <unistd.h>

namespace vetta::collect {
namespace {

/// A program can replace itself (exec) some time after the process began: its environment is looked
/// at in this many scans. Processes of a known rank are looked at longer than strangers.
constexpr int looks_stranger = 2;
constexpr int looks_member = 6;
/// Every so many scans all is read anew: a process id may have been used again.
constexpr std::uint32_t full_scan_every = 12;
constexpr int depth_max = 64;

}  // namespace

Discovery::Discovery(const sys::Procfs& proc, RankTable& ranks, std::string node,
                     bool is_shared_host)
    : proc_(proc), ranks_(ranks), node_(std::move(node)), is_shared_host_(is_shared_host) {
  read_boot_time();
}

/// The kernel counts it back from its clock: it moves when that is set.
void Discovery::read_boot_time() {
  boot_ = proc_.boot_time().value_or(boot_);
}

Result<ProcessFacts> Discovery::facts(std::int32_t pid) const {
  const sys::ProcessStat stat = VETTA_TRY(proc_.stat(pid));
  const sys::ProcessStatus status = VETTA_TRY(proc_.status(pid));
  return ProcessFacts{pid, stat.start_ticks, status.uid.value_or(~0U),
                      boot_ + sys::from_ticks(stat.start_ticks)};
}

Discovery::Process* Discovery::know(std::int32_t pid) {
  const auto it = processes_.find(pid);
  if (it != processes_.end()) return &it->second;
  const auto stat = proc_.stat(pid);
  if (!stat) return nullptr;
  Process process;
  process.parent = stat->parent;
  process.start_ticks = stat->start_ticks;
  process.seen = scan_;
  return &(processes_[pid] = process);
}

RankState* Discovery::owner_of(std::int32_t pid) {
  std::vector<std::int32_t> path;
  RankState* owner = nullptr;
  for (int depth = 0; depth < depth_max && pid > 1 && owner == nullptr; ++depth) {
    Process* process = know(pid);
    if (process == nullptr) break;
    RankState* own = ranks_.find_live(pid);
    if (own != nullptr && (own->start_ticks == 0 || own->start_ticks == process->start_ticks)) {
      if (own->start_ticks == 0) own->start_ticks = process->start_ticks;
      owner = own;
    } else if (process->owner != 0) {
      owner = ranks_.find(process->owner);
      if (owner == nullptr) process->owner = 0;
    }
    path.push_back(pid);
    pid = process->parent;
  }
  if (owner == nullptr) return nullptr;
  for (const std::int32_t each : path) processes_[each].owner = owner->rank.rank_id;
  return owner;
}

bool Discovery::is_ours(const SlurmTask& task) const {
  if (task.step_id == "extern") return false;
  if (!task.cluster.empty() && !cluster_.empty() && task.cluster != cluster_) return false;
  if (!task.socket.empty() && !socket_.empty() && task.socket != socket_) return false;
  if (task.node.empty()) return !is_shared_host_;
  return task.node == node_;
}

void Discovery::set_site(std::string cluster, std::string socket) {
  cluster_ = std::move(cluster);
  socket_ = std::move(socket);
}

/// Anybody can write SLURM_JOB_ID into an environment; only Slurm has a slurmstepd of root above.
std::int32_t Discovery::stepd_above(std::int32_t pid) const {
  for (int depth = 0; depth < depth_max && pid > 1; ++depth) {
    const auto stat = proc_.stat(pid);
    if (!stat) return 0;
    if (stat->comm.starts_with("slurmstepd")) {
      const auto status = proc_.status(pid);
      return status && status->uid == 0U ? pid : 0;
    }
    pid = stat->parent;
  }
  return 0;
}

std::optional<std::uint64_t> Discovery::job_by_slurm(std::int32_t pid, std::int32_t stepd) const {
  if (const auto title = proc_.title(stepd))
    if (const auto job = job_of_title(*title)) return job;
  const auto cgroups = proc_.cgroups(pid);
  return cgroups ? job_of_cgroups(*cgroups) : std::nullopt;
}

std::int32_t Discovery::topmost(std::int32_t pid, const SlurmTask& task) const {
  for (int depth = 0; depth < depth_max; ++depth) {
    const auto stat = proc_.stat(pid);
    if (!stat || stat->parent <= 1) break;
    const auto env = proc_.environment(stat->parent);
    const auto above = env ? slurm_task_of(*env) : std::nullopt;
    if (!above || !above->is_same_task(task)) break;
    pid = stat->parent;
  }
  return pid;
}

RankState* Discovery::adopt(std::int32_t pid, model::RankSource source) {
  const auto env = proc_.environment(pid);
  if (!env) return nullptr;
  auto task = slurm_task_of(*env);
  const std::int32_t stepd = task && is_ours(*task) ? stepd_above(pid) : 0;
  if (stepd == 0) return nullptr;
  const auto top = facts(topmost(pid, *task));
  const auto own = facts(pid);
  if (!top || !own || top->uid != own->uid) return nullptr;
  // Where nobody tells, vettad still asks whether the job is this user's.
  const std::uint64_t job = job_by_slurm(pid, stepd).value_or(task->job_id);
  if (job != task->job_id && !task->is_het) {
    ++refused_;
    return nullptr;
  }
  if (!ranks_.may_take(*top)) return nullptr;
  task->job_id = job;
  RankState& state = ranks_.take(*task, *top, source);
  if (Process* process = know(top->pid)) process->owner = state.rank.rank_id;
  return &state;
}

void Discovery::look(std::int32_t pid, Process& process) {
  ++process.looks;
  RankState* owner = owner_of(pid);
  if (owner == nullptr) owner = adopt(pid, model::RankSource::environment);
  if (owner == nullptr) return;
  const auto env = proc_.environment(pid);
  if (!env) return;
  const auto framework = framework_rank_of(*env);
  const auto own = facts(pid);
  if (!framework || !own || own->uid != owner->rank.uid) return;
  const std::uint64_t before = owner->rank.rank_id;
  RankState& state = ranks_.take(*owner, *framework, *own);
  processes_[pid].owner = state.rank.rank_id;
  if (state.rank.rank_id != before) reassign(before);
}

void Discovery::reassign(std::uint64_t rank_id) {
  std::vector<std::int32_t> pids;
  for (auto& [pid, process] : processes_)
    if (process.owner == rank_id) pids.push_back(pid);
  for (const std::int32_t pid : pids) processes_[pid].owner = 0;
  for (const std::int32_t pid : pids)
    // What has lost its parents stays with the one who had it.
    if (owner_of(pid) == nullptr) processes_[pid].owner = rank_id;
}

Result<void> Discovery::scan() {
  ++scan_;
  read_boot_time();
  const bool is_full = scan_ % full_scan_every == 0;
  for (const std::int32_t pid : VETTA_TRY(proc_.pids())) {
    Process* process = know(pid);
    if (process == nullptr) continue;
    process->seen = scan_;
    if (is_full) {
      const auto stat = proc_.stat(pid);
      if (stat && stat->start_ticks != process->start_ticks) {
        processes_.erase(pid);
        process = know(pid);
        if (process == nullptr) continue;
      }
    }
    if (process->looks < (process->owner != 0 ? looks_member : looks_stranger)) look(pid, *process);
  }
  std::erase_if(processes_, [this](const auto& entry) { return entry.second.seen != scan_; });
  return {};
}

std::unordered_map<std::uint64_t, std::vector<std::int32_t>> Discovery::members() const {
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> out;
  for (const auto& [pid, process] : processes_)
    if (process.owner != 0) out[process.owner].push_back(pid);
  return out;
}

}  // namespace vetta::collect
