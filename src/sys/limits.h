// SPDX-License-Identifier: Apache-2.0
// Limits that the kernel sets a process. Thread-safety: free functions, any thread.
#pragma once

#include <cstdint>

#include "core/result.h"

namespace vetta::sys {

/// Raises the soft limit of open files to the hard one, for a program that keeps a descriptor a
/// process, ring or connection (the soft one is 1,024 for old select(), which Vetta never calls).
/// Gives the limit that holds now. An error leaves the limit as it was: the program can go on.
[[nodiscard]] Result<std::uint64_t> raise_open_files();

/// The soft limit as it is now; 1,024 where the kernel does not say.
[[nodiscard]] std::uint64_t open_files_max();

}  // namespace vetta::sys
