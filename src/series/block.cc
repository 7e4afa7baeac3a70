// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "series/block_detail.h"
#include "sys/checksum.h"
#include "sys/files.h"

namespace vetta::series {
namespace {

constexpr std::size_t window_bytes = 256U << 10U;

std::uint32_t load32(const char* bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes, 4);
  return value;
}

std::uint32_t checksum(std::uint32_t size, std::string_view payload) {
  std::array<char, 4> head{};
  std::memcpy(head.data(), &size, 4);
  return sys::crc32(payload, sys::crc32(std::string_view(head.data(), 4)));
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "files are little-endian");

void PutBytes::unsigned_number(std::uint64_t value) {
  while (value >= 0x80U) {
    byte(static_cast<std::uint8_t>(value | 0x80U));
    value >>= 7U;
  }
  byte(static_cast<std::uint8_t>(value));
}

void PutBytes::signed_number(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  unsigned_number((bits << 1U) ^ (value < 0 ? ~std::uint64_t{0} : 0));
}

void PutBytes::fixed64(std::uint64_t value) {
  std::array<char, 8> bytes{};
  std::memcpy(bytes.data(), &value, 8);
  out_.append(bytes.data(), 8);
}

void PutBytes::fixed32(std::uint32_t value) {
  std::array<char, 4> bytes{};
  std::memcpy(bytes.data(), &value, 4);
  out_.append(bytes.data(), 4);
}

std::uint64_t TakeBytes::unsigned_number() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint8_t part = byte();
    value |= static_cast<std::uint64_t>(part & 0x7FU) << shift;
    if ((part & 0x80U) == 0) return value;
  }
  ok_ = false;
  return 0;
}

std::int64_t TakeBytes::signed_number() {
  const std::uint64_t bits = unsigned_number();
  return static_cast<std::int64_t>((bits >> 1U) ^ (~(bits & 1U) + 1U));
}

std::uint64_t TakeBytes::fixed64() {
  std::uint64_t value = 0;
  if (in_.size() < 8) {
    ok_ = false;
    in_ = {};
    return 0;
  }
  std::memcpy(&value, in_.data(), 8);
  in_.remove_prefix(8);
  return value;
}

std::uint32_t TakeBytes::fixed32() {
  std::uint32_t value = 0;
  if (in_.size() < 4) {
    ok_ = false;
    in_ = {};
    return 0;
  }
  std::memcpy(&value, in_.data(), 4);
  in_.remove_prefix(4);
  return value;
}

std::uint8_t TakeBytes::byte() {
  if (in_.empty()) {
    ok_ = false;
    return 0;
  }
  const auto value = static_cast<std::uint8_t>(in_.front());
  in_.remove_prefix(1);
  return value;
}

std::string_view TakeBytes::text() {
  const std::uint64_t size = unsigned_number();
  if (size > in_.size()) {
    ok_ = false;
    in_ = {};
    return {};
  }
  const auto out = in_.substr(0, size);
  in_.remove_prefix(size);
  return out;
}

void append_block(std::string& out, std::string_view payload) {
  const auto size = static_cast<std::uint32_t>(payload.size());
  PutBytes put(out);
  put.fixed32(size);
  put.fixed32(checksum(size, payload));
  out += payload;
  put.fixed32(size);
}

Result<bool> ForwardWalker::fill(std::size_t bytes) {
  if (bytes > end_ - position_) return false;
  if (position_ >= buffer_at_ && position_ + bytes <= buffer_at_ + buffer_.size()) return true;
  const auto wanted = static_cast<std::size_t>(
      std::min<std::uint64_t>(end_ - position_, std::max(bytes, window_bytes)));
  buffer_.resize(wanted);
  const auto got = VETTA_TRY(sys::pread_all(fd_, buffer_.data(), wanted, position_));
  buffer_.resize(got);
  buffer_at_ = position_;
  return got >= bytes;
}

Result<std::optional<Block>> ForwardWalker::next() {
  if (!VETTA_TRY(fill(block_frame_bytes))) return std::nullopt;
  const std::uint32_t size = load32(buffer_.data() + (position_ - buffer_at_));
  if (size > block_payload_max || !VETTA_TRY(fill(size + block_frame_bytes))) return std::nullopt;
  const char* frame = buffer_.data() + (position_ - buffer_at_);
  const std::string_view payload(frame + 8, size);
  if (load32(frame + 8 + size) != size || load32(frame + 4) != checksum(size, payload))
    return std::nullopt;
  Block block{position_, payload};
  position_ = block.end();
  return block;
}

Result<bool> BackwardWalker::fill(std::size_t bytes) {
  if (bytes > position_ - begin_) return false;
  const std::uint64_t from = position_ - bytes;
  if (from >= buffer_at_ && position_ <= buffer_at_ + buffer_.size()) return true;
  const auto wanted = static_cast<std::size_t>(
      std::min<std::uint64_t>(position_ - begin_, std::max(bytes, window_bytes)));
  buffer_.resize(wanted);
  buffer_at_ = position_ - wanted;
  const auto got = VETTA_TRY(sys::pread_all(fd_, buffer_.data(), wanted, buffer_at_));
  return got == wanted;
}

Result<std::optional<Block>> BackwardWalker::next() {
  if (position_ == begin_) return std::nullopt;
  if (!VETTA_TRY(fill(block_frame_bytes)))
    return fail(Code::internal, "a block of the file is not whole");
  const std::uint32_t size = load32(buffer_.data() + (position_ - 4 - buffer_at_));
  if (size > block_payload_max || !VETTA_TRY(fill(size + block_frame_bytes)))
    return fail(Code::internal, "a block of the file is not whole");
  const std::uint64_t offset = position_ - size - block_frame_bytes;
  const char* frame = buffer_.data() + (offset - buffer_at_);
  const std::string_view payload(frame + 8, size);
  if (load32(frame) != size || load32(frame + 4) != checksum(size, payload))
    return fail(Code::internal, "a block of the file has a wrong checksum");
  position_ = offset;
  return Block{offset, payload};
}

}  // namespace vetta::series
