// SPDX-License-Identifier: Apache-2.0
// The process's environment.
#pragma once

#include <string>

namespace vetta {

/// The variable's value; empty if it is not set. Not safe beside setenv of another thread.
[[nodiscard]] std::string environment_variable(const char* name);

}  // namespace vetta
