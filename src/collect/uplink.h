// SPDX-License-Identifier: Apache-2.0
// One connection to one vettad: dials, upgrades, carries frames, dials again. Lives on an
// EventLoop and never blocks it (names are resolved in a thread of their own). Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "collect/upgrade.h"
#include "model/wire.h"
#include "sys/event_loop.h"
#include "sys/fd.h"

namespace vetta::collect {

class Uplink {
 public:
  struct Hooks {
    std::function<void()> opened;
    std::function<void(const model::Frame&)> received;
    /// A connection or a try ended; `why` is a sentence. `was_open`: opened() had been called.
    std::function<void(const Error& why, bool was_open)> closed;
    /// Read for each try, so that a new token needs no restart.
    std::function<Result<std::string>()> token;
  };

  Uplink(sys::EventLoop& loop, Address address, Hooks hooks);
  ~Uplink();
  Uplink(const Uplink&) = delete;
  Uplink& operator=(const Uplink&) = delete;

  void start();
  /// Queues the frame; only while open.
  void send(const model::Frame& frame);
  /// Ends the connection (the other side misbehaves or is silent); a new try follows.
  void fail_with(const Error& why);

  /// As send, of a whole frame's bytes.
  void send_bytes(std::string_view frame);

  /// The connection proved good: the next wait is short again.
  void praise() { backoff_.reset(); }

  [[nodiscard]] bool is_open() const { return state_ == State::open; }

  [[nodiscard]] std::size_t unsent_bytes() const { return out_.size() - out_begin_; }

  [[nodiscard]] const Address& address() const { return address_; }

 private:
  enum class State { waiting, resolving, connecting, upgrading, open };
  struct Resolved;

  void dial();
  void resolve();
  void connect_to(const Resolved& resolved);
  void on_connected();
  void on_events(std::uint32_t events);
  void read_some();
  void take_bytes(std::string_view bytes);
  void write_some();
  void update_watch();

  sys::EventLoop& loop_;
  Address address_;
  Hooks hooks_;
  Backoff backoff_;
  State state_ = State::waiting;
  sys::Fd fd_;
  std::uint32_t interest_ = 0;
  std::string out_;
  std::size_t out_begin_ = 0;
  std::string head_;
  model::FrameReader frames_;
  sys::EventLoop::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_;  ///< for calls that come from other threads
  unsigned attempt_ = 0;
};

}  // namespace vetta::collect
