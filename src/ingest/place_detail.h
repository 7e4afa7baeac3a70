// SPDX-License-Identifier: Apache-2.0
// Which attempt a rank belongs to. Pure.
#pragma once

#include <optional>
#include <span>

#include "model/rank.h"
#include "records/types.h"

namespace vetta::ingest {

/// Of the attempts under the rank's job id, the latest that this rank can belong to: same restart,
/// and alive when the rank began, give or take `slack`. Nothing: not known yet.
[[nodiscard]] const records::AttemptRow* place(const model::Rank& rank,
                                               std::span<const records::AttemptRow> candidates,
                                               Duration slack);

}  // namespace vetta::ingest
