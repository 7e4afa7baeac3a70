// SPDX-License-Identifier: Apache-2.0
#include "collect/clock.h"

#include <algorithm>

namespace vetta::collect {
namespace {

constexpr std::size_t recent_max = 8;
constexpr Duration least_uncertainty = std::chrono::microseconds(500);

}  // namespace

void ClockOffset::add(Time sent, Time server, Time received) {
  if (received < sent) return;  // this node's clock was set back in between
  const Duration trip = received - sent;
  recent_.push_back({server - (sent + trip / 2), trip / 2 + least_uncertainty});
  if (recent_.size() > recent_max) recent_.pop_front();
  const Estimate& best = *std::ranges::min_element(recent_, {}, &Estimate::uncertainty);
  const Estimate& latest = recent_.back();
  // The clock itself was set: earlier pings are worth nothing.
  if (std::chrono::abs(latest.offset - best.offset) > latest.uncertainty + best.uncertainty) {
    recent_ = {latest};
    offset_ = latest.offset;
    return;
  }
  if (std::chrono::abs(best.offset - offset_) > best.uncertainty) offset_ = best.offset;
}

}  // namespace vetta::collect
