// SPDX-License-Identifier: Apache-2.0
// How far vettad's wall clock is from this node's, from pings. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "core/time.h"

namespace vetta::collect {

class ClockOffset {
 public:
  /// A ping left at `sent`, vettad's clock showed `server`, the answer came at `received`.
  void add(Time sent, Time server, Time received);

  /// To be added to times of this node. It is taken from the quickest of the last pings and moves
  /// only when a new estimate differs by more than both their uncertainties, so that marks of
  /// neighbouring batches keep their distances; zero where zero cannot be told from it.
  [[nodiscard]] Duration offset() const { return offset_; }

 private:
  struct Estimate {
    Duration offset{}, uncertainty{};
  };

  std::deque<Estimate> recent_;
  Duration offset_{};
};

}  // namespace vetta::collect
