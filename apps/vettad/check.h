// SPDX-License-Identifier: Apache-2.0
// `vettad --check`: what can be reached, what not, and why.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "sys/process.h"

namespace vetta::daemon {

struct Check {
  std::string name;
  bool is_fine = false;
  std::string detail;  ///< what was found, or what stood in the way
  std::string hint;    ///< what to try; empty if fine
};

/// Asks once each; changes nothing but what opening for a moment leaves unchanged.
[[nodiscard]] std::vector<Check> run_checks(const Options& options,
                                            const std::shared_ptr<sys::CommandRunner>& runner);
[[nodiscard]] std::string checks_table(const std::vector<Check>& checks);
[[nodiscard]] std::string checks_json(const std::vector<Check>& checks);
[[nodiscard]] bool are_fine(const std::vector<Check>& checks);

}  // namespace vetta::daemon
