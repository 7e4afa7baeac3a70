// SPDX-License-Identifier: Apache-2.0
// The one thread that talks to Slurm: finds out the cluster's name, then runs the poller into
// ingest. Thread-safety: all functions but the constructor may be called from any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ingest/ingest.h"
#include "options.h"
#include "slurm/poller.h"
#include "sys/process.h"

namespace vetta::daemon {

/// Slurm's programs through sys; ends them when `stop` is requested.
[[nodiscard]] std::shared_ptr<sys::CommandRunner> make_runner(std::stop_token stop);
[[nodiscard]] slurm::ReaderConfig reader_config(const Options& options);

class SlurmFeed {
 public:
  /// `known_cluster`: from an earlier run, so that a start without Slurm still answers.
  SlurmFeed(const Options& options, ingest::Ingest& ingest, const std::string& known_cluster);
  /// Stops within the time that a program of Slurm needs to be killed.
  ~SlurmFeed();
  SlurmFeed(const SlurmFeed&) = delete;
  SlurmFeed& operator=(const SlurmFeed&) = delete;

  void nudge();
  /// Makes events of sources that stopped or began to answer; call it every second, from one
  /// thread.
  void tick();
  [[nodiscard]] std::string cluster() const;
  [[nodiscard]] std::vector<model::Source> sources() const;
  [[nodiscard]] model::ControllerLoad load() const;

 private:
  void run(const std::stop_token& stop);
  /// Asks until the name is known or a stop is requested; false at a stop.
  bool learn_cluster(slurm::Reader& reader, const std::stop_token& stop);
  void take(const slurm::Snapshot& snapshot);
  bool take(const slurm::Accounting& accounting);
  void note_sources(const std::vector<model::Source>& sources);

  Options options_;
  ingest::Ingest& ingest_;
  mutable std::mutex mutex_;
  std::string cluster_;
  std::vector<model::Source> sources_;
  std::set<std::string> lost_;  ///< answered once and do not now; of tick() alone
  std::shared_ptr<slurm::Poller> poller_;
  std::jthread thread_;
};

}  // namespace vetta::daemon
