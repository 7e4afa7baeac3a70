// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "series/attempt_file_detail.h"
#include "sys/files.h"

namespace vetta::series {
namespace {

constexpr std::uint64_t segment_bytes = 64U << 10U;
constexpr std::size_t marks_per_block = 2048;
constexpr std::size_t samples_per_block = 1024;
constexpr std::uint64_t refused_reserve = 4096;  ///< beyond the cap, for counts of what it refused

std::string key_payload(const model::AttemptKey& key) {
  std::string out;
  PutBytes put(out);
  put.byte(static_cast<std::uint8_t>(BlockType::key));
  put.text(key.cluster);
  put.unsigned_number(key.job_id);
  put.signed_number(epoch_nanoseconds(key.submit));
  return out;
}

/// Makes the file whole before it has its name: a reader never sees half a head.
Result<void> create(const std::string& path, const model::AttemptKey& key) {
  std::string content(attempt_file_magic);
  append_block(content, key_payload(key));
  return sys::write_atomically(path, content, 0640);
}

}  // namespace

Result<std::unique_ptr<AttemptFile>> AttemptFile::open(const std::string& path,
                                                       const model::AttemptKey& key,
                                                       const AttemptFileOptions& options) {
  auto fd = sys::open_file(path, O_RDWR);
  if (!fd && fd.error().code == Code::not_found) {
    VETTA_TRY(sys::make_folders(sys::folder_of(path)));
    VETTA_TRY(create(path, key));
    fd = sys::open_file(path, O_RDWR);
  }
  if (!fd) return std::unexpected(std::move(fd).error());
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return fail_errno("look at " + path, errno);
  std::unique_ptr<AttemptFile> file(new AttemptFile(path, std::move(*fd), options));
  VETTA_TRY(file->learn(static_cast<std::uint64_t>(status.st_size)));
  return file;
}

Result<void> AttemptFile::learn(std::uint64_t file_bytes) {
  std::string magic(attempt_file_magic.size(), '\0');
  const auto got = VETTA_TRY(sys::pread_all(fd_.get(), magic.data(), magic.size(), 0));
  if (got != magic.size() || magic != attempt_file_magic) {
    return fail(Code::conflict, path_ + " is no file of marks of this version",
                "it is set aside when marks come; older ones may be in a backup");
  }
  ForwardWalker walker(fd_.get(), magic.size(), file_bytes);
  while (auto block = VETTA_TRY(walker.next())) learn_block(*block);
  bytes_ = walker.position();
  info_.bytes = walker.position();
  refused_written_ = info_.refused;
  if (walker.position() == file_bytes) return {};
  if (ftruncate(fd_.get(), static_cast<off_t>(walker.position())) != 0)
    return fail_errno("cut the torn tail of " + path_, errno);
  return {};
}

void AttemptFile::learn_block(const Block& block) {
  info_.is_sealed = block.type() == BlockType::index;
  TakeBytes take(block.payload);
  if (block.type() == BlockType::refused) {
    take.byte();
    info_.refused = std::max(info_.refused, take.unsigned_number());
    return;
  }
  if (block.type() == BlockType::index) {
    if (const auto index = decode_index(block.payload))
      info_.refused = std::max(info_.refused, index->refused);
    return;
  }
  const auto head = decode_head(take);
  if (!head) return;
  auto& seen = ranks_[head->rank.rank_id];
  if (head->type == BlockType::samples) {
    info_.samples += head->count;
    seen.batches[head->origin.agent_id].add(head->origin.sequence);
    return;
  }
  for (const auto& mark : decode_marks(*head, take)) seen.marks.add(mark.sequence);
  info_.marks += head->count;
}

bool AttemptFile::fits(std::size_t staged, std::size_t payload) const {
  return bytes() + staged + payload + block_frame_bytes <= options_.bytes_max;
}

void AttemptFile::stage_marks(const MarkAppend& what, std::string& out, Appended& done) {
  auto& seen = ranks_[what.rank.rank_id].marks;
  std::vector<model::Mark> fresh;
  for (const auto& mark : what.marks) {
    if (seen.add(mark.sequence)) {
      fresh.push_back(mark);
    } else {
      ++done.duplicates;
    }
  }
  std::span<const model::Mark> rest(fresh);
  while (!rest.empty()) {
    const auto part = rest.first(std::min(rest.size(), marks_per_block));
    rest = rest.subspan(part.size());
    const std::string payload = encode_marks(what.rank, part);
    if (fits(out.size(), payload.size())) {
      append_block(out, payload);
      done.marks += part.size();
    } else {
      done.refused += part.size();
    }
  }
}

void AttemptFile::stage_samples(const SampleAppend& what, std::string& out, Appended& done) {
  auto& seen = ranks_[what.rank.rank_id].batches[what.origin.agent_id];
  if (!seen.add(what.origin.sequence)) {
    done.duplicates += what.samples.size();
    return;
  }
  auto rest = what.samples;
  while (!rest.empty()) {
    const auto part = rest.first(std::min(rest.size(), samples_per_block));
    rest = rest.subspan(part.size());
    const std::string payload = encode_samples(what.rank, what.origin, part);
    if (fits(out.size(), payload.size())) {
      append_block(out, payload);
      done.samples += part.size();
    } else {
      done.refused += part.size();
    }
  }
}

/// The count is written when it has doubled, so that it costs a few blocks at most; the last exact
/// figure goes into the index.
void AttemptFile::stage_refused(std::string& out) {
  if (info_.refused < refused_written_ * 2 || info_.refused == refused_written_) return;
  put_refused(out);
}

void AttemptFile::put_refused(std::string& out) {
  if (bytes() + out.size() > options_.bytes_max + refused_reserve) return;
  std::string payload;
  PutBytes put(payload);
  put.byte(static_cast<std::uint8_t>(BlockType::refused));
  put.unsigned_number(info_.refused);
  append_block(out, payload);
  refused_written_ = info_.refused;
}

Result<void> AttemptFile::write(std::string_view blocks) {
  const std::uint64_t at = bytes();
  auto written = sys::pwrite_all(fd_.get(), blocks, at);
  if (written && options_.is_synced && fdatasync(fd_.get()) != 0)
    written = fail_errno("sync " + path_, errno);
  if (!written) {
    // What is torn is cut here or, if even that fails, at the next open.
    [[maybe_unused]] const int cut = ftruncate(fd_.get(), static_cast<off_t>(at));
    return std::unexpected(
        std::move(written.error())
            .while_("keep marks in " + path_)
            .try_("free space there (df); the marks stay with their nodes until they are taken"));
  }
  bytes_.store(at + blocks.size(), std::memory_order_release);
  info_.bytes = bytes();
  return {};
}

AttemptFile::~AttemptFile() {
  if (info_.refused == refused_written_ || !fd_) return;
  std::string out;
  put_refused(out);
  if (!out.empty()) static_cast<void>(write(out));  // a count; nobody waits for it
}

Result<Appended> AttemptFile::append(std::span<const MarkAppend> marks,
                                     std::span<const SampleAppend> samples) {
  Appended done;
  std::string out;
  for (const auto& what : marks) stage_marks(what, out, done);
  for (const auto& what : samples) stage_samples(what, out, done);
  info_.refused += done.refused;
  stage_refused(out);
  if (out.empty()) return done;
  VETTA_TRY(write(out));
  done.bytes = out.size();
  info_.marks += done.marks;
  info_.samples += done.samples;
  info_.is_sealed = false;
  return done;
}

Result<void> AttemptFile::seal() {
  if (info_.is_sealed) return {};
  std::vector<Segment> segments;
  ForwardWalker walker(fd_.get(), attempt_file_magic.size(), bytes());
  while (const auto block = VETTA_TRY(walker.next())) add_to_segments(segments, *block);
  std::string out;
  append_block(out, encode_index(segments, info_.refused));
  VETTA_TRY(write(out));
  info_.is_sealed = true;
  refused_written_ = info_.refused;
  return {};
}

AttemptFileInfo AttemptFile::info() const {
  return info_;
}

void add_to_segments(std::vector<Segment>& segments, const Block& block) {
  TakeBytes take(block.payload);
  const auto head = decode_head(take);
  if (!head) return;
  if (segments.empty() || segments.back().bytes >= segment_bytes ||
      segments.back().offset + segments.back().bytes != block.offset) {
    Segment fresh;
    fresh.offset = block.offset;
    fresh.incarnation_from = fresh.incarnation_to = head->rank.incarnation;
    fresh.time_from = epoch_nanoseconds(head->from);
    fresh.time_to = epoch_nanoseconds(head->to);
    segments.push_back(fresh);
  }
  auto& segment = segments.back();
  segment.bytes = block.end() - segment.offset;
  segment.time_from = std::min(segment.time_from, epoch_nanoseconds(head->from));
  segment.time_to = std::max(segment.time_to, epoch_nanoseconds(head->to));
  segment.incarnation_from = std::min(segment.incarnation_from, head->rank.incarnation);
  segment.incarnation_to = std::max(segment.incarnation_to, head->rank.incarnation);
  if (head->type == BlockType::samples) {
    segment.samples += head->count;
    return;
  }
  const bool is_first = segment.marks == 0;
  segment.step_from = is_first ? head->step_from : std::min(segment.step_from, head->step_from);
  segment.step_to = is_first ? head->step_to : std::max(segment.step_to, head->step_to);
  segment.marks += head->count;
}

std::string encode_index(const std::vector<Segment>& segments, std::uint64_t refused) {
  std::string out;
  PutBytes put(out);
  put.byte(static_cast<std::uint8_t>(BlockType::index));
  put.unsigned_number(refused);
  put.unsigned_number(segments.size());
  for (const auto& s : segments) {
    for (const std::uint64_t value :
         {s.offset, s.bytes, s.marks, s.samples, std::uint64_t{s.incarnation_from},
          std::uint64_t{s.incarnation_to}})
      put.unsigned_number(value);
    for (const std::int64_t value : {s.step_from, s.step_to, s.time_from, s.time_to})
      put.signed_number(value);
  }
  return out;
}

std::optional<Index> decode_index(std::string_view payload) {
  TakeBytes take(payload);
  if (static_cast<BlockType>(take.byte()) != BlockType::index) return std::nullopt;
  Index index;
  index.refused = take.unsigned_number();
  const std::uint64_t count = take.unsigned_number();
  for (std::uint64_t i = 0; i < count && take.ok(); ++i) {
    Segment s;
    for (std::uint64_t* value : {&s.offset, &s.bytes, &s.marks, &s.samples})
      *value = take.unsigned_number();
    s.incarnation_from = static_cast<std::uint32_t>(take.unsigned_number());
    s.incarnation_to = static_cast<std::uint32_t>(take.unsigned_number());
    for (std::int64_t* value : {&s.step_from, &s.step_to, &s.time_from, &s.time_to})
      *value = take.signed_number();
    index.segments.push_back(s);
  }
  if (!take.ok()) return std::nullopt;
  return index;
}

}  // namespace vetta::series
