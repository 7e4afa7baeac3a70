// SPDX-License-Identifier: Apache-2.0
#include "sys/fd.h"

#include <unistd.h>

namespace vetta::sys {

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

}  // namespace vetta::sys
