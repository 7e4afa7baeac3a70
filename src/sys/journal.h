// SPDX-License-Identifier: Apache-2.0
// An append-only file of checksummed records: what a crash tears off the end is cut at the next
// open, everything before is kept. Format: 8 bytes "VETTAJN1", then records of u32 length, u32
// CRC-32 of length and payload, payload; little-endian. One writer a file (flock); not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "sys/fd.h"

namespace vetta::sys {

struct JournalReplay {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;      ///< good part of the file, with its header
  std::uint64_t cut_bytes = 0;  ///< behind it: torn or damaged
};

/// Sees each record in order; an error stops the replay and is returned.
using JournalVisitor = std::function<Result<void>(std::string_view record)>;

/// Reads without changing the file; may run beside the writer (sees what is complete).
[[nodiscard]] Result<JournalReplay> replay_journal(const std::string& path,
                                                   const JournalVisitor& visit);

class Journal {
 public:
  static constexpr std::size_t record_bytes_max = std::size_t{16} << 20U;

  /// Makes the file or replays it to `visit`, cuts a torn tail, and stands ready to append. A file
  /// that is no journal is Code::invalid and stays untouched; one that another process has open
  /// is Code::conflict.
  [[nodiscard]] static Result<Journal> open(const std::string& path, const JournalVisitor& visit);

  /// Hands the record to the kernel: survives kill -9, not a power cut before sync(). After an
  /// error (disk full) what was written of the record is taken back, so the file stays good.
  [[nodiscard]] Result<void> append(std::string_view record);
  /// What was appended before survives a power cut after this.
  [[nodiscard]] Result<void> sync();
  /// Empties the journal (its content was written elsewhere).
  [[nodiscard]] Result<void> clear();

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  [[nodiscard]] const JournalReplay& replayed() const { return replayed_; }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Journal(std::string path, Fd fd, JournalReplay replayed);

  std::string path_;
  Fd fd_;
  JournalReplay replayed_;
  std::uint64_t bytes_ = 0;
};

}  // namespace vetta::sys
