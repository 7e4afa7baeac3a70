// SPDX-License-Identifier: Apache-2.0
// Reads the Slurm that is there through its own programs: squeue -O, scontrol -o, sacct -p, sdiag.
// Separators carry a nonce that no job name can foresee; times are asked as seconds since the
// epoch. Each call starts one program, blocks until it ends or times out, and sends the RPCs that
// `rpcs_of` tells (measured, see README.md). Thread-safety: one thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slurm/command.h"
#include "slurm/sdiag.h"
#include "slurm/snapshot.h"

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

enum class Question { partitions, nodes, jobs, allocations, sdiag, accounting, cluster };

/// RPCs that slurmctld counts for one question of this kind.
[[nodiscard]] int rpcs_of(Question question);

class Reader {
 public:
  Reader(ReaderConfig config, Runner runner);

  [[nodiscard]] Answer<Version> version();
  /// ClusterName, asked once and remembered.
  [[nodiscard]] Answer<std::string> cluster();
  [[nodiscard]] Answer<std::vector<model::Partition>> partitions();
  [[nodiscard]] Answer<std::vector<model::Node>> nodes();
  [[nodiscard]] Answer<std::vector<model::Attempt>> jobs();
  /// `jobs` tells names (which scontrol prints unquoted) and submit times.
  [[nodiscard]] Answer<std::vector<JobAllocations>> allocations(
      const std::vector<model::Attempt>& jobs);
  /// Attempts of all users that lived in [from, until), with steps and requeued duplicates.
  [[nodiscard]] Answer<std::vector<AccountedAttempt>> accounting(Time from, Time until);
  [[nodiscard]] Answer<Sdiag> sdiag();

 private:
  [[nodiscard]] Command command(std::string program, std::vector<std::string> args) const;
  template <typename T, typename Parse>
  [[nodiscard]] Answer<T> ask(const Command& command, const Parse& parse);
  [[nodiscard]] const std::vector<std::string>& known_fields(std::string_view program);

  ReaderConfig config_;
  Runner runner_;
  std::vector<std::string> sacct_fields_;  ///< what this release's sacct knows; empty: not asked
  std::vector<std::string> job_fields_;    ///< the same of squeue -O
};

}  // namespace vetta::slurm
