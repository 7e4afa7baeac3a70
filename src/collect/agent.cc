// SPDX-License-Identifier: Apache-2.0
// What comes in: start, registrations, scans, samples, the kernel's log. What goes out is in
// agent_links.cc.
#include "collect/agent.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>
#include <utility>

#include "collect/agent_detail.h"
#include "collect/sample.h"
#include "core/log.h"
#include "core/text.h"
#include "sys/limits.h"

namespace vetta::collect {
namespace {

std::uint64_t random_id() {
  std::uint64_t id = 0;
  while (::getrandom(&id, sizeof id, 0) != sizeof id) {
  }
  return id;
}

/// Ended ranks that no vettad asked for in this time are given up.
constexpr Duration ended_keep = std::chrono::hours(24);

/// While a vettad is away; more would keep new ranks of their user out.
constexpr std::size_t ended_a_user = RankTable::ranks_a_user_max / 2;

/// Descriptors for all but rings and processes of ranks: sockets, /proc, probes.
constexpr std::uint64_t files_kept = 512;

/// How many rings, and how many processes, may hold a descriptor each.
std::size_t files_for_ranks() {
  const std::uint64_t files = sys::open_files_max();
  return static_cast<std::size_t>(files > 2 * files_kept ? (files - files_kept) / 2 : files / 4);
}

/// Between the kernel's word on a time and the plugin's or the agent's.
constexpr Duration kill_slack = std::chrono::seconds(2);

/// The clock of the kernel's log.
Duration kernel_log_now() {
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &at);
  return std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec);
}

}  // namespace

Agent::Agent(sys::EventLoop& loop, Settings settings, sys::FileLock lock, Rings rings,
             StateFile state_file)
    : loop_(loop),
      settings_(std::move(settings)),
      lock_(std::move(lock)),
      proc_(settings_.proc_root),
      agent_id_(random_id()),
      boot_id_(proc_.boot_id().value_or("")),
      ranks_(settings_.node, random_id),
      rings_(std::move(rings)),
      state_file_(std::move(state_file)),
      spool_(settings_.spool_max),
      discovery_(proc_, ranks_, settings_.node, is_shared_host()) {
  discovery_.set_site(settings_.cluster, settings_.rundir + "/" + settings_.node + "/probe.sock");
}

Agent::~Agent() {
  loop_.cancel(sample_timer_);
  loop_.cancel(pump_timer_);
  loop_.cancel(scan_timer_);
  loop_.cancel(flush_timer_);
  if (kernel_log_) loop_.unwatch(kernel_log_->fd());
}

Result<std::unique_ptr<Agent>> Agent::start(sys::EventLoop& loop, Settings settings) {
  const std::string folder = settings.rundir + "/" + settings.node;
  VETTA_TRY(sys::make_folders(folder, 0755));
  auto lock = sys::FileLock::acquire(folder + "/agent.lock");
  if (!lock)
    return std::unexpected(std::move(lock.error())
                               .while_(fmt::format("start the agent of node {}", settings.node))
                               .try_("is another vetta-agent running for this node?"));
  Rings rings = VETTA_TRY(Rings::open(folder + "/rings"));
  StateFile state_file = VETTA_TRY(StateFile::open(folder + "/ranks.journal"));
  std::unique_ptr<Agent> agent(new Agent(loop, std::move(settings), std::move(*lock),
                                         std::move(rings), std::move(state_file)));
  Agent* raw = agent.get();
  constexpr std::size_t pidfds_max = 4096;
  raw->ends_ = std::make_unique<EndWatch>(
      loop, raw->proc_, raw->ranks_, [raw] { raw->table_changed("end"); },
      std::min(pidfds_max, files_for_ranks()));
  raw->restore();
  raw->open_kernel_log();
  Intake::Limits limits;
  limits.rings = std::min(limits.rings, files_for_ranks());
  raw->intake_ = VETTA_TRY(Intake::open(
      folder,
      Intake::Parts{loop, raw->ranks_, raw->rings_, raw->discovery_,
                    [raw](std::string_view reason) { raw->table_changed(reason); }, limits}));
  raw->scan();
  raw->arm_sampling();
  raw->flush_timer_ = loop.after(std::chrono::seconds(1), [raw] { raw->flush(); });
  raw->dial_all();
  return agent;
}

bool Agent::is_shared_host() const {
  if (settings_.shared_host) return *settings_.shared_host;
  const auto names = sys::list_folder(settings_.rundir);
  return names && std::ranges::any_of(*names, [this](const std::string& name) {
           const std::string socket = settings_.rundir + "/" + name + "/agent.sock";
           return name != settings_.node && ::access(socket.c_str(), F_OK) == 0;
         });
}

void Agent::restore() {
  for (RankState& state : state_file_.restored()) ranks_.restore(std::move(state));
  state_file_.restored().clear();
  for (const std::uint64_t id : rings_.files()) adopt_ring(id);
  for (const auto& [id, state] : ranks_.all()) ends_->watch(state);
  save_changes();
  if (!ranks_.all().empty())
    log::info(
        "restored", "took up the ranks of an earlier agent",
        {{"ranks", std::to_string(ranks_.all().size())}, {"rings", std::to_string(rings_.size())}});
}

void Agent::adopt_ring(std::uint64_t rank_id) {
  const auto header = rings_.adopt(rank_id);
  if (!header) {
    log::warn("ring_spoilt", header.error().text());
    return rings_.remove(rank_id);
  }
  if (ranks_.find(rank_id) != nullptr) return;
  // The state file was lost: the ring's own header tells whose it is.
  RankState state;
  model::Rank& rank = state.rank;
  rank.rank_id = rank_id;
  rank.job_id = parse_uint(header->job_id).value_or(0);
  if (rank.job_id == 0) return rings_.remove(rank_id);
  rank.step_id = header->step_id;
  rank.slurm_restart = header->slurm_restart;
  rank.elastic_restart = header->elastic_restart;
  rank.rank = header->rank;
  rank.local_rank = header->local_rank;
  rank.world_size = header->world_size;
  rank.task = header->task;
  rank.node = settings_.node;
  rank.uid = header->uid;
  rank.pid = state.writer_pid = header->pid;
  rank.source = model::RankSource::probe;
  rank.is_probed = true;
  state.start_ticks = header->start_ticks;
  rank.start = proc_.boot_time().value_or(now()) + sys::from_ticks(header->start_ticks);
  ranks_.restore(std::move(state));
}

void Agent::open_kernel_log() {
  auto log = KernelLog::open(settings_.kernel_log);
  if (!log) {
    gaps_.push_back("out-of-memory kills: " + log.error().message);
  } else {
    kernel_log_ = std::move(*log);
    const auto watched = loop_.watch(kernel_log_->fd(), sys::EventLoop::readable,
                                     [this](std::uint32_t) { read_kernel_log(); });
    if (!watched) read_kernel_log();  // a plain file in its place
  }
  if (::geteuid() != 0)
    gaps_.push_back(
        fmt::format("processes of other users: the agent runs as user {}", ::geteuid()));
  const auto pressure = proc_.pressure("cpu");
  if (!pressure) gaps_.push_back("pressure: " + pressure.error().message);
}

void Agent::table_changed(std::string_view reason) {
  save_changes();
  // Others of the same step may have found the plugin's socket full.
  if (reason == "start") scan_soon();
  pump_soon();
}

void Agent::scan_soon() {
  if (scan_timer_ != 0) return;
  scan_timer_ = loop_.after(std::chrono::milliseconds(300), [this] {
    scan_timer_ = 0;
    scan();
  });
}

void Agent::save_changes() {
  for (const std::uint64_t id : ranks_.take_changed()) {
    const RankState* state = ranks_.find(id);
    if (state == nullptr) continue;
    static_cast<void>(state_file_.save(*state));  // unwritten() says if that failed
    if (state->is_ended())
      ends_->forget(id);
    else
      ends_->watch(*state);
  }
  if (state_file_.is_bloated(ranks_.all().size()))
    static_cast<void>(state_file_.rewrite(ranks_.all()));
  const auto& why = state_file_.unwritten();
  const bool was_unwritten = std::exchange(is_state_unwritten_, why.has_value());
  if (why && !was_unwritten) {
    log::error(
        "state_unwritten",
        "the ranks are not on disk, an agent that starts again would not know them all; this "
        "is tried again: " +
            why->text());
  } else if (!why && was_unwritten) {
    log::info("state_written", "the ranks are on disk again", {});
  }
}

RankState* Agent::victim_of(const OomKill& kill, Time at) {
  RankState* owner = discovery_.owner_of(kill.pid);
  if (owner != nullptr && owner->was_there(at, kill_slack)) return owner;
  return ranks_.find_at(kill.pid, at, kill_slack);  // it may be gone from /proc already
}

void Agent::read_kernel_log() {
  SpoolItem item;
  for (const OomKill& kill : kernel_log_->read()) {
    const Time at = time_of(kill, now(), kernel_log_now());
    const RankState* state = victim_of(kill, at);
    if (state == nullptr) continue;
    model::Event event;
    event.time = at;
    event.kind = model::EventKind::oom_kill;
    event.node = settings_.node;
    event.rank = state->rank.rank;
    event.rank_id = state->rank.rank_id;
    event.exit_signal = 9;
    event.message = fmt::format("the kernel's out-of-memory killer ended process {} ({}), {}",
                                kill.pid, one_line(kill.comm, 40),
                                kill.is_cgroup ? "at its memory limit" : "the node ran out");
    event.detail = kill.line;
    event.source = "kernel";
    event.dedup = fmt::format("oom-{}-{}-{}", boot_id_, kill.sequence, settings_.node);
    item.events.push_back(std::move(event));
  }
  if (item.events.empty()) return;
  spool_.put(std::move(item));
  pump_soon();
}

void Agent::scan() {
  discovery_.set_shared_host(is_shared_host());
  if (const auto scanned = discovery_.scan(); !scanned) log::warn("scan", scanned.error().text());
  if (discovery_.refused() != claims_refused_) {
    claims_refused_ = discovery_.refused();
    log::warn("task_refused", "processes name another job than the one they run in",
              {{"looks", std::to_string(claims_refused_)}});
  }
  ends_->look();
  save_changes();
  tell_refused();
  forget_old();
  pump_all(false);
}

void Agent::forget_old() {
  const Time keep_from = now() - ended_keep;
  std::vector<std::uint64_t> old;
  for (const auto& [id, state] : ranks_.all())
    if (state.is_ended() && *state.rank.end < keep_from) old.push_back(id);
  for (const std::uint64_t id : old) forget(id);
  const auto too_many = ranks_.ended_beyond(ended_a_user);
  if (too_many.empty()) return;
  for (const std::uint64_t id : too_many) forget(id);
  ranks_dropped_ += too_many.size();
  log::warn("ranks_full", "ended ranks that not every vettad has were given up, the oldest first",
            {{"ranks", std::to_string(ranks_dropped_)}});
}

void Agent::tell_refused() {
  SpoolItem item;
  for (const auto& [uid, count] : ranks_.refused()) {
    std::uint64_t& told = ranks_refused_[uid];
    if (told == count) continue;
    const bool is_first = std::exchange(told, count) == 0;
    const std::string words = fmt::format("user {} has {} ranks on this node; more are not taken",
                                          uid, RankTable::ranks_a_user_max);
    log::warn("ranks_full", words, {{"refused", std::to_string(count)}});
    if (!is_first) continue;
    model::Event event;
    event.time = now();
    event.kind = model::EventKind::gap;
    event.node = settings_.node;
    event.message = words;
    event.source = "agent";
    event.dedup = fmt::format("ranks-{:016x}-{}", agent_id_, uid);
    item.events.push_back(std::move(event));
  }
  if (!item.events.empty()) spool_.put(std::move(item));
}

bool Agent::is_burst() const {
  const Time t = now();
  return std::ranges::any_of(bursts_, [t](const auto& burst) { return burst.second > t; });
}

void Agent::arm_sampling() {
  loop_.cancel(sample_timer_);
  const Time t = now();
  std::erase_if(bursts_, [t](const auto& burst) { return burst.second <= t; });
  const auto aligned = [](Time at, Duration step) {
    return Time(at.time_since_epoch() / step * step + step);
  };
  next_sample_ = aligned(t, settings_.sample_period);
  const Time next_scan = aligned(t, settings_.scan_period);
  Time next = std::min(next_sample_, next_scan);
  if (!bursts_.empty()) next = std::min(next, aligned(t, std::chrono::seconds(1)));
  sample_timer_ = loop_.after(next - t, [this] { sample(); });
}

void Agent::sample() {
  const Time t = now();
  const bool is_whole = t >= next_sample_ || next_sample_ - t > settings_.sample_period;
  const bool is_scan =
      is_whole || t.time_since_epoch() % settings_.scan_period < std::chrono::seconds(1);
  if (is_scan) scan();
  if (is_whole || is_burst()) {
    SpoolItem item;
    item.node_samples.push_back(sample_node(proc_, is_shared_host(), t));
    const auto members = discovery_.members();
    for (const auto& [id, state] : ranks_.all()) {
      if (state.is_ended() || (!is_whole && !bursts_.contains(state.rank.job_id))) continue;
      const auto pids = members.find(id);
      std::vector<std::int32_t> own{state.rank.pid};
      item.rank_samples.push_back(
          {id, {sample_rank(proc_, pids == members.end() ? own : pids->second, t)}});
    }
    spool_.put(std::move(item));
    pump_all(is_burst());
  }
  arm_sampling();
}

}  // namespace vetta::collect
