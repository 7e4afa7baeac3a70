// SPDX-License-Identifier: Apache-2.0
// Files: whole reads with a limit, atomic replacement, folders, locks. Paths are bytes; every
// descriptor is close-on-exec. Errors name the path and the system's reason. (The name leaves
// <sys/file.h> to the system.)
// Thread-safety: free functions may run in any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "core/result.h"
#include "sys/fd.h"

namespace vetta::sys {

/// open(2) with O_CLOEXEC added.
[[nodiscard]] Result<Fd> open_file(const std::string& path, int flags, mode_t mode = 0644);

/// The whole file; one of more than `limit` bytes is an error (exhausted). Works on /proc.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t limit);

/// Replaces or makes `path`: a temporary file beside it, fsync, rename, fsync of the folder. A
/// reader sees the old or the new content, never a mix; a crash leaves one of the two.
[[nodiscard]] Result<void> write_atomically(const std::string& path, std::string_view content,
                                            mode_t mode = 0644);

/// Writes all bytes at the descriptor's position (interrupted and short writes are continued).
[[nodiscard]] Result<void> write_all(int fd, std::string_view bytes);
/// Writes all bytes at `offset`.
[[nodiscard]] Result<void> pwrite_all(int fd, std::string_view bytes, std::uint64_t offset);
/// Reads up to bytes.size() at `offset`; fewer only at the end of the file.
[[nodiscard]] Result<std::size_t> pread_all(int fd, char* bytes, std::size_t size,
                                            std::uint64_t offset);

/// Makes the folder and those above it that are missing; an existing one is left as it is.
[[nodiscard]] Result<void> make_folders(const std::string& path, mode_t mode = 0755);
[[nodiscard]] Result<void> sync_folder(const std::string& path);
/// Names in a folder without "." and "..", sorted.
[[nodiscard]] Result<std::vector<std::string>> list_folder(const std::string& path);
/// Removing what is not there is fine.
[[nodiscard]] Result<void> remove_file(const std::string& path);
[[nodiscard]] std::string folder_of(const std::string& path);

/// An exclusive advisory lock (flock) on a file, made if missing, held until destruction or the
/// process's end.
class FileLock {
 public:
  /// Does not wait: a lock held elsewhere is Code::conflict and names the holder's pid if known.
  [[nodiscard]] static Result<FileLock> acquire(const std::string& path);

 private:
  explicit FileLock(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace vetta::sys
