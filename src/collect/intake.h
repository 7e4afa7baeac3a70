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
  struct Parts {
    sys::EventLoop& loop;
    RankTable& ranks;
    Rings& rings;
    Discovery& discovery;
    /// After the table changed; with the reason "start", "exit" or "hello".
    std::function<void(std::string_view reason)> changed;
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
    sys::EventLoop::TimerId timer = 0;
  };

  void read_tasks();
  void take_task(const sys::Datagram& datagram);
  void accept_probes();
  void read_probe(int fd);
  void drop_probe(int fd);
  /// The ring for this hello: its path and descriptor.
  [[nodiscard]] Result<std::pair<std::uint64_t, int>> ring_for(const sys::PeerCredentials& peer,
                                                               std::string_view hello);

  Parts parts_;
  sys::DatagramSocket tasks_;
  sys::PacketListener probes_;
  std::unordered_map<int, Probe> open_;
};

}  // namespace vetta::collect
