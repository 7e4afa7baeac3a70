// SPDX-License-Identifier: Apache-2.0
// Fd: sole owner of a file descriptor, closed with it. Not thread-safe; move it between threads.
#pragma once

#include <utility>

namespace vetta::sys {

class [[nodiscard]] Fd {
 public:
  Fd() = default;

  explicit Fd(int fd) : fd_(fd) {}

  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }

  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }

  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  explicit operator bool() const { return fd_ >= 0; }

  /// Closes what is held and takes `fd`.
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

}  // namespace vetta::sys
