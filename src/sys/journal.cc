// SPDX-License-Identifier: Apache-2.0
#include "sys/journal.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/checksum.h"
#include "sys/files.h"

namespace vetta::sys {
namespace {

constexpr std::string_view journal_magic = "VETTAJN1";
constexpr std::size_t head_bytes = 8;

std::string head_of(std::string_view record) {
  const auto length = static_cast<std::uint32_t>(record.size());
  std::string head(head_bytes, '\0');
  std::memcpy(head.data(), &length, 4);
  const std::uint32_t crc = crc32(record, crc32(std::string_view(head).substr(0, 4)));
  std::memcpy(head.data() + 4, &crc, 4);
  return head;
}

/// Length of the record at `offset`, read into `record`; nothing where no good one lies.
Result<bool> read_record(int fd, std::uint64_t offset, std::uint64_t size, std::string& record) {
  if (offset + head_bytes > size) return false;
  std::array<char, head_bytes> head{};
  if (VETTA_TRY(pread_all(fd, head.data(), head.size(), offset)) < head.size()) return false;
  std::uint32_t length = 0;
  std::memcpy(&length, head.data(), 4);
  if (length > Journal::record_bytes_max || offset + head_bytes + length > size) return false;
  record.resize(length);
  if (VETTA_TRY(pread_all(fd, record.data(), length, offset + head_bytes)) < length) return false;
  return head_of(record) == std::string_view(head.data(), head.size());
}

Result<JournalReplay> replay(int fd, const std::string& path, const JournalVisitor& visit) {
  struct stat info{};

  if (::fstat(fd, &info) != 0) return fail_errno(fmt::format("look at {}", path), errno);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  JournalReplay done;
  std::string start(journal_magic.size(), '\0');
  start.resize(VETTA_TRY(pread_all(fd, start.data(), start.size(), 0)));
  if (start != journal_magic.substr(0, start.size()))
    return fail(Code::invalid, fmt::format("{} is no journal of Vetta", path),
                "move it away; it is left untouched");
  if (start.size() < journal_magic.size()) {  // torn while it was made
    done.cut_bytes = size;
    return done;
  }
  done.bytes = journal_magic.size();
  std::string record;
  while (VETTA_TRY(read_record(fd, done.bytes, size, record))) {
    VETTA_TRY(visit(record));
    ++done.records;
    done.bytes += head_bytes + record.size();
  }
  done.cut_bytes = size - done.bytes;
  return done;
}

}  // namespace

Result<JournalReplay> replay_journal(const std::string& path, const JournalVisitor& visit) {
  const Fd fd = VETTA_TRY(open_file(path, O_RDONLY));
  return replay(fd.get(), path, visit);
}

Journal::Journal(std::string path, Fd fd, JournalReplay replayed)
    : path_(std::move(path)), fd_(std::move(fd)), replayed_(replayed), bytes_(replayed.bytes) {}

Result<Journal> Journal::open(const std::string& path, const JournalVisitor& visit) {
  Fd fd = VETTA_TRY(open_file(path, O_RDWR | O_CREAT, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(errno == EWOULDBLOCK ? Code::conflict : Code::internal,
                fmt::format("{} is in use by another process", path));
  const JournalReplay replayed = VETTA_TRY(replay(fd.get(), path, visit));
  Journal journal(path, std::move(fd), replayed);
  if (replayed.cut_bytes > 0 &&
      ::ftruncate(journal.fd_.get(), static_cast<off_t>(replayed.bytes)) != 0)
    return fail_errno(fmt::format("cut the torn end of {}", path), errno);
  if (replayed.bytes == 0) {
    VETTA_TRY(pwrite_all(journal.fd_.get(), journal_magic, 0));
    journal.bytes_ = journal_magic.size();
    VETTA_TRY(journal.sync());
    VETTA_TRY(sync_folder(folder_of(path)));
  }
  return journal;
}

Result<void> Journal::append(std::string_view record) {
  if (record.size() > record_bytes_max)
    return fail(Code::invalid,
                fmt::format("a record of {} bytes is too long for {}", record.size(), path_));
  std::string bytes = head_of(record);
  bytes += record;
  if (auto written = pwrite_all(fd_.get(), bytes, bytes_); !written) {
    // A rest that cannot be taken back fails its checksum at the next open, or is written over.
    [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), static_cast<off_t>(bytes_));
    return std::unexpected(std::move(written.error()).while_(fmt::format("append to {}", path_)));
  }
  bytes_ += bytes.size();
  return {};
}

Result<void> Journal::sync() {
  if (::fdatasync(fd_.get()) != 0) return fail_errno(fmt::format("sync {}", path_), errno);
  return {};
}

Result<void> Journal::clear() {
  if (::ftruncate(fd_.get(), static_cast<off_t>(journal_magic.size())) != 0)
    return fail_errno(fmt::format("empty {}", path_), errno);
  bytes_ = journal_magic.size();
  return sync();
}

}  // namespace vetta::sys
