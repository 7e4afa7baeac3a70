// SPDX-License-Identifier: Apache-2.0
// Unix sockets with the kernel's word on who sends: datagrams with SCM_CREDENTIALS, sequenced
// packets with SO_PEERCRED and descriptor passing. Everything is non-blocking and close-on-exec.
// Paths are at most 107 bytes (the kernel's limit); longer ones are refused with that reason.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "core/result.h"
#include "sys/fd.h"

namespace vetta::sys {

struct PeerCredentials {
  std::int32_t pid = 0;
  std::uint32_t uid = 0, gid = 0;
};

struct Datagram {
  std::string bytes;
  std::optional<PeerCredentials> peer;  ///< empty: the kernel gave none, trust nothing
  bool is_cut = false;                  ///< longer than the limit of receive()
};

class DatagramSocket {
 public:
  /// Binds in place of a socket file that is there already; `mode` is the file's.
  [[nodiscard]] static Result<DatagramSocket> bind(const std::string& path, mode_t mode);
  /// The next datagram, or nothing if none waits. Descriptors that a sender attached are closed.
  [[nodiscard]] Result<std::optional<Datagram>> receive(std::size_t bytes_max);

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit DatagramSocket(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

/// One datagram without waiting; a full or absent receiver is unavailable.
[[nodiscard]] Result<void> send_datagram(const std::string& path, std::string_view bytes);

class PacketSocket {
 public:
  explicit PacketSocket(Fd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] static Result<PacketSocket> connect(const std::string& path);
  [[nodiscard]] Result<PeerCredentials> peer() const;
  /// The next packet; nothing if none waits; an empty text at the peer's end of file.
  [[nodiscard]] Result<std::optional<std::string>> receive(std::size_t bytes_max);
  /// One packet, with a descriptor if `fd` >= 0.
  [[nodiscard]] Result<void> send(std::string_view bytes, int fd = -1);
  /// As receive, with the descriptor that came along.
  [[nodiscard]] Result<std::optional<std::pair<std::string, Fd>>> receive_with_fd(
      std::size_t bytes_max);

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

class PacketListener {
 public:
  [[nodiscard]] static Result<PacketListener> bind(const std::string& path, mode_t mode,
                                                   int backlog = 512);
  /// The next connection, or nothing if none waits.
  [[nodiscard]] Result<std::optional<PacketSocket>> accept();

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit PacketListener(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace vetta::sys
