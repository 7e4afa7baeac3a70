// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes and their text forms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"

namespace vetta {

/// Binary units with three digits for people: 512 B, 1.50 KiB, 23.4 GiB.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);
/// Slurm's and people's sizes: 1024 (times `bare_unit`), 4K, 190000M, 1.5G, 2T, 1GiB, with a
/// trailing n or c (per node, per cpu) refused. K, M, G, T, P are powers of 1024, as Slurm means
/// them.
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text, std::uint64_t bare_unit = 1);

}  // namespace vetta
