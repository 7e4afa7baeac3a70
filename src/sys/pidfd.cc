// SPDX-License-Identifier: Apache-2.0
#include "sys/pidfd.h"

#include <cerrno>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vetta::sys {
namespace {

/// struct pidfd_info of <linux/pidfd.h> up to exit_code (Linux 6.15); Debian 12 has it not yet.
struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup_id;
  std::uint32_t pid, tgid, ppid;
  std::uint32_t ids[8];
  std::int32_t exit_code;
};

static_assert(sizeof(PidfdInfo) == 64, "the kernel's first version of the struct has 64 bytes");

constexpr std::uint64_t info_exit = 1U << 3U;
constexpr unsigned long get_info = _IOWR(0xFF, 11, PidfdInfo);

}  // namespace

Result<Fd> open_pidfd(std::int32_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
  if (!fd) return fail_errno(fmt::format("watch process {}", pid), errno);
  return fd;
}

std::optional<int> wait_status_of(const Fd& pidfd) {
  PidfdInfo info{};
  info.mask = info_exit;
  if (::ioctl(pidfd.get(), get_info, &info) != 0 || (info.mask & info_exit) == 0)
    return std::nullopt;
  return info.exit_code;
}

}  // namespace vetta::sys
