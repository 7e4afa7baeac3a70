// SPDX-License-Identifier: Apache-2.0
#include "sys/unix_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace vetta::sys {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return fail(Code::invalid,
                fmt::format("the socket path '{}' has {} bytes, the kernel takes 1 to {}", path,
                            path.size(), sizeof address.sun_path - 1),
                "choose a shorter run folder");
  std::memcpy(&address.sun_path[0], path.data(), path.size());
  return address;
}

Result<Fd> make_socket(int type) {
  Fd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("make a unix socket", errno);
  return fd;
}

/// Binds under a temporary name and renames, so that the path always leads to a socket with its
/// right mode.
Result<Fd> bind_socket(const std::string& path, int type, mode_t mode) {
  VETTA_TRY(address_of(path));
  const std::string temporary = path + "~";
  const sockaddr_un address = VETTA_TRY(address_of(temporary));
  Fd fd = VETTA_TRY(make_socket(type));
  ::unlink(temporary.c_str());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(fmt::format("bind {}", path), errno);
  if (::chmod(temporary.c_str(), mode) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return fail_errno(fmt::format("bind {}", path), error);
  }
  return fd;
}

struct Message {
  std::string bytes;
  std::optional<PeerCredentials> peer;
  Fd fd;
  bool is_cut = false;
};

/// Nothing where no message waits.
Result<std::optional<Message>> receive_message(int fd, std::size_t bytes_max) {
  Message message;
  message.bytes.resize(bytes_max);
  iovec io{message.bytes.data(), message.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(16 * sizeof(int))>
      control{};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t n = 0;
  do {
    n = ::recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    return fail_errno("receive from a unix socket", errno);
  }
  message.bytes.resize(static_cast<std::size_t>(n));
  message.is_cut = (header.msg_flags & MSG_TRUNC) != 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_CREDENTIALS) {
      ucred credentials{};
      std::memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
      message.peer = PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
    } else if (part->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int passed = -1;
        std::memcpy(&passed, CMSG_DATA(part) + i * sizeof(int), sizeof passed);
        message.fd.reset(passed);  // the last one is kept, others are closed
      }
    }
  }
  return message;
}

}  // namespace

Result<DatagramSocket> DatagramSocket::bind(const std::string& path, mode_t mode) {
  Fd fd = VETTA_TRY(bind_socket(path, SOCK_DGRAM, mode));
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    return fail_errno(fmt::format("ask for credentials on {}", path), errno);
  return DatagramSocket(std::move(fd));
}

Result<std::optional<Datagram>> DatagramSocket::receive(std::size_t bytes_max) {
  std::optional<Message> message = VETTA_TRY(receive_message(fd_.get(), bytes_max));
  if (!message) return std::nullopt;
  return Datagram{std::move(message->bytes), message->peer, message->is_cut};
}

Result<void> send_datagram(const std::string& path, std::string_view bytes) {
  const sockaddr_un address = VETTA_TRY(address_of(path));
  const Fd fd = VETTA_TRY(make_socket(SOCK_DGRAM));
  if (::sendto(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
    return fail(Code::unavailable, fmt::format("send to {}: {}", path, errno_text(errno)));
  return {};
}

Result<PacketSocket> PacketSocket::connect(const std::string& path) {
  const sockaddr_un address = VETTA_TRY(address_of(path));
  Fd fd = VETTA_TRY(make_socket(SOCK_SEQPACKET));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail(Code::unavailable, fmt::format("connect to {}: {}", path, errno_text(errno)));
  return PacketSocket(std::move(fd));
}

Result<PeerCredentials> PacketSocket::peer() const {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return fail_errno("ask who is on the other end", errno);
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

Result<std::optional<std::string>> PacketSocket::receive(std::size_t bytes_max) {
  auto message = VETTA_TRY(receive_with_fd(bytes_max));
  if (!message) return std::nullopt;
  return std::move(message->first);
}

Result<std::optional<std::pair<std::string, Fd>>> PacketSocket::receive_with_fd(
    std::size_t bytes_max) {
  std::optional<Message> message = VETTA_TRY(receive_message(fd_.get(), bytes_max));
  if (!message) return std::nullopt;
  if (message->is_cut)
    return fail(Code::invalid, fmt::format("a packet of more than {} bytes", bytes_max));
  return std::pair(std::move(message->bytes), std::move(message->fd));
}

Result<void> PacketSocket::send(std::string_view bytes, int fd) {
  iovec io{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  }
  if (::sendmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
    return fail_errno("send to a unix socket", errno);
  return {};
}

Result<PacketListener> PacketListener::bind(const std::string& path, mode_t mode, int backlog) {
  Fd fd = VETTA_TRY(bind_socket(path, SOCK_SEQPACKET, mode));
  if (::listen(fd.get(), backlog) != 0) return fail_errno(fmt::format("listen on {}", path), errno);
  return PacketListener(std::move(fd));
}

Result<std::optional<PacketSocket>> PacketListener::accept() {
  int fd = -1;
  do {
    fd = ::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (fd < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    return fail_errno("accept on a unix socket", errno);
  }
  return PacketSocket(Fd(fd));
}

}  // namespace vetta::sys
