// SPDX-License-Identifier: Apache-2.0
// Notices that ranks' processes end, and learns how where somebody can tell: the plugin's exit
// datagram, else the kernel (Linux 6.15). Lives on an EventLoop; not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "collect/ranks.h"
#include "sys/event_loop.h"
#include "sys/fd.h"
#include "sys/proc.h"

namespace vetta::collect {

class EndWatch {
 public:
  /// `ended` is called after a rank's end was put into the table. At most `pidfds_max` processes
  /// are watched by a descriptor, the others by look().
  EndWatch(sys::EventLoop& loop, const sys::Procfs& proc, RankTable& ranks,
           std::function<void()> ended, std::size_t pidfds_max = 4096);
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  /// Watches the rank's process, if it is not watched yet and has not ended. A process that is not
  /// there any more, or is another by its start time, has ended.
  void watch(const RankState& state);
  /// For kernels without pidfd, and for ranks without one: looks at all that are not watched.
  void look();
  void forget(std::uint64_t rank_id);

  /// Ranks that are watched by a descriptor, or whose end was noticed.
  [[nodiscard]] std::size_t watched() const { return watched_.size(); }

 private:
  struct Watched {
    sys::Fd pidfd;
    Time end;  ///< when its end was noticed
    int looks = 0;
    sys::EventLoop::TimerId timer = 0;
  };

  void noticed(std::uint64_t rank_id);
  void settle(std::uint64_t rank_id);
  [[nodiscard]] bool is_alive(const RankState& state) const;

  sys::EventLoop& loop_;
  const sys::Procfs& proc_;
  RankTable& ranks_;
  std::function<void()> ended_;
  std::size_t pidfds_max_;
  std::unordered_map<std::uint64_t, Watched> watched_;
};

}  // namespace vetta::collect
