// SPDX-License-Identifier: Apache-2.0
#include "sys/signals.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace vetta::sys {

Result<Signals> Signals::listen(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  if (const int error = ::pthread_sigmask(SIG_BLOCK, &set, nullptr); error != 0)
    return fail_errno("block signals", error);
  ::signal(SIGPIPE, SIG_IGN);
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_errno("listen for signals", errno);
  return Signals(std::move(fd));
}

std::optional<int> Signals::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

int Signals::wait() {
  for (;;) {
    if (const std::optional<int> signal = next()) return *signal;
    pollfd fd{fd_.get(), POLLIN, 0};
    ::poll(&fd, 1, -1);
  }
}

void notify_service_manager(const char* state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(&address.sun_path[0], path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // the abstract namespace
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  [[maybe_unused]] const ssize_t n = ::sendto(fd.get(), state, std::strlen(state), MSG_NOSIGNAL,
                                              reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace vetta::sys
