// SPDX-License-Identifier: Apache-2.0
// The agent of one node: what comes in from plugin, probes, /proc and the kernel's log goes out to
// every vettad. One thread, one event loop. Restart is the normal start: rings and the state file
// bring back what an earlier agent knew.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collect/clock.h"
#include "collect/delivery.h"
#include "collect/discovery.h"
#include "collect/ends.h"
#include "collect/intake.h"
#include "collect/kernel_log.h"
#include "collect/ranks.h"
#include "collect/rings.h"
#include "collect/settings.h"
#include "collect/spool.h"
#include "collect/state_file.h"
#include "collect/uplink.h"
#include "sys/event_loop.h"
#include "sys/files.h"
#include "sys/proc.h"

namespace vetta::collect {

class Agent {
 public:
  /// Takes the node's lock, brings back an earlier agent's ranks, binds the sockets, dials. Errors:
  /// another agent runs for this node, or the run folder cannot be used.
  [[nodiscard]] static Result<std::unique_ptr<Agent>> start(sys::EventLoop& loop,
                                                            Settings settings);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

 private:
  struct Link;

  Agent(sys::EventLoop& loop, Settings settings, sys::FileLock lock, Rings rings,
        StateFile state_file);

  // Start
  void restore();
  void adopt_ring(std::uint64_t rank_id);
  void open_kernel_log();
  void dial_all();
  [[nodiscard]] bool is_shared_host() const;

  // What comes in
  void table_changed(std::string_view reason);
  void save_changes();
  void read_kernel_log();
  /// Whom a kill at that time hit, of the ranks that lived then.
  [[nodiscard]] RankState* victim_of(const OomKill& kill, Time at);
  void scan();
  void scan_soon();
  void tell_refused();
  void forget_old();
  void sample();
  void arm_sampling();
  [[nodiscard]] bool is_burst() const;

  // What goes out
  void opened(Link& link);
  void received(Link& link, const model::Frame& frame);
  void closed(Link& link, const Error& why, bool was_open);
  void ping(Link& link);
  void pump(Link& link, bool with_marks);
  void pump_all(bool with_marks);
  void pump_soon();
  void flush();
  void settle_acknowledged();
  void forget_done();
  void limit_rings();
  void check_rings();
  [[nodiscard]] bool counts(const Link& link) const;
  void forget(std::uint64_t rank_id);

  sys::EventLoop& loop_;
  Settings settings_;
  sys::FileLock lock_;
  sys::Procfs proc_;
  std::uint64_t agent_id_;
  std::string boot_id_;
  RankTable ranks_;
  Rings rings_;
  StateFile state_file_;
  bool is_state_unwritten_ = false;  ///< as last told
  Spool spool_;
  Discovery discovery_;
  std::unique_ptr<EndWatch> ends_;
  std::unique_ptr<Intake> intake_;
  std::optional<KernelLog> kernel_log_;
  std::vector<std::string> gaps_;
  std::vector<std::unique_ptr<Link>> links_;
  std::map<std::uint64_t, Time> bursts_;  ///< job, until when (this node's clock)
  Time next_sample_;
  sys::EventLoop::TimerId sample_timer_ = 0, pump_timer_ = 0, scan_timer_ = 0, flush_timer_ = 0;
  std::uint64_t rings_dropped_ = 0, ranks_dropped_ = 0;
  std::map<std::uint32_t, std::uint64_t> ranks_refused_;  ///< by uid, as last told
  std::uint64_t claims_refused_ = 0;                      ///< as last told
};

}  // namespace vetta::collect
