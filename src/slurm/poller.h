// SPDX-License-Identifier: Apache-2.0
// The one poller of a cluster: everything Vetta asks of slurmctld and slurmdbd is asked here, in
// rounds, within PollLimits; never once per job or per view. The app owns the thread: run() in a
// jthread, or step() in tests. The sinks are called on that thread, between questions.
// Thread-safety: nudge(), load(), sources() from any thread; the rest from the polling thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "slurm/plan.h"
#include "slurm/reader.h"
#include "slurm/snapshot.h"

namespace vetta::slurm {

struct PollerSinks {
  std::function<void(const Snapshot&)> snapshot;
  /// Answers whether the batch is kept durably; only then does the watermark move on.
  std::function<bool(const Accounting&)> accounting;
};

struct PollerClock {
  std::function<Duration()> monotonic = monotonic_now;
  std::function<Time()> wall = now;
};

class Poller {
 public:
  /// `watermark`: up to where accounting is kept already (from records); nullopt: begin one
  /// accounting_overlap before now.
  Poller(Reader reader, PollLimits limits, PollerSinks sinks,
         std::optional<Time> watermark = std::nullopt, PollerClock clock = {});

  /// Polls until stop is requested; a program that is running then is killed and its answer
  /// dropped.
  void run(const std::stop_token& stop);
  /// Does what is due now; returns how long to wait until something is due again.
  Duration step();

  /// Somebody saw a job come or go: poll soon. Rate limited within the budget.
  void nudge();

  [[nodiscard]] model::ControllerLoad load() const;
  /// "slurmctld" and "slurmdbd".
  [[nodiscard]] std::vector<model::Source> sources() const;
  [[nodiscard]] std::optional<Time> accounting_watermark() const;

 private:
  struct Memory;
  void round();
  void account();
  void read_load();
  void ask(Question question, const std::vector<model::Attempt>& jobs);
  void spend(Question question);
  void note_source(std::string_view name, model::Knowledge knowledge, const Error& why, Time at);
  [[nodiscard]] std::optional<Time> watermark() const;

  Reader reader_;
  PollLimits limits_;
  PollerSinks sinks_;
  PollerClock clock_;
  PollState state_;
  std::optional<Time> watermark_;
  std::stop_token stop_;
  int carried_rpcs_ = 0;  ///< sent before a round began; they count as its own
  std::shared_ptr<Memory> memory_;

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::optional<Duration> nudged_;
  model::ControllerLoad load_;
  std::vector<model::Source> sources_;
};

}  // namespace vetta::slurm
