// SPDX-License-Identifier: Apache-2.0
// Slicing by eight: one table look-up a byte, eight bytes a round, no dependence on the CPU.
#include "sys/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace vetta::sys {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < 8; ++slice)
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[slice][byte] =
          (tables[slice - 1][byte] >> 8U) ^ tables[0][tables[slice - 1][byte] & 0xFFU];
  return tables;
}

constexpr Tables tables = make_tables();

static_assert(std::endian::native == std::endian::little,
              "the eight-byte step reads words as they lie");

}  // namespace

std::uint32_t crc32(std::string_view bytes, std::uint32_t seed) {
  std::uint32_t crc = ~seed;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::array<std::uint32_t, 2> words{};
    std::memcpy(words.data(), at, 8);
    const std::uint32_t low = words[0] ^ crc;
    const std::uint32_t high = words[1];
    crc = tables[7][low & 0xFFU] ^ tables[6][(low >> 8U) & 0xFFU] ^
          tables[5][(low >> 16U) & 0xFFU] ^ tables[4][low >> 24U] ^ tables[3][high & 0xFFU] ^
          tables[2][(high >> 8U) & 0xFFU] ^ tables[1][(high >> 16U) & 0xFFU] ^
          tables[0][high >> 24U];
  }
  for (; left > 0; --left, ++at)
    crc = (crc >> 8U) ^ tables[0][(crc ^ static_cast<unsigned char>(*at)) & 0xFFU];
  return ~crc;
}

}  // namespace vetta::sys
