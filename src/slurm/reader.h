// SPDX-License-Identifier: Apache-2.0
// Reads the Slurm that is there through its own programs: squeue -O, scontrol -o, sacct -p, sdiag.
// Separators carry a nonce that no job name can foresee; times are asked as seconds since the
// epoch. Each call starts one program, blocks until it ends or times out, and sends the RPCs that
// `rpcs_of` tells (measured, see README.md). Thread-safety: one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/allocations.h"
#include "slurm/answer.h"
#include "slurm/question.h"
#include "slurm/sdiag.h"
#include "slurm/snapshot.h"
#include "sys/process.h"

namespace vetta::slurm {

struct ReaderConfig {
  std::string cluster;    ///< empty: ask slurm.conf's ClusterName once
  std::string bin_dir;    ///< folder of Slurm's programs; empty: PATH
  std::string conf;       ///< SLURM_CONF; empty: as in the environment
  std::string separator;  ///< empty: chosen at random at construction
  Duration timeout = std::chrono::seconds(60);
};

/// 22.05.8 and the like. Major is the year, minor the month, as Slurm counts.
struct Version {
  int major = 0, minor = 0, patch = 0;
  std::string text;
  auto operator<=>(const Version&) const = default;
};

[[nodiscard]] Result<Version> parse_version(std::string_view text);  ///< "slurm 22.05.8"

class Reader {
 public:
  Reader(ReaderConfig config, std::shared_ptr<sys::CommandRunner> runner);

  /// A program that runs when stop is requested is killed; the answer is then "could not ask".
  void cancel_on(std::stop_token stop) { stop_ = std::move(stop); }

  [[nodiscard]] Answer<Version> version();
  /// ClusterName, asked once and remembered.
  [[nodiscard]] Answer<std::string> cluster();
  /// What cluster() has learnt or the configuration told.
  [[nodiscard]] std::optional<std::string> cluster_name() const;
  [[nodiscard]] Answer<std::vector<model::Partition>> partitions();
  [[nodiscard]] Answer<std::vector<model::Node>> nodes();
  [[nodiscard]] Answer<std::vector<model::Attempt>> jobs();
  /// `jobs` (just read) tells names, which scontrol prints unquoted, and submit times.
  [[nodiscard]] Answer<std::vector<HeldJob>> allocations(const std::vector<model::Attempt>& jobs);
  /// Attempts of all users that ended in [from, until), with steps and requeued duplicates.
  [[nodiscard]] Answer<std::vector<AccountedAttempt>> accounting(Time from, Time until);
  [[nodiscard]] Answer<Sdiag> sdiag();

 private:
  [[nodiscard]] Result<sys::CommandOutput> run(const std::string& program,
                                               const std::vector<std::string>& args) const;
  /// Runs and parses; `parse` turns stdout and stderr into Parsed<T> or an Error.
  template <typename T, typename Parse>
  [[nodiscard]] Answer<T> ask(const std::string& program, const std::vector<std::string>& args,
                              const Parse& parse) const;
  [[nodiscard]] Result<void> probe_accounting_fields();

  ReaderConfig config_;
  std::shared_ptr<sys::CommandRunner> runner_;
  std::stop_token stop_;
  std::vector<std::string> sacct_fields_;  ///< what this release's sacct knows; empty: not asked
  std::vector<std::string> job_fields_;    ///< the same of squeue -O; begins with all we want
};

}  // namespace vetta::slurm
