// SPDX-License-Identifier: Apache-2.0
// A small single-threaded event loop on epoll: descriptors, timers, calls posted from other
// threads. For the node set, which wants little memory and no surprises; vettad runs Asio instead.
// Thread-safety: post() and stop() from any thread, everything else from the loop's own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "sys/fd.h"

namespace vetta::sys {

class EventLoop {
 public:
  enum Interest : std::uint32_t { readable = 1, writable = 4 };  // EPOLLIN, EPOLLOUT

  /// `events` holds epoll's bits; errors and hang-ups come as readable and writable.
  using OnEvents = std::function<void(std::uint32_t events)>;
  using TimerId = std::uint64_t;

  [[nodiscard]] static Result<std::unique_ptr<EventLoop>> make();

  /// Watches `fd`, which must stay open until unwatch(). A second watch() changes the interest.
  [[nodiscard]] Result<void> watch(int fd, std::uint32_t interest, OnEvents on_events);
  /// No call for this fd comes after this, even from inside a call. Unknown fds are fine.
  void unwatch(int fd);

  /// Calls once after `delay`.
  TimerId after(Duration delay, std::function<void()> call);
  void cancel(TimerId timer);

  void post(std::function<void()> call);
  /// Runs until stop().
  void run();
  void stop();

 private:
  EventLoop(Fd epoll, Fd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

  void wait_once();
  void run_timers();
  void run_posted();

  struct Watch {
    std::uint64_t generation = 0;
    std::uint32_t interest = 0;
    std::shared_ptr<OnEvents> on_events;
  };

  Fd epoll_, wake_;
  std::unordered_map<int, Watch> watches_;
  std::uint64_t generation_ = 0;
  std::map<std::pair<Duration, TimerId>, std::function<void()>> timers_;
  std::unordered_map<TimerId, Duration> timer_times_;
  TimerId next_timer_ = 1;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  bool is_stopping_ = false;
};

}  // namespace vetta::sys
