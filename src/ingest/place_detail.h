// SPDX-License-Identifier: Apache-2.0
// Which attempt a rank belongs to. Pure.
#pragma once

#include <optional>
#include <span>

#include "model/rank.h"
#include "records/types.h"

namespace vetta::ingest {

/// What became of a rank that was offered.
enum class Placing : std::uint8_t {
  placed,
  unknown,     ///< no attempt fits: Slurm has not shown the job yet
  other_user,  ///< the only attempts that fit are of other users
  off_node,    ///< the only attempts that fit do not hold the rank's node
};

struct Place {
  const records::AttemptRow* row = nullptr;
  Placing why = Placing::unknown;  ///< `unknown` or `other_user` without a row
};

/// Of the attempts under the rank's job id, the latest that this rank can belong to: same restart,
/// alive when the rank began, give or take `slack`, and of the rank's user. The rank's uid is its
/// kernel's word, its job id only what its environment says.
[[nodiscard]] Place place(const model::Rank& rank, std::span<const records::AttemptRow> candidates,
                          Duration slack);

}  // namespace vetta::ingest
