// SPDX-License-Identifier: Apache-2.0
// What an agent is told at its start. Plain data; names are those of flags and TOML keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collect/upgrade.h"
#include "core/time.h"

namespace vetta::collect {

struct Settings {
  std::string node, cluster;
  std::string rundir = "/run/vetta";
  std::vector<Address> vettad;
  std::string token_file;  ///< empty: none is sent (a unix socket may need none)
  std::size_t spool_max = std::size_t{8} << 20U;
  std::size_t rings_max = std::size_t{256} << 20U;  ///< rings of ended ranks that nobody fetched
  std::optional<bool> shared_host;                  ///< empty: by other agents under rundir
  Duration sample_period = std::chrono::seconds(10);
  Duration flush_period = std::chrono::seconds(5);  ///< of marks; one second in a burst
  Duration scan_period = std::chrono::seconds(5);
  /// A vettad that was away longer no longer holds back what the others have.
  Duration away_max = std::chrono::minutes(30);
  std::string proc_root = "/proc", kernel_log = "/dev/kmsg";
  std::string version;
};

}  // namespace vetta::collect
