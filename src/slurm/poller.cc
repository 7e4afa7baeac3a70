// SPDX-License-Identifier: Apache-2.0
#include "slurm/poller.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <utility>

#include "core/text.h"
#include "slurm/gres.h"

namespace vetta::slurm {
namespace {

constexpr std::string_view controller = "slurmctld";
constexpr std::string_view database = "slurmdbd";
/// Over these slurmctld is busy: it serves at most 256 threads, and queues messages to nodes.
constexpr std::uint32_t threads_healthy = 100;
constexpr std::uint32_t agents_healthy = 1000;
constexpr Duration rate_span = std::chrono::minutes(5);

/// Pending tasks that one record of an array stands for: "7-8%1" is two, "1-9:2" five.
std::size_t tasks_of(const model::Attempt& attempt) {
  if (!attempt.array || attempt.array->tasks.empty()) return 1;
  std::string_view list = attempt.array->tasks;
  list = list.substr(0, list.find('%'));
  std::size_t count = 0;
  for (const std::string_view part : split(list, ",")) {
    const std::size_t colon = part.find(':');
    const auto step = colon == std::string_view::npos ? Result<std::uint64_t>(1)
                                                      : parse_uint(part.substr(colon + 1));
    const std::string_view range = part.substr(0, colon);
    const std::size_t dash = range.find('-');
    const auto low = parse_uint(range.substr(0, dash));
    const auto high = dash == std::string_view::npos ? low : parse_uint(range.substr(dash + 1));
    const bool readable = low && high && step && *high >= *low && *step > 0;
    count += readable ? static_cast<std::size_t>((*high - *low) / *step + 1) : 1;
  }
  return std::max<std::size_t>(count, 1);
}

struct Holder {
  JobAllocations held;
  std::string nodes;  ///< all of them: a completing job lists only those not yet returned
  std::optional<std::uint32_t> node_count, cpus;
  std::vector<model::Span> suspended;
  bool was_suspended = false;
  bool is_answered = false;  ///< scontrol has told of it
};

Error not_asked_yet() {
  Error error;
  error.code = Code::unavailable;
  error.message = "not asked yet: the first rounds spread their questions over the RPC budget";
  return error;
}

}  // namespace

struct Poller::Memory {
  Answer<std::vector<model::Partition>> partitions;
  Answer<std::vector<model::Node>> nodes;
  Answer<std::vector<HeldJob>> allocations;  ///< how the last asking went; its value is in holders
  std::map<model::AttemptKey, Holder> holders;
  std::deque<std::pair<Duration, int>> rpcs;  ///< what was sent when, over rate_span
  std::optional<std::pair<Duration, std::uint64_t>> all_rpcs;  ///< sdiag's sum and when
  std::uint32_t dbd_queue = 0;
  Duration began{};

  Memory() {
    partitions.why = not_asked_yet();
    nodes.why = not_asked_yet();
    allocations.why = not_asked_yet();
  }

  void sent(Duration at, int count) {
    rpcs.emplace_back(at, count);
    while (!rpcs.empty() && at - rpcs.front().first > rate_span) rpcs.pop_front();
  }

  [[nodiscard]] double per_minute(Duration at) const {
    int sum = 0;
    for (const auto& [when, count] : rpcs)
      if (at - when <= rate_span) sum += count;
    const double span = std::clamp(seconds(at - began), 60.0, seconds(rate_span));
    return sum * 60.0 / span;
  }

  /// What the last asking of the other questions failed with, if one did.
  [[nodiscard]] std::optional<std::pair<model::Knowledge, Error>> failure() const {
    std::optional<std::pair<model::Knowledge, Error>> out;
    const auto look = [&](const auto& answer) {
      if (!out && answer.asked != Time() && !answer.is_known())
        out = {answer.knowledge, answer.why};
    };
    look(nodes);
    look(partitions);
    look(allocations);
    return out;
  }

  /// Forgets jobs that hold nothing any more; answers whether scontrol has to be asked.
  bool follow(const std::vector<model::Attempt>& jobs) {
    std::map<model::AttemptKey, Holder> next;
    bool wants = false;
    for (const model::Attempt& job : jobs) {
      if (!model::holds_nodes(job.state)) continue;
      const bool is_suspended = job.state == model::JobState::suspended;
      const auto known = holders.find(job.key);
      Holder holder = known == holders.end() ? Holder{} : std::move(known->second);
      // A job that gives its nodes back has no new allocation to tell.
      const bool is_going = job.state == model::JobState::completing;
      if (!is_going) {
        holder.nodes = job.nodes;
        holder.node_count = job.node_count;
        holder.cpus = job.cpus;
      }
      if ((!holder.is_answered && !is_going) || holder.was_suspended != is_suspended) wants = true;
      next.emplace(job.key, std::move(holder));
    }
    holders = std::move(next);
    return wants;
  }

  void take(const std::vector<HeldJob>& held, const std::vector<model::Attempt>& jobs) {
    std::map<std::uint64_t, const HeldJob*> by_id;
    for (const HeldJob& job : held) by_id[job.job_id] = &job;
    for (const model::Attempt& job : jobs) {
      const auto holder = holders.find(job.key);
      const auto told = by_id.find(job.key.job_id);
      if (holder == holders.end() || told == by_id.end()) continue;
      holder->second.held = {job.key, told->second->allocations};
      holder->second.is_answered = true;
      holder->second.was_suspended = job.state == model::JobState::suspended;
      update_suspended(holder->second.suspended, job.state, *told->second);
    }
  }

  /// Puts what only scontrol tells into the attempts.
  void complete(std::vector<model::Attempt>& jobs) const {
    for (model::Attempt& job : jobs) {
      const auto found = holders.find(job.key);
      if (found == holders.end()) continue;
      if (job.state == model::JobState::completing && !found->second.nodes.empty()) {
        job.nodes = found->second.nodes;
        job.node_count = found->second.node_count;
        job.cpus = found->second.cpus;
      }
      if (!found->second.is_answered) continue;
      job.suspended = found->second.suspended;
      Duration total{};
      for (const model::Span& span : job.suspended)
        if (span.end) total += *span.end - span.start;
      if (!job.suspended.empty()) job.suspended_total = total;
      if (job.gpus) continue;
      std::uint32_t gpus = 0;
      for (const model::Allocation& allocation : found->second.held.allocations)
        gpus += static_cast<std::uint32_t>(std::ranges::count_if(
            allocation.devices,
            [](const std::string& device) { return device.starts_with("gpu:"); }));
      if (gpus > 0) job.gpus = gpus;
    }
  }

  [[nodiscard]] Answer<std::vector<JobAllocations>> allocations_answer() const {
    Answer<std::vector<JobAllocations>> answer;
    answer.knowledge = allocations.knowledge;
    answer.why = allocations.why;
    answer.refused = allocations.refused;
    answer.asked = allocations.asked;
    answer.took = allocations.took;
    for (const auto& [key, holder] : holders)
      if (holder.is_answered) answer.value.push_back(holder.held);
    return answer;
  }
};

Poller::Poller(Reader reader, PollLimits limits, PollerSinks sinks, std::optional<Time> watermark,
               PollerClock clock)
    : reader_(std::move(reader)),
      limits_(limits),
      sinks_(std::move(sinks)),
      clock_(std::move(clock)),
      watermark_(watermark),
      memory_(std::make_shared<Memory>()) {
  memory_->began = clock_.monotonic();
  load_.poll_period = limits_.pause_min;
  for (const std::string_view name : {controller, database}) {
    model::Source source;
    source.name = name;
    source.reason = "not asked yet";
    sources_.push_back(std::move(source));
  }
}

void Poller::note_source(std::string_view name, model::Knowledge knowledge, const Error& why,
                         Time at) {
  const std::lock_guard lock(mutex_);
  const auto source = std::ranges::find(sources_, name, &model::Source::name);
  source->knowledge = knowledge;
  source->reason = knowledge == model::Knowledge::known ? std::string() : why.text();
  if (knowledge == model::Knowledge::known) source->last_success = at;
}

void Poller::read_load() {
  const Duration at = clock_.monotonic();
  const auto answer = reader_.sdiag();
  spend(Question::sdiag);
  state_.last_sdiag = at;
  if (!answer.is_known()) return;
  const Sdiag& sdiag = answer.value;
  const std::uint32_t threads = sdiag.server_threads.value_or(0);
  const std::uint32_t agents = sdiag.agent_queue.value_or(0);
  state_.controller_busy = threads > threads_healthy || agents > agents_healthy;
  state_.jobs = std::max<std::size_t>(
      state_.jobs, sdiag.jobs_pending.value_or(0) + sdiag.jobs_running.value_or(0));
  memory_->dbd_queue = sdiag.dbd_agent_queue.value_or(0);
  const std::uint64_t sum = sdiag.rpcs();
  std::optional<double> rate;
  if (memory_->all_rpcs && sum >= memory_->all_rpcs->second && at > memory_->all_rpcs->first)
    rate = static_cast<double>(sum - memory_->all_rpcs->second) * 60 /
           seconds(at - memory_->all_rpcs->first);
  memory_->all_rpcs = {at, sum};
  const std::lock_guard lock(mutex_);
  load_.server_threads = sdiag.server_threads;
  load_.agent_queue = sdiag.agent_queue;
  if (rate) load_.rpcs_per_minute_all = rate;
}

void Poller::spend(Question question) {
  const int count = rpcs_of(question);
  state_.round_rpcs += count;
  memory_->sent(clock_.monotonic(), count);
}

void Poller::ask(Question question, const std::vector<model::Attempt>& jobs) {
  const Duration at = clock_.monotonic();
  spend(question);
  switch (question) {
    case Question::partitions:
      memory_->partitions = reader_.partitions();
      state_.last_partitions = at;
      break;
    case Question::nodes:
      memory_->nodes = reader_.nodes();
      state_.last_nodes = at;
      break;
    case Question::allocations:
      memory_->allocations = reader_.allocations(jobs);
      state_.last_allocations = at;
      if (memory_->allocations.is_known()) memory_->take(memory_->allocations.value, jobs);
      memory_->allocations.value.clear();
      break;
    default: break;
  }
}

void Poller::round() {
  const Duration began = clock_.monotonic();
  const Time at = clock_.wall();
  {
    const std::lock_guard lock(mutex_);
    nudged_.reset();
  }
  state_.nudged.reset();
  state_.round_rpcs = std::exchange(carried_rpcs_, 0);
  if (is_sdiag_due(state_, limits_, began)) read_load();
  Snapshot snapshot;
  snapshot.at = at;
  snapshot.jobs = reader_.jobs();
  spend(Question::jobs);
  std::vector<model::Attempt>& jobs = snapshot.jobs.value;
  if (snapshot.jobs.is_known()) {
    state_.failures = 0;
    state_.jobs = 0;
    for (const model::Attempt& job : jobs)
      state_.jobs += model::is_final(job.state) ? 1 : tasks_of(job);
    const bool wants = memory_->follow(jobs) || !memory_->allocations.is_known();
    for (const Question question :
         plan_round(state_, limits_, began, state_.round_rpcs, wants).questions)
      ask(question, jobs);
    memory_->complete(jobs);
  } else {
    if (stop_.stop_requested()) return;  // killed by us: that tells nothing
    note_failure(state_, snapshot.jobs.why.code == Code::timeout);
  }
  snapshot.partitions = memory_->partitions;
  snapshot.nodes = memory_->nodes;
  snapshot.allocations = memory_->allocations_answer();
  if (const auto name = reader_.cluster_name()) snapshot.cluster = *name;
  state_.last_round = began;
  state_.round_took = clock_.monotonic() - began;
  // Each of its answers is the controller's: one that fails for ever must not go untold.
  if (const auto failure = memory_->failure(); snapshot.jobs.is_known() && failure)
    note_source(controller, failure->first, failure->second, at);
  else
    note_source(controller, snapshot.jobs.knowledge, snapshot.jobs.why, at);
  {
    const std::lock_guard lock(mutex_);
    load_.rpcs_per_minute_vetta = memory_->per_minute(clock_.monotonic());
    load_.poll_period = pause_of(state_, limits_);
    snapshot.load = load_;
  }
  if (sinks_.snapshot) sinks_.snapshot(snapshot);
}

void Poller::account() {
  const Time at = std::chrono::floor<std::chrono::seconds>(clock_.wall());
  const Window window = accounting_window(watermark(), at, limits_);
  Accounting accounting;
  accounting.from = window.from;
  accounting.until = window.until;
  accounting.attempts = reader_.accounting(window.from, window.until);
  if (!accounting.attempts.is_known() && stop_.stop_requested()) return;
  if (const auto name = reader_.cluster_name()) accounting.cluster = *name;
  state_.last_accounting = clock_.monotonic();
  const bool is_known = accounting.attempts.is_known();
  note_source(database, accounting.attempts.knowledge, accounting.attempts.why, at);
  const bool is_kept = !sinks_.accounting || sinks_.accounting(accounting);
  state_.accounting_failures = is_known && is_kept ? 0 : state_.accounting_failures + 1;
  state_.accounting_behind = !window.reaches_present;
  // While slurmctld holds back messages to slurmdbd, what the window lacks may still come.
  if (!is_known || !is_kept || (memory_->dbd_queue > 0 && window.reaches_present)) return;
  const std::lock_guard lock(mutex_);
  watermark_ = window.until;
}

Duration Poller::step() {
  if (!reader_.cluster_name()) {
    const auto cluster = reader_.cluster();
    memory_->sent(clock_.monotonic(), rpcs_of(Question::cluster));
    carried_rpcs_ += rpcs_of(Question::cluster);
    if (!cluster.is_known()) {
      note_source(controller, cluster.knowledge, cluster.why, clock_.wall());
      note_failure(state_, cluster.why.code == Code::timeout);
      return pause_of(state_, limits_);
    }
    state_.failures = 0;
  }
  {
    const std::lock_guard lock(mutex_);
    state_.nudged = nudged_;
  }
  if (next_round(state_, limits_) <= clock_.monotonic()) round();
  if (next_accounting(state_, limits_) <= clock_.monotonic()) account();
  {
    const std::lock_guard lock(mutex_);
    state_.nudged = nudged_;
  }
  const Duration next = std::min(next_round(state_, limits_), next_accounting(state_, limits_));
  return std::max(next - clock_.monotonic(), Duration::zero());
}

void Poller::run(const std::stop_token& stop) {
  stop_ = stop;
  reader_.cancel_on(stop);
  while (!stop.stop_requested()) {
    const Duration pause = step();
    std::unique_lock lock(mutex_);
    const bool had_nudge = nudged_.has_value();
    wake_.wait_for(lock, stop, pause, [&] { return !had_nudge && nudged_.has_value(); });
  }
}

void Poller::nudge() {
  {
    const std::lock_guard lock(mutex_);
    if (!nudged_) nudged_ = clock_.monotonic();
  }
  wake_.notify_all();
}

model::ControllerLoad Poller::load() const {
  const std::lock_guard lock(mutex_);
  return load_;
}

std::vector<model::Source> Poller::sources() const {
  const std::lock_guard lock(mutex_);
  return sources_;
}

std::optional<Time> Poller::accounting_watermark() const {
  return watermark();
}

std::optional<Time> Poller::watermark() const {
  const std::lock_guard lock(mutex_);
  return watermark_;
}

}  // namespace vetta::slurm
