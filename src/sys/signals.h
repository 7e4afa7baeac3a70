// SPDX-License-Identifier: Apache-2.0
// Signals as readable events: they are blocked in this thread (and in threads started later) and
// read from a descriptor. Make it first thing in main. Programs that we run get the default mask.
#pragma once

#include <initializer_list>
#include <optional>

#include "core/result.h"
#include "sys/fd.h"

namespace vetta::sys {

class Signals {
 public:
  /// Blocks these and listens; SIGPIPE is ignored from here on.
  [[nodiscard]] static Result<Signals> listen(std::initializer_list<int> signals);
  /// The next signal that came in, or nothing; does not wait.
  [[nodiscard]] std::optional<int> next();
  /// Waits for one.
  [[nodiscard]] int wait();

  /// Readable when a signal waits.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit Signals(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

/// Tells systemd over its socket ($NOTIFY_SOCKET), e.g. "READY=1"; without systemd does nothing.
void notify_service_manager(const char* state);

}  // namespace vetta::sys
