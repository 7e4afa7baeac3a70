// SPDX-License-Identifier: Apache-2.0
// CRC-32 with zlib's polynomial (as Python's zlib.crc32): for rings, journals and data files.
#pragma once

#include <cstdint>
#include <string_view>

namespace vetta::sys {

/// The checksum of `bytes`; pass an earlier result as `seed` to go on from there.
[[nodiscard]] std::uint32_t crc32(std::string_view bytes, std::uint32_t seed = 0);

}  // namespace vetta::sys
