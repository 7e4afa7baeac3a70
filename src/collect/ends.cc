// SPDX-License-Identifier: Apache-2.0
#include "collect/ends.h"

#include <array>

#include "sys/pidfd.h"
#include "sys/process.h"

namespace vetta::collect {
namespace {

/// After a process's end its status is looked for at these times: the parent has to wait for it
/// first, and the plugin's word may be on its way.
constexpr std::array<Duration, 4> look_after{
    std::chrono::milliseconds(50), std::chrono::milliseconds(250), std::chrono::milliseconds(700),
    std::chrono::milliseconds(2000)};

}  // namespace

EndWatch::EndWatch(sys::EventLoop& loop, const sys::Procfs& proc, RankTable& ranks,
                   std::function<void()> ended, std::size_t pidfds_max)
    : loop_(loop), proc_(proc), ranks_(ranks), ended_(std::move(ended)), pidfds_max_(pidfds_max) {}

EndWatch::~EndWatch() {
  while (!watched_.empty()) forget(watched_.begin()->first);
}

bool EndWatch::is_alive(const RankState& state) const {
  const auto stat = proc_.stat(state.rank.pid);
  if (!stat) return stat.error().code != Code::not_found;  // could not ask: not gone
  return state.start_ticks == 0 || stat->start_ticks == state.start_ticks;
}

void EndWatch::watch(const RankState& state) {
  const std::uint64_t id = state.rank.rank_id;
  if (state.is_ended() || watched_.contains(id)) return;
  sys::Fd pidfd;
  if (watched_.size() < pidfds_max_) {
    if (auto opened = sys::open_pidfd(state.rank.pid)) pidfd = std::move(*opened);
  }
  if (!is_alive(state)) {
    // It ended before we came to look. The exit datagram may be the next to be read.
    Watched& gone = watched_[id];
    gone.end = now();
    gone.timer = loop_.after(look_after[2], [this, id] { settle(id); });
    gone.looks = static_cast<int>(look_after.size());
    return;
  }
  if (!pidfd) return;  // look() will find out
  const int fd = pidfd.get();
  watched_[id].pidfd = std::move(pidfd);
  const auto watched =
      loop_.watch(fd, sys::EventLoop::readable, [this, id](std::uint32_t) { noticed(id); });
  if (!watched) watched_.erase(id);
}

void EndWatch::look() {
  for (const auto& [id, state] : ranks_.all())
    if (!state.is_ended() && !watched_.contains(id)) watch(state);
}

void EndWatch::noticed(std::uint64_t rank_id) {
  Watched& watched = watched_[rank_id];
  loop_.unwatch(watched.pidfd.get());
  watched.end = now();
  watched.timer = loop_.after(look_after[0], [this, rank_id] { settle(rank_id); });
}

void EndWatch::settle(std::uint64_t rank_id) {
  const auto it = watched_.find(rank_id);
  RankState* state = ranks_.find(rank_id);
  if (it == watched_.end() || state == nullptr || state->is_ended()) return forget(rank_id);
  Watched& watched = it->second;
  const auto status = watched.pidfd ? sys::wait_status_of(watched.pidfd) : std::nullopt;
  const auto looks = static_cast<std::size_t>(++watched.looks);
  if (!status && looks < look_after.size()) {
    watched.timer = loop_.after(look_after.at(looks), [this, rank_id] { settle(rank_id); });
    return;
  }
  sys::ExitStatus exit;
  if (status) exit = sys::exit_status_of_wait(*status);
  ranks_.end(*state, watched.end, exit.code, exit.signal);
  forget(rank_id);
  ended_();
}

void EndWatch::forget(std::uint64_t rank_id) {
  const auto it = watched_.find(rank_id);
  if (it == watched_.end()) return;
  loop_.cancel(it->second.timer);
  if (it->second.pidfd) loop_.unwatch(it->second.pidfd.get());
  watched_.erase(it);
}

}  // namespace vetta::collect
