// SPDX-License-Identifier: Apache-2.0
// Watching processes that are not our children. Thread-safety: free functions, any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "core/result.h"
#include "sys/fd.h"

namespace vetta::sys {

/// Readable (poll) once the process has ended; needs Linux 5.3. Check the process's start time
/// after opening: the id may have been used again before.
[[nodiscard]] Result<Fd> open_pidfd(std::int32_t pid);
/// The wait status of a process that has ended and was waited for by its parent; Linux 6.15 and
/// later tell it, older kernels and a process that nobody waited for give nothing.
[[nodiscard]] std::optional<int> wait_status_of(const Fd& pidfd);

}  // namespace vetta::sys
