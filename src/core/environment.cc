// SPDX-License-Identifier: Apache-2.0
#include "core/environment.h"

#include <cstdlib>

namespace vetta {

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace vetta
