// SPDX-License-Identifier: Apache-2.0
// Screens that are laid out from JSON alone: pure, so that tests need no server.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "core/time.h"
#include "model/json.h"

namespace vetta::cli {

/// One screen; the answer is its first line.
[[nodiscard]] std::string why_screen(const model::Json& answer, const Terminal& terminal);
[[nodiscard]] std::string diagnosis_screen(const model::Json& diagnosis, const Terminal& terminal);
[[nodiscard]] std::string cluster_screen(const model::Json& cluster, const Terminal& terminal,
                                         Time now);
[[nodiscard]] std::string node_screen(const model::Json& detail, const Terminal& terminal,
                                      Time now);

}  // namespace vetta::cli
