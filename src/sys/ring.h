// SPDX-License-Identifier: Apache-2.0
// The ring of marks between a rank and the agent (docs/internals/agent-protocol.md, section 3):
// maker, reader and, for tests and benches, a writer. The file belongs to the job's user, who may
// write anything into it or cut it at any time: the reader uses pread only (no mapping, so no
// SIGBUS), believes nothing and bounds everything. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "sys/fd.h"

namespace vetta::sys {

inline constexpr std::uint64_t ring_slots_default = 8192;
inline constexpr std::uint64_t ring_slots_max = std::uint64_t{1} << 20U;
inline constexpr std::size_t ring_header_bytes = 4096;
inline constexpr std::size_t ring_slot_bytes = 128;
inline constexpr std::size_t ring_note_bytes_max = 5980;

/// Where the writer says it is. Its words are not written at once: a reader may see the step of one
/// place with the phase of another, until it looks again.
struct RingNow {
  std::int64_t step = -1;   ///< -1: between steps
  std::uint32_t phase = 0;  ///< 0: in none, else 1 + index of the phase in RingStep
  std::int64_t wall_ns = 0;

  friend bool operator==(const RingNow&, const RingNow&) = default;
};

struct RingHeader {
  std::uint64_t slots = ring_slots_default;
  std::uint64_t rank_id = 0;
  std::uint64_t written = 0;  ///< writer's word: untrusted
  std::uint64_t read = 0;
  std::int32_t pid = 0, rank = -1, local_rank = -1, world_size = -1;  ///< writer's word
  std::uint64_t start_ticks = 0;
  std::uint32_t uid = 0;
  bool is_closed = false;       ///< writer's word
  std::string job_id, step_id;  ///< at most 15 bytes
  std::uint32_t slurm_restart = 0, elastic_restart = 0;
  std::int32_t task = -1;
  std::optional<RingNow> now;  ///< writer's word; empty: an older probe, or no sense in it
};

enum class RingNoteKind : std::uint16_t { exception = 1, loop_ended = 2, probe_fault = 3 };

struct RingStep {
  std::uint64_t sequence = 0;
  std::int64_t step = 0;
  std::int64_t start_wall_ns = 0, start_monotonic_ns = 0, duration_ns = 0;
  std::array<std::int64_t, 5> phases_ns{-1, -1, -1, -1, -1};  ///< -1: not measured
  double samples = 0, loss = 0;                               ///< NaN: unknown
  std::uint32_t source = 0;
};

struct RingNote {
  std::uint64_t sequence = 0;  ///< of its first slot
  RingNoteKind kind = RingNoteKind::exception;
  std::int64_t wall_ns = 0;
  std::string text;  ///< bytes of the user's process, at most ring_note_bytes_max
};

struct RingContent {
  std::vector<RingStep> steps;  ///< by rising sequence
  std::vector<RingNote> notes;
  std::uint64_t next = 0;         ///< last sequence that was looked at: start again from here
  std::uint64_t overwritten = 0;  ///< slots behind `after` that are gone, in this read
  std::uint64_t damaged = 0;      ///< slots whose checksum or sequence was wrong, in this read
  bool has_more = false;          ///< the limit was reached before `written`
  std::uint64_t written = 0;      ///< the writer's last complete slot, at this read
  std::optional<RingNow> now;     ///< as in RingHeader
};

/// Makes the file under a temporary name, its space allocated (a full disk is an error here, not a
/// SIGBUS in the rank), gives it to header.uid and renames. Its mode is 0600, or 0660 with our own
/// group where that user is another: so we can open it again without a right over all files.
[[nodiscard]] Result<Fd> make_ring(const std::string& path, const RingHeader& header);

class RingReader {
 public:
  [[nodiscard]] static Result<RingReader> open(const std::string& path);
  /// Of a descriptor that reads and writes; `path` is for errors.
  [[nodiscard]] static Result<RingReader> take(Fd fd, const std::string& path);

  /// Header as of now; fails when the file was cut or its fixed fields are not ours any more.
  [[nodiscard]] Result<RingHeader> header() const;
  /// Good slots after sequence `after` (after a trim, whose error is this one's), at most
  /// `slots_max` looked at. While the writer lives, what may still be in the making (a damaged slot
  /// among the newest, a note that may go on) ends the read before it; `is_final` says that nobody
  /// writes any more.
  [[nodiscard]] Result<RingContent> read(std::uint64_t after, std::size_t slots_max,
                                         bool is_final = false) const;
  /// Nothing where the file takes what its maker gave it. Its owner can make it as large as the
  /// file system is: it is cut back, and the error says so.
  [[nodiscard]] Result<void> trim() const;
  /// Stores the acknowledged sequence.
  [[nodiscard]] Result<void> store_read(std::uint64_t sequence);

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  RingReader(Fd fd, std::uint64_t slots, std::uint64_t rank_id)
      : fd_(std::move(fd)), slots_(slots), rank_id_(rank_id) {}

  Fd fd_;
  std::uint64_t slots_ = 0;
  std::uint64_t rank_id_ = 0;
};

/// The writer's half as the probe does it, on pwrite: for tests and benches.
class RingWriter {
 public:
  [[nodiscard]] static Result<RingWriter> open(const std::string& path);
  /// Sets the sequence itself.
  [[nodiscard]] Result<void> write(RingStep step);
  [[nodiscard]] Result<void> write(const RingNote& note);
  [[nodiscard]] Result<void> write(const RingNow& now);
  [[nodiscard]] Result<void> close_ring();

  [[nodiscard]] std::uint64_t written() const { return written_; }

 private:
  RingWriter(Fd fd, std::uint64_t slots, std::uint64_t written)
      : fd_(std::move(fd)), slots_(slots), written_(written) {}

  [[nodiscard]] Result<void> write_slot(std::uint32_t kind, std::string slot);
  Fd fd_;
  std::uint64_t slots_ = 0;
  std::uint64_t written_ = 0;
};

}  // namespace vetta::sys
