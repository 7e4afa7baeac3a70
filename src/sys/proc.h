// SPDX-License-Identifier: Apache-2.0
// A reader of /proc (or of a fake tree: the root is an argument). Values the kernel does not give
// are empty optionals or errors with the reason (denied, not_found: the process has gone).
// Thread-safety: const, any thread. (The name leaves <sys/procfs.h> to the system.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"

namespace vetta::sys {

struct ProcessStat {
  std::int32_t pid = 0;
  std::string comm;
  char state = '?';  ///< R S D Z T …
  std::int32_t parent = 0;
  std::uint64_t minor_faults = 0, major_faults = 0;
  std::uint64_t child_minor_faults = 0, child_major_faults = 0;  ///< of children waited for
  std::uint64_t user_ticks = 0, system_ticks = 0;
  std::uint64_t child_user_ticks = 0, child_system_ticks = 0;  ///< of children waited for
  std::uint32_t threads = 0;
  std::uint64_t start_ticks = 0;  ///< since boot; with pid, names a process for ever
  std::uint64_t rss_pages = 0;
};

struct ProcessStatus {
  std::optional<std::uint32_t> uid;  ///< real
  std::optional<std::uint64_t> rss_bytes;
  std::optional<std::uint64_t> voluntary_switches, involuntary_switches;  ///< main thread's
};

struct ProcessIo {
  std::uint64_t read_bytes = 0, write_bytes = 0;  ///< from and to storage
};

struct NodeCpu {
  std::uint64_t busy_ticks = 0, total_ticks = 0;
};

struct NodeMemory {
  std::uint64_t total_bytes = 0, available_bytes = 0;
};

struct NodeNetwork {
  std::uint64_t receive_bytes = 0, transmit_bytes = 0;  ///< all interfaces but lo
};

/// One line of /proc/PID/cgroup. v2 has hierarchy 0 and no controllers.
struct CgroupPath {
  int hierarchy = 0;
  std::string controllers, path;
};

/// NAME=value entries as the kernel keeps them; later changes by the program itself do not show.
class ProcessEnvironment {
 public:
  explicit ProcessEnvironment(std::string block) : block_(std::move(block)) {}

  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;

  [[nodiscard]] bool empty() const { return block_.empty(); }

 private:
  std::string block_;
};

class Procfs {
 public:
  explicit Procfs(std::string root = "/proc") : root_(std::move(root)) {}

  [[nodiscard]] const std::string& root() const { return root_; }

  /// All process ids, ascending.
  [[nodiscard]] Result<std::vector<std::int32_t>> pids() const;
  [[nodiscard]] Result<ProcessStat> stat(std::int32_t pid) const;
  [[nodiscard]] Result<ProcessStatus> status(std::int32_t pid) const;
  [[nodiscard]] Result<ProcessIo> io(std::int32_t pid) const;
  [[nodiscard]] Result<ProcessEnvironment> environment(std::int32_t pid) const;
  /// The first argument as the process has it now: its name, or the title that it set itself.
  [[nodiscard]] Result<std::string> title(std::int32_t pid) const;
  [[nodiscard]] Result<std::vector<CgroupPath>> cgroups(std::int32_t pid) const;
  /// Children as the kernel lists them for every thread (CONFIG_PROC_CHILDREN).
  [[nodiscard]] Result<std::vector<std::int32_t>> children(std::int32_t pid) const;
  /// `pid` and all below it, by parent ids of one scan; a process that has gone gives an empty
  /// list.
  [[nodiscard]] Result<std::vector<std::int32_t>> tree(std::int32_t pid) const;

  [[nodiscard]] Result<NodeCpu> cpu() const;
  [[nodiscard]] Result<double> load_1m() const;
  [[nodiscard]] Result<NodeMemory> memory() const;
  [[nodiscard]] Result<NodeNetwork> network() const;
  /// "cpu", "memory" or "io": the `some avg10` figure as a ratio 0..1.
  [[nodiscard]] Result<double> pressure(std::string_view resource) const;
  [[nodiscard]] Result<Time> boot_time() const;
  [[nodiscard]] Result<std::string> boot_id() const;

 private:
  [[nodiscard]] std::string path(std::int32_t pid, std::string_view file) const;
  std::string root_;
};

/// Pure parsers, for tests and replays.
[[nodiscard]] Result<ProcessStat> parse_stat(std::string_view text);
[[nodiscard]] ProcessStatus parse_status(std::string_view text);

/// Ticks of /proc as a duration (sysconf(_SC_CLK_TCK)).
[[nodiscard]] Duration from_ticks(std::uint64_t ticks);

}  // namespace vetta::sys
