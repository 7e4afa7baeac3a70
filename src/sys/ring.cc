// SPDX-License-Identifier: Apache-2.0
#include "sys/ring.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/checksum.h"
#include "sys/files.h"

namespace vetta::sys {
namespace {

constexpr std::string_view ring_magic = "VETTARNG";
constexpr std::uint32_t version = 1;
constexpr std::size_t header_made = 128;  ///< what the maker writes
constexpr std::size_t header_used = 152;
constexpr std::uint64_t written_max = std::uint64_t{1} << 62U;
constexpr std::size_t note_text_max = 92;
/// A slot whose text is shorter ends its note; a longer one may go on (a slot can end up to three
/// bytes early, between two characters).
constexpr std::size_t note_text_full = note_text_max - 3;
constexpr std::size_t continuations_max = 64;
/// File systems take more space than a file has bytes: a huge page of a tmpfs, maps of blocks.
constexpr std::uint64_t space_slack = std::uint64_t{2} << 20U;
/// Slots fetched by one read: 32 KiB.
constexpr std::uint64_t slots_a_read = 256;

enum SlotKind : std::uint32_t { kind_step = 1, kind_note = 2, kind_continuation = 3 };

// Offsets in the header and in a slot, as in section 3 of the protocol.
constexpr std::size_t at_written = 32;
constexpr std::size_t at_read = 40;
constexpr std::size_t at_closed = 76;
constexpr std::size_t at_now = 128;
constexpr std::size_t now_bytes = 24;

template <typename Number>
Number get(std::string_view bytes, std::size_t at) {
  Number value{};
  std::memcpy(&value, bytes.substr(at, sizeof value).data(), sizeof value);
  return value;
}

template <typename Number>
void put(std::string& bytes, std::size_t at, Number value) {
  std::memcpy(&bytes.at(at), &value, sizeof value);
}

std::string text_of(std::string_view field) {
  return std::string(field.substr(0, std::min(field.find('\0'), field.size())));
}

template <typename Number>
std::string bytes_of(Number value) {
  std::string out(sizeof value, '\0');
  put(out, 0, value);
  return out;
}

std::string encode(const RingHeader& header) {
  std::string out(header_made, '\0');
  std::memcpy(out.data(), ring_magic.data(), ring_magic.size());
  put(out, 8, version);
  put(out, 12, static_cast<std::uint32_t>(ring_slot_bytes));
  put(out, 16, header.slots);
  put(out, 24, header.rank_id);
  put(out, at_written, header.written);
  put(out, at_read, header.read);
  put(out, 48, header.pid);
  put(out, 52, header.rank);
  put(out, 56, header.local_rank);
  put(out, 60, header.world_size);
  put(out, 64, header.start_ticks);
  put(out, 72, header.uid);
  put(out, at_closed, std::uint32_t{header.is_closed ? 1U : 0U});
  std::memcpy(&out[80], header.job_id.data(), std::min<std::size_t>(header.job_id.size(), 15));
  std::memcpy(&out[96], header.step_id.data(), std::min<std::size_t>(header.step_id.size(), 15));
  put(out, 112, header.slurm_restart);
  put(out, 116, header.elastic_restart);
  put(out, 120, header.task);
  return out;
}

/// Zeros are an older probe's; what makes no sense is a lie or was seen half-written.
std::optional<RingNow> decode_now(std::string_view bytes) {
  RingNow now;
  now.step = get<std::int64_t>(bytes, 0);
  now.phase = get<std::uint32_t>(bytes, 8);
  now.wall_ns = get<std::int64_t>(bytes, 16);
  if (now.wall_ns <= 0 || now.phase > std::tuple_size_v<decltype(RingStep::phases_ns)> ||
      now.step < -1 || get<std::uint32_t>(bytes, 12) != 0)
    return std::nullopt;
  return now;
}

/// Checks what the maker wrote; everything else in it is the writer's word.
Result<RingHeader> decode_header(std::string_view bytes) {
  if (bytes.size() < header_used) return fail(Code::invalid, "a ring was cut by its owner");
  if (!bytes.starts_with(ring_magic))
    return fail(Code::invalid, "a ring without its ring_magic word");
  if (get<std::uint32_t>(bytes, 8) != version)
    return fail(Code::invalid, fmt::format("a ring of version {}", get<std::uint32_t>(bytes, 8)));
  RingHeader out;
  out.slots = get<std::uint64_t>(bytes, 16);
  if (get<std::uint32_t>(bytes, 12) != ring_slot_bytes || out.slots == 0 ||
      out.slots > ring_slots_max)
    return fail(Code::invalid, "a ring with slots of another size or number");
  out.rank_id = get<std::uint64_t>(bytes, 24);
  out.written = get<std::uint64_t>(bytes, at_written);
  out.read = get<std::uint64_t>(bytes, at_read);
  if (out.written > written_max)
    return fail(Code::invalid, "a ring whose writer claims more marks than can be counted");
  out.pid = get<std::int32_t>(bytes, 48);
  out.rank = get<std::int32_t>(bytes, 52);
  out.local_rank = get<std::int32_t>(bytes, 56);
  out.world_size = get<std::int32_t>(bytes, 60);
  out.start_ticks = get<std::uint64_t>(bytes, 64);
  out.uid = get<std::uint32_t>(bytes, 72);
  out.is_closed = get<std::uint32_t>(bytes, at_closed) == 1;
  out.job_id = text_of(bytes.substr(80, 16));
  out.step_id = text_of(bytes.substr(96, 16));
  out.slurm_restart = get<std::uint32_t>(bytes, 112);
  out.elastic_restart = get<std::uint32_t>(bytes, 116);
  out.task = get<std::int32_t>(bytes, 120);
  out.now = decode_now(bytes.substr(at_now, now_bytes));
  return out;
}

std::uint64_t slot_offset(std::uint64_t sequence, std::uint64_t slots) {
  return ring_header_bytes + ((sequence - 1) % slots) * ring_slot_bytes;
}

bool is_good(std::string_view slot, std::uint64_t sequence) {
  return get<std::uint64_t>(slot, 0) == sequence && get<std::uint64_t>(slot, 16) == sequence &&
         get<std::uint32_t>(slot, 12) == crc32(slot.substr(16));
}

RingStep decode_step(std::string_view slot) {
  RingStep step;
  step.sequence = get<std::uint64_t>(slot, 0);
  step.step = get<std::int64_t>(slot, 24);
  step.start_wall_ns = get<std::int64_t>(slot, 32);
  step.start_monotonic_ns = get<std::int64_t>(slot, 40);
  step.duration_ns = get<std::int64_t>(slot, 48);
  for (std::size_t phase = 0; phase < step.phases_ns.size(); ++phase)
    step.phases_ns.at(phase) = get<std::int64_t>(slot, 56 + 8 * phase);
  step.samples = get<double>(slot, 96);
  step.loss = get<double>(slot, 104);
  step.source = get<std::uint32_t>(slot, 112);
  return step;
}

std::string_view note_text(std::string_view slot) {
  const std::size_t size = std::min<std::size_t>(get<std::uint16_t>(slot, 26), note_text_max);
  return slot.substr(36, size);
}

/// The newest slots, in which a write may be under way that we see in part.
constexpr std::uint64_t fresh_slots = 4;

/// Puts slots together to steps and notes. A note ends at the first slot that does not continue it.
class Assembler {
 public:
  Assembler(RingContent& content, std::uint64_t written, std::uint64_t slots, bool is_final)
      : content_(content), written_(written), slots_(slots), is_final_(is_final) {}

  /// False: stop before this slot, it may be in the making.
  bool take(std::string_view slot, std::uint64_t sequence) {
    if (!is_good(slot, sequence)) {
      if (!is_final_ && written_ - sequence < fresh_slots) return false;
      count_bad(slot, sequence);
    } else if (get<std::uint32_t>(slot, 8) == kind_continuation) {
      append_to_note(slot);
    } else {
      finish();
      start(slot, sequence);
    }
    content_.next = sequence;
    return true;
  }

  void finish() {
    if (note_) content_.notes.push_back(std::move(*note_));
    note_.reset();
  }

  /// At the end of a read: a note whose last slot is full may go on; it is left for the next read,
  /// unless nothing else was read (then it is taken as it is, so that a read always gets on).
  void leave_open_note(std::uint64_t after) {
    const bool may_go_on = note_ && is_last_slot_full_ && !is_final_;
    if (may_go_on && (!content_.has_more || note_->sequence > after + 1)) {
      content_.next = note_->sequence - 1;
      note_.reset();
    }
    finish();
  }

 private:
  void count_bad(std::string_view slot, std::uint64_t sequence) {
    const auto found = get<std::uint64_t>(slot, 0);
    const bool is_newer = found > sequence && (found - sequence) % slots_ == 0;
    ++(is_newer ? content_.overwritten : content_.damaged);
    finish();
  }

  void append_to_note(std::string_view slot) {
    if (!note_ || parts_ >= continuations_max) {
      ++content_.damaged;  // its head was overwritten, or it never ends
      return;
    }
    ++parts_;
    const std::string_view text = note_text(slot);
    note_->text += text;
    is_last_slot_full_ = text.size() >= note_text_full && parts_ < continuations_max;
  }

  void start(std::string_view slot, std::uint64_t sequence) {
    const auto kind = get<std::uint32_t>(slot, 8);
    const auto note_kind = get<std::uint16_t>(slot, 24);
    if (kind == kind_step) {
      content_.steps.push_back(decode_step(slot));
    } else if (kind == kind_note && note_kind >= 1 && note_kind <= 3) {
      const std::string_view text = note_text(slot);
      note_ = RingNote{sequence, static_cast<RingNoteKind>(note_kind), get<std::int64_t>(slot, 28),
                       std::string(text)};
      parts_ = 0;
      is_last_slot_full_ = text.size() >= note_text_full;
    } else {
      ++content_.damaged;
    }
  }

  RingContent& content_;
  std::uint64_t written_, slots_;
  bool is_final_;
  std::optional<RingNote> note_;
  std::size_t parts_ = 0;
  bool is_last_slot_full_ = false;
};

Result<void> allocate(int fd, std::uint64_t bytes, const std::string& path) {
  const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error != 0) return fail_errno(fmt::format("allocate {} bytes for {}", bytes, path), error);
  return {};
}

/// Without CAP_DAC_OVERRIDE even root writes to another user's file only as one of its group. That
/// is ours and never the user's, whose colleagues would get in.
Result<void> give_ring(int fd, std::uint32_t uid, const std::string& path) {
  if (uid == ::geteuid()) return {};
  if (::fchown(fd, static_cast<uid_t>(-1), ::getegid()) != 0 || ::fchmod(fd, 0660) != 0 ||
      ::fchown(fd, uid, static_cast<gid_t>(-1)) != 0)
    return fail_errno(fmt::format("give {} to user {}", path, uid), errno);
  return {};
}

Result<Fd> fill_ring(const std::string& temporary, const std::string& path,
                     const RingHeader& header) {
  Fd fd = VETTA_TRY(open_file(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  VETTA_TRY(allocate(fd.get(), ring_header_bytes + header.slots * ring_slot_bytes, path));
  VETTA_TRY(pwrite_all(fd.get(), encode(header), 0));
  VETTA_TRY(give_ring(fd.get(), header.uid, path));
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return fail_errno(fmt::format("rename {} to {}", temporary, path), errno);
  return fd;
}

}  // namespace

Result<Fd> make_ring(const std::string& path, const RingHeader& header) {
  if (header.slots == 0 || header.slots > ring_slots_max)
    return fail(Code::invalid, fmt::format("a ring of {} slots (1 to {} are allowed)", header.slots,
                                           ring_slots_max));
  const std::string temporary = path + ".tmp";
  ::unlink(temporary.c_str());
  auto made = fill_ring(temporary, path, header);
  if (!made) ::unlink(temporary.c_str());
  return made;
}

Result<RingReader> RingReader::open(const std::string& path) {
  return take(VETTA_TRY(open_file(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK)), path);
}

Result<RingReader> RingReader::take(Fd fd, const std::string& path) {
  struct stat info{};

  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail(Code::invalid, fmt::format("{} is no plain file", path));
  RingReader reader(std::move(fd), 0, 0);
  const auto header = reader.header();
  if (!header) return fail(Code::invalid, fmt::format("{}: {}", path, header.error().message));
  reader.slots_ = header->slots;
  reader.rank_id_ = header->rank_id;
  return reader;
}

Result<RingHeader> RingReader::header() const {
  std::string bytes(header_used, '\0');
  bytes.resize(VETTA_TRY(pread_all(fd_.get(), bytes.data(), bytes.size(), 0)));
  RingHeader header = VETTA_TRY(decode_header(bytes));
  if (slots_ != 0 && (header.slots != slots_ || header.rank_id != rank_id_))
    return fail(Code::invalid, "the fixed part of a ring's header was changed by its owner");
  return header;
}

Result<RingContent> RingReader::read(std::uint64_t after, std::size_t slots_max,
                                     bool is_final) const {
  VETTA_TRY(trim());
  const RingHeader now = VETTA_TRY(header());
  RingContent content;
  content.next = after;
  content.written = now.written;
  content.now = now.now;
  if (now.written <= after) return content;  // nothing new (or the writer set it back: a lie)
  std::uint64_t first = after + 1;
  if (now.written - after > slots_) {
    first = now.written - slots_ + 1;
    content.overwritten = first - (after + 1);
  }
  const std::uint64_t limit = std::max<std::size_t>(slots_max, 1);
  const std::uint64_t last = now.written - first < limit ? now.written : first + limit - 1;
  content.has_more = last < now.written;
  Assembler assembler(content, now.written, slots_, is_final);
  std::string buffer;
  bool is_open = true;
  for (std::uint64_t sequence = first; sequence <= last && is_open;) {
    const std::uint64_t until_wrap = slots_ - (sequence - 1) % slots_;
    const std::uint64_t count = std::min({last - sequence + 1, until_wrap, slots_a_read});
    buffer.assign(count * ring_slot_bytes, '\0');  // a file that was cut reads as bad slots
    VETTA_TRY(pread_all(fd_.get(), buffer.data(), buffer.size(), slot_offset(sequence, slots_)));
    for (std::uint64_t i = 0; i < count && is_open; ++i, ++sequence)
      is_open = assembler.take(
          std::string_view(buffer).substr(i * ring_slot_bytes, ring_slot_bytes), sequence);
  }
  assembler.leave_open_note(first - 1);
  return content;
}

Result<void> RingReader::trim() const {
  struct stat info{};

  if (::fstat(fd_.get(), &info) != 0) return fail_errno("look at a ring", errno);
  const std::uint64_t made = ring_header_bytes + slots_ * ring_slot_bytes;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  // Space can be taken behind the end, too (FALLOC_FL_KEEP_SIZE).
  const std::uint64_t taken = static_cast<std::uint64_t>(info.st_blocks) * 512;
  if (size <= made && taken <= made + space_slack) return {};
  if (::ftruncate(fd_.get(), static_cast<off_t>(made)) != 0)
    return fail_errno("cut a ring that its owner made larger", errno);
  return fail(Code::invalid, fmt::format("a ring of {} bytes was made to take {} by its owner",
                                         made, std::max(size, taken)));
}

Result<void> RingReader::store_read(std::uint64_t sequence) {
  return pwrite_all(fd_.get(), bytes_of(sequence), at_read);
}

Result<RingWriter> RingWriter::open(const std::string& path) {
  const RingReader reader = VETTA_TRY(RingReader::open(path));
  const RingHeader header = VETTA_TRY(reader.header());
  Fd fd = VETTA_TRY(open_file(path, O_RDWR));
  return RingWriter(std::move(fd), header.slots, header.written);
}

Result<void> RingWriter::write_slot(std::uint32_t kind, std::string slot) {
  const std::uint64_t sequence = written_ + 1;
  slot.resize(ring_slot_bytes, '\0');
  put(slot, 0, sequence);
  put(slot, 8, kind);
  put(slot, 16, sequence);
  put(slot, 12, crc32(std::string_view(slot).substr(16)));
  VETTA_TRY(pwrite_all(fd_.get(), slot, slot_offset(sequence, slots_)));
  VETTA_TRY(pwrite_all(fd_.get(), bytes_of(sequence), at_written));
  written_ = sequence;
  return {};
}

Result<void> RingWriter::write(RingStep step) {
  std::string slot(ring_slot_bytes, '\0');
  put(slot, 24, step.step);
  put(slot, 32, step.start_wall_ns);
  put(slot, 40, step.start_monotonic_ns);
  put(slot, 48, step.duration_ns);
  for (std::size_t phase = 0; phase < step.phases_ns.size(); ++phase)
    put(slot, 56 + 8 * phase, step.phases_ns.at(phase));
  put(slot, 96, step.samples);
  put(slot, 104, step.loss);
  put(slot, 112, step.source);
  return write_slot(kind_step, std::move(slot));
}

Result<void> RingWriter::write(const RingNote& note) {
  std::string_view rest = std::string_view(note.text).substr(0, ring_note_bytes_max);
  std::uint32_t kind = kind_note;
  do {
    const std::string_view part = rest.substr(0, note_text_max);
    rest.remove_prefix(part.size());
    std::string slot(ring_slot_bytes, '\0');
    put(slot, 24, static_cast<std::uint16_t>(note.kind));
    put(slot, 26, static_cast<std::uint16_t>(part.size()));
    if (kind == kind_note) put(slot, 28, note.wall_ns);
    std::memcpy(&slot[36], part.data(), part.size());
    VETTA_TRY(write_slot(kind, std::move(slot)));
    kind = kind_continuation;
  } while (!rest.empty());
  return {};
}

Result<void> RingWriter::write(const RingNow& now) {
  std::string bytes(now_bytes, '\0');
  put(bytes, 0, now.step);
  put(bytes, 8, now.phase);
  put(bytes, 16, now.wall_ns);
  return pwrite_all(fd_.get(), bytes, at_now);
}

Result<void> RingWriter::close_ring() {
  return pwrite_all(fd_.get(), bytes_of(std::uint32_t{1}), at_closed);
}

}  // namespace vetta::sys
