// SPDX-License-Identifier: Apache-2.0
#include "sys/limits.h"

#include <cerrno>
#include <fmt/format.h>
#include <sys/resource.h>

namespace vetta::sys {

Result<std::uint64_t> raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return fail_errno("ask for the limit of open files", errno);
  if (limit.rlim_cur == limit.rlim_max) return limit.rlim_cur;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return fail_errno(
        fmt::format("raise the limit of open files from {} to {}", before, limit.rlim_max), errno);
  return limit.rlim_cur;
}

std::uint64_t open_files_max() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

}  // namespace vetta::sys
