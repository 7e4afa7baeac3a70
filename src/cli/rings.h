// SPDX-License-Identifier: Apache-2.0
// The rings that ranks left in a folder, as the table that diagnose judges.
#pragma once

#include <string>

#include "core/result.h"
#include "model/rank.h"

namespace vetta::cli {

/// Of several starts (elastic restarts) the last one counts; a ring that cannot be read is left
/// out. No ring: an empty table.
[[nodiscard]] Result<model::StepTable> read_rings(const std::string& folder);

}  // namespace vetta::cli
