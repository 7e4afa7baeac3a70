// SPDX-License-Identifier: Apache-2.0
#include "sys/event_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace vetta::sys {

static_assert(+EventLoop::readable == +EPOLLIN && +EventLoop::writable == +EPOLLOUT);

Result<std::unique_ptr<EventLoop>> EventLoop::make() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("make an event loop", errno);
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return fail_errno("make an event loop", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<std::uint32_t>(wake.get());
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0)
    return fail_errno("make an event loop", errno);
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wake)));
}

// An event names its watch by fd and generation, so that an event fetched before unwatch() and a
// reuse of the fd within one round does not reach the new watch.
Result<void> EventLoop::watch(int fd, std::uint32_t interest, OnEvents on_events) {
  const auto known = watches_.find(fd);
  epoll_event event{};
  event.events = interest;
  const std::uint64_t generation = ++generation_ & 0xFFFFFFFFU;
  event.data.u64 = (generation << 32U) | static_cast<std::uint32_t>(fd);
  const int operation = known == watches_.end() ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0)
    return fail_errno("watch a descriptor", errno);
  watches_[fd] = {generation, interest, std::make_shared<OnEvents>(std::move(on_events))};
  return {};
}

void EventLoop::unwatch(int fd) {
  if (watches_.erase(fd) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::TimerId EventLoop::after(Duration delay, std::function<void()> call) {
  const TimerId id = next_timer_++;
  const Duration at = monotonic_now() + std::max(delay, Duration::zero());
  timers_.emplace(std::pair(at, id), std::move(call));
  timer_times_.emplace(id, at);
  return id;
}

void EventLoop::cancel(TimerId timer) {
  const auto it = timer_times_.find(timer);
  if (it == timer_times_.end()) return;
  timers_.erase(std::pair(it->second, timer));
  timer_times_.erase(it);
}

void EventLoop::post(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(call));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

void EventLoop::stop() {
  post([this] { is_stopping_ = true; });
}

void EventLoop::run() {
  is_stopping_ = false;
  while (!is_stopping_) {
    wait_once();
    run_timers();
    run_posted();
  }
}

void EventLoop::wait_once() {
  int wait_ms = -1;
  if (!timers_.empty()) {
    const Duration left = timers_.begin()->first.first - monotonic_now();
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    wait_ms = static_cast<int>(std::clamp<std::int64_t>(ms, 0, 3'600'000));
  }
  std::array<epoll_event, 64> events{};
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const int fd = static_cast<int>(event.data.u64 & 0xFFFFFFFFU);
    if (fd == wake_.get()) {
      std::uint64_t value = 0;
      [[maybe_unused]] const ssize_t n = ::read(fd, &value, sizeof value);
      continue;
    }
    const auto it = watches_.find(fd);
    if (it == watches_.end() || it->second.generation != event.data.u64 >> 32U) continue;
    std::uint32_t bits = event.events;
    if ((bits & (EPOLLERR | EPOLLHUP)) != 0) bits |= it->second.interest;
    const std::shared_ptr<OnEvents> call = it->second.on_events;  // it may unwatch itself
    (*call)(bits);
  }
}

void EventLoop::run_timers() {
  const Duration now = monotonic_now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    node.mapped()();
  }
}

void EventLoop::run_posted() {
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(posted_);
  }
  for (const auto& call : calls) call();
}

}  // namespace vetta::sys
