// SPDX-License-Identifier: Apache-2.0
// The agent's two sockets: the plugin's registrations and the probes' hellos. Who may say what is
// judged by the kernel's word (credentials, process tree). Lives on an EventLoop; not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "collect/discovery.h"
#include "collect/ranks.h"
#include "collect/rings.h"
#include "sys/event_loop.h"
#include "sys/unix_socket.h"

namespace vetta::collect {

class Intake {
 public:
  /// Of one node: what users who fork can make us keep. Root and our own user are held only by the
  /// node's totals.
  struct Limits {
    std::size_t rings = 2048;
    std::size_t rings_a_user = 512;
    std::size_t probes = 256;  ///< connections at one time that have not said hello yet
    std::size_t probes_a_user = 32;
  };

  struct Parts {
    sys::EventLoop& loop;
    RankTable& ranks;
    Rings& rings;
    Discovery& discovery;
    /// After the table changed; with the reason "start", "exit" or "hello".
    std::function<void(std::string_view reason)> changed;
    Limits limits{};
  };

  /// Binds agent.sock and probe.sock in `folder` and listens.
  [[nodiscard]] static Result<std::unique_ptr<Intake>> open(const std::string& folder, Parts parts);
  ~Intake();
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

 private:
  Intake(Parts parts, sys::DatagramSocket tasks, sys::PacketListener probes)
      : parts_(std::move(parts)), tasks_(std::move(tasks)), probes_(std::move(probes)) {}

  struct Probe {
    sys::PacketSocket socket;
    sys::PeerCredentials peer;
    sys::EventLoop::TimerId timer = 0;
  };

  void read_tasks();
  void take_task(const sys::Datagram& datagram);
  [[nodiscard]] Result<void> listen_probes();
  void accept_probes();
  /// Nobody can be let in now (no descriptor is left): the socket stays readable, so it is not
  /// watched for a while.
  void pause_accepting(const Error& why);
  void take_probe(sys::PacketSocket socket);
  [[nodiscard]] Result<void> check_room_for_probe(const sys::PeerCredentials& peer) const;
  [[nodiscard]] Result<void> check_room_for_ring(std::uint32_t uid) const;
  void read_probe(int fd);
  void drop_probe(int fd);
  /// The ring for this hello: its path and descriptor.
  [[nodiscard]] Result<std::pair<std::uint64_t, int>> ring_for(const sys::PeerCredentials& peer,
                                                               std::string_view hello);

  Parts parts_;
  sys::DatagramSocket tasks_;
  sys::PacketListener probes_;
  std::unordered_map<int, Probe> open_;
  sys::EventLoop::TimerId pause_timer_ = 0;
};

}  // namespace vetta::collect
