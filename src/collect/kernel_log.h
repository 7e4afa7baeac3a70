// SPDX-License-Identifier: Apache-2.0
// Out-of-memory kills in the kernel's log. parse_kernel_line is pure; KernelLog reads /dev/kmsg
// (needs CAP_SYSLOG) or a file in its form. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "sys/fd.h"

namespace vetta::collect {

struct OomKill {
  std::int32_t pid = 0;
  std::string comm;
  bool is_cgroup = false;      ///< of a memory cgroup (the job's limit), not of the whole node
  std::uint64_t sequence = 0;  ///< the kernel's, unique within a boot
  Duration since_boot{};
  std::string line;
};

/// When it was by this host's wall clock. The kernel's log counts by a clock that nobody adjusts,
/// as CLOCK_MONOTONIC_RAW does: after months it is minutes off boot time + since_boot.
[[nodiscard]] Time time_of(const OomKill& kill, Time wall_now, Duration raw_now);

/// One record of /dev/kmsg: "priority,sequence,microseconds,flags;text\n…".
[[nodiscard]] std::optional<OomKill> parse_kernel_line(std::string_view record);

class KernelLog {
 public:
  /// Starts at the oldest record that the kernel still has.
  [[nodiscard]] static Result<KernelLog> open(const std::string& path = "/dev/kmsg");
  /// Kills among the records that came since; reads at most `records_max`.
  [[nodiscard]] std::vector<OomKill> read(std::size_t records_max = 100'000);

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit KernelLog(sys::Fd fd) : fd_(std::move(fd)) {}

  sys::Fd fd_;
};

}  // namespace vetta::collect
