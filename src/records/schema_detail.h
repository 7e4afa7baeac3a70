// SPDX-License-Identifier: Apache-2.0
// The schema and its numbered steps: forward only, each in one transaction with its number.
#pragma once

#include <span>
#include <string_view>

#include "core/result.h"
#include "records/database_detail.h"
#include "records/types.h"

namespace vetta::records {

/// Step i leads from schema i to i + 1. A step that was released never changes.
[[nodiscard]] std::span<const char* const> schema_steps();

/// The column of `clusters` with the time of a listing.
[[nodiscard]] std::string_view time_column(Listing listing);

/// Brings the database up to steps.size(). A later schema is refused, so is a file of another
/// program.
[[nodiscard]] Result<void> migrate(Database& database, std::span<const char* const> steps);

}  // namespace vetta::records
