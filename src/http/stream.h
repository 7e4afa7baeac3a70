// SPDX-License-Identifier: Apache-2.0
// The two kinds of long connections: server-sent events, and raw bytes after an upgrade. Both have
// a bounded queue; a reader that is too slow for it is cut off (and resumes by Last-Event-ID, or
// dials again), so that it never holds others or eats memory.
// Thread-safety: all public functions may be called from any thread; callbacks must not call back
// into the object that calls them while holding a lock of their own that a pusher holds.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/time.h"
#include "http/sse.h"

namespace vetta::http {

/// A queue of bytes for one connection.
class ByteQueue {
 public:
  explicit ByteQueue(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// False when it is closed, or full: then it closes itself.
  bool push(std::string_view bytes);
  void close();
  [[nodiscard]] bool is_open() const;
  /// It closed itself because the reader was too slow; what was queued before can still be taken.
  [[nodiscard]] bool was_cut() const;
  /// Everything queued so far; empty if there is nothing.
  [[nodiscard]] std::string take();
  /// Called after each push and close, from the caller's thread, without a lock held.
  void on_ready(std::function<void()> wake);

 private:
  void wake();

  const std::size_t bytes_max_;
  mutable std::mutex mutex_;
  std::string bytes_;
  bool is_open_ = true;
  bool was_cut_ = false;
  std::function<void()> wake_;
};

/// Server-sent events to one client. A comment goes out after each `heartbeat` of silence, so that
/// a dead client is noticed.
class EventStream {
 public:
  explicit EventStream(std::size_t bytes_max = 1U << 20U,
                       Duration heartbeat = std::chrono::seconds(15))
      : queue_(bytes_max), heartbeat_(heartbeat) {}

  ~EventStream();
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  /// False when the client is gone or was too slow; the producer then forgets the stream.
  bool push(const SseEvent& event) { return queue_.push(encode(event)); }

  void close() { queue_.close(); }

  [[nodiscard]] bool is_open() const { return queue_.is_open(); }

  /// Runs once, when the stream has ended for whatever reason.
  void on_end(std::function<void()> ended);

  [[nodiscard]] ByteQueue& queue() { return queue_; }

  [[nodiscard]] Duration heartbeat() const { return heartbeat_; }

 private:
  ByteQueue queue_;
  Duration heartbeat_;
  std::function<void()> ended_;
};

/// The sending half of an upgraded connection, and the brake on its reading half.
class RawStream {
 public:
  explicit RawStream(std::size_t bytes_max = 8U << 20U) : queue_(bytes_max) {}

  /// False when the connection is gone or the other side reads too slowly.
  bool send(std::string_view bytes) { return queue_.push(bytes); }

  /// What is queued still goes out.
  void close() { queue_.close(); }

  /// Nothing more is read (once on_bytes has returned) until resume(): back-pressure for a consumer
  /// on another thread.
  void hold() { is_held_ = true; }

  void resume();

  [[nodiscard]] bool is_held() const { return is_held_; }

  [[nodiscard]] ByteQueue& queue() { return queue_; }

  /// For the server: called when resume() ends a hold.
  void on_resume(std::function<void()> resumed);

 private:
  ByteQueue queue_;
  std::atomic<bool> is_held_ = false;
  std::mutex mutex_;
  std::function<void()> resumed_;
};

}  // namespace vetta::http
