// SPDX-License-Identifier: Apache-2.0
// Blocks of series' files: what is in them as bytes, and walking over them in both directions.
// A block is u32 payload length, u32 CRC-32 of length and payload, payload, u32 payload length.
// Numbers in payloads are varints (7 bits a byte, lowest first), signed ones zigzag. Pure but for
// the walkers, which read a descriptor. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "model/rank.h"
#include "series/attempt_file.h"

namespace vetta::series {

inline constexpr std::size_t block_frame_bytes = 12;
inline constexpr std::size_t block_payload_max = 4U << 20U;

/// Appends numbers and bytes to a string.
class PutBytes {
 public:
  explicit PutBytes(std::string& out) : out_(out) {}

  void unsigned_number(std::uint64_t value);
  void signed_number(std::int64_t value);
  void fixed64(std::uint64_t value);
  void fixed32(std::uint32_t value);

  void byte(std::uint8_t value) { out_ += static_cast<char>(value); }

  void text(std::string_view value) {
    unsigned_number(value.size());
    out_ += value;
  }

 private:
  std::string& out_;
};

/// Takes them again; past the end it gives zeros and is no longer ok.
class TakeBytes {
 public:
  explicit TakeBytes(std::string_view in) : in_(in) {}

  std::uint64_t unsigned_number();
  std::int64_t signed_number();
  std::uint64_t fixed64();
  std::uint32_t fixed32();
  std::uint8_t byte();
  std::string_view text();

  [[nodiscard]] bool ok() const { return ok_; }

  [[nodiscard]] bool is_at_end() const { return in_.empty(); }

 private:
  std::string_view in_;
  bool ok_ = true;
};

/// The payload with its frame.
void append_block(std::string& out, std::string_view payload);

enum class BlockType : std::uint8_t { key = 0, marks = 1, samples = 2, refused = 3, index = 4 };

/// The head of a block of marks or samples.
struct BlockHead {
  BlockType type = BlockType::key;
  RankRef rank;
  std::uint64_t count = 0;
  Time from, to;                            ///< of the first and last, both contained
  std::int64_t step_from = 0, step_to = 0;  ///< marks: contained
  Origin origin;                            ///< samples
};

[[nodiscard]] std::string encode_marks(const RankRef& rank, std::span<const model::Mark> marks);
[[nodiscard]] std::string encode_samples(const RankRef& rank, const Origin& origin,
                                         std::span<const model::RankSample> samples);
/// Reads the head; `take` then stands at the values.
[[nodiscard]] std::optional<BlockHead> decode_head(TakeBytes& take);
/// The values after the head; fewer than head.count means damage.
[[nodiscard]] std::vector<model::Mark> decode_marks(const BlockHead& head, TakeBytes& take);
[[nodiscard]] std::vector<model::RankSample> decode_samples(const BlockHead& head, TakeBytes& take);

struct Block {
  std::uint64_t offset = 0;  ///< of its frame
  std::string_view payload;  ///< until the walker moves

  [[nodiscard]] std::uint64_t end() const { return offset + payload.size() + block_frame_bytes; }

  [[nodiscard]] BlockType type() const {
    return payload.empty() ? BlockType::key : static_cast<BlockType>(payload.front());
  }
};

/// From `begin` towards `end` while blocks are whole.
class ForwardWalker {
 public:
  ForwardWalker(int fd, std::uint64_t begin, std::uint64_t end)
      : fd_(fd), position_(begin), end_(end) {}

  /// Nothing at the end or at the first block that is not whole.
  [[nodiscard]] Result<std::optional<Block>> next();

  /// End of the last whole block.
  [[nodiscard]] std::uint64_t position() const { return position_; }

 private:
  [[nodiscard]] Result<bool> fill(std::size_t bytes);

  int fd_;
  std::uint64_t position_, end_;
  std::string buffer_;
  std::uint64_t buffer_at_ = 0;
};

/// From `end`, which must be the end of a block, towards `begin`.
class BackwardWalker {
 public:
  BackwardWalker(int fd, std::uint64_t begin, std::uint64_t end)
      : fd_(fd), begin_(begin), position_(end) {}

  /// Nothing at `begin`; damage is an error.
  [[nodiscard]] Result<std::optional<Block>> next();

 private:
  [[nodiscard]] Result<bool> fill(std::size_t bytes);

  int fd_;
  std::uint64_t begin_, position_;
  std::string buffer_;
  std::uint64_t buffer_at_ = 0;
};

}  // namespace vetta::series
