// SPDX-License-Identifier: Apache-2.0
#include "sys/files.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"

namespace vetta::sys {

Result<Fd> open_file(const std::string& path, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return fail_errno(fmt::format("open {}", path), errno);
  return Fd(fd);
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  const Fd fd = VETTA_TRY(open_file(path, O_RDONLY));
  std::string content;
  std::size_t size = std::min<std::size_t>(limit + 1, 4096);
  for (std::size_t used = 0;;) {
    content.resize(size);
    const ssize_t n = ::read(fd.get(), content.data() + used, size - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(fmt::format("read {}", path), errno);
    used += static_cast<std::size_t>(n);
    if (n == 0) {
      content.resize(used);
      return content;
    }
    if (used > limit)
      return fail(Code::exhausted, fmt::format("{} has more than {} bytes", path, limit));
    if (used == size) size = std::min(limit + 1, size * 2);
  }
}

Result<void> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("write", errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> pwrite_all(int fd, std::string_view bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("write", errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<std::size_t> pread_all(int fd, char* bytes, std::size_t size, std::uint64_t offset) {
  std::size_t used = 0;
  while (used < size) {
    const ssize_t n = ::pread(fd, bytes + used, size - used, static_cast<off_t>(offset + used));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read", errno);
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
  }
  return used;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<void> sync_folder(const std::string& path) {
  const Fd fd = VETTA_TRY(open_file(path, O_RDONLY | O_DIRECTORY));
  if (::fsync(fd.get()) != 0 && errno != EINVAL)
    return fail_errno(fmt::format("sync folder {}", path), errno);
  return {};
}

namespace {

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}.{}.{}.tmp", path, ::getpid(), counter++);
}

Result<void> fill_and_rename(const std::string& temporary, const std::string& path,
                             std::string_view content, mode_t mode) {
  {
    const Fd fd = VETTA_TRY(open_file(temporary, O_WRONLY | O_CREAT | O_EXCL, mode));
    if (::fchmod(fd.get(), mode) != 0)
      return fail_errno(fmt::format("set the mode of {}", temporary), errno);
    if (auto written = write_all(fd.get(), content); !written)
      return std::unexpected(std::move(written.error()).while_(fmt::format("write {}", temporary)));
    if (::fsync(fd.get()) != 0) return fail_errno(fmt::format("sync {}", temporary), errno);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return fail_errno(fmt::format("rename {} to {}", temporary, path), errno);
  return {};
}

}  // namespace

Result<void> write_atomically(const std::string& path, std::string_view content, mode_t mode) {
  const std::string temporary = temporary_name(path);
  ::unlink(temporary.c_str());  // left by a process of the same id that was killed
  if (auto done = fill_and_rename(temporary, path, content, mode); !done) {
    ::unlink(temporary.c_str());
    return done;
  }
  return sync_folder(folder_of(path));
}

Result<void> make_folders(const std::string& path, mode_t mode) {
  if (path.empty()) return fail(Code::invalid, "make a folder without a name");
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
      const int error = errno;
      struct stat info{};

      // A read-only or foreign folder above that exists is no obstacle.
      if (::stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        return fail_errno(fmt::format("make folder {}", part), error);
    }
    if (slash == std::string::npos) break;
  }
  struct stat info{};

  if (::stat(path.c_str(), &info) != 0)
    return fail_errno(fmt::format("make folder {}", path), errno);
  if (!S_ISDIR(info.st_mode))
    return fail(Code::conflict, fmt::format("{} is there and is no folder", path));
  return {};
}

Result<std::vector<std::string>> list_folder(const std::string& path) {
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };

  const std::unique_ptr<DIR, Close> folder(::opendir(path.c_str()));
  if (!folder) return fail_errno(fmt::format("list folder {}", path), errno);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) {
      if (errno != 0) return fail_errno(fmt::format("list folder {}", path), errno);
      break;
    }
    const std::string_view name = &entry->d_name[0];
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

Result<void> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return fail_errno(fmt::format("remove {}", path), errno);
  return {};
}

Result<FileLock> FileLock::acquire(const std::string& path) {
  Fd fd = VETTA_TRY(open_file(path, O_RDWR | O_CREAT, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno(fmt::format("lock {}", path), errno);
    std::string holder(32, '\0');
    holder.resize(VETTA_TRY(pread_all(fd.get(), holder.data(), holder.size(), 0)));
    const std::string_view pid = trim(holder);
    return fail(Code::conflict,
                fmt::format("{} is locked by {}", path,
                            pid.empty() ? "another process" : fmt::format("process {}", pid)));
  }
  // Who holds it is a help; it is held where there is no room to say so, too.
  if (::ftruncate(fd.get(), 0) == 0)
    static_cast<void>(pwrite_all(fd.get(), fmt::format("{}\n", ::getpid()), 0));
  return FileLock(std::move(fd));
}

}  // namespace vetta::sys
