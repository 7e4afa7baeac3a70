// SPDX-License-Identifier: Apache-2.0
// For tests: a made job with made failures, and what why says of it.
#pragma once

#include <string>
#include <utility>

#include "diagnose/why.h"

namespace vetta::diagnose {

using namespace std::chrono_literals;
using model::Event;
using model::EventKind;
using model::JobState;
using model::Why;

inline const Time start = from_epoch_seconds(1'800'000'000);

// A job of eight ranks on four nodes that began at `start`.
struct Job {
  WhyInput input;

  explicit Job(JobState state = JobState::failed, Duration ran = 600s) {
    model::Attempt& attempt = input.attempt;
    attempt.key = {"alps", 4711, start - 60s};
    attempt.state = state;
    attempt.uid = 1000;
    attempt.user = "ada";
    attempt.eligible = start - 60s;
    attempt.start = start;
    if (model::is_final(state)) attempt.end = start + ran;
    attempt.nodes = "n[001-004]";
    attempt.time_limit = 3600s;
    input.now = start + ran + 10s;
    for (int r = 0; r < 8; ++r) {
      model::Rank rank;
      rank.rank_id = 100 + static_cast<std::uint64_t>(r);
      rank.rank = r;
      rank.world_size = 8;
      rank.node = "n00" + std::to_string(1 + r / 2);
      rank.pid = 5000 + r;
      rank.is_probed = true;
      rank.start = start;
      if (model::is_final(state)) end(rank, ran, 0, 0);
      input.ranks.push_back(rank);
      input.last_marks.push_back({r, rank.node, 1999, start + ran - 1s, {}, 2000});
      if (r % 2 == 0) input.allocations.push_back({rank.node, {start, attempt.end}, 2, {}, {}, {}});
    }
    input.median_step = 300ms;
    input.sources = {{"slurmctld", model::Knowledge::known, {}, start}};
  }

  static void end(model::Rank& rank, Duration at, int exit_code, int exit_signal) {
    rank.end = start + at;
    rank.exit_code.reset();
    rank.exit_signal.reset();
    if (exit_signal != 0)
      rank.exit_signal = exit_signal;
    else
      rank.exit_code = exit_code;
  }

  Job& ends(int rank, Duration at, int exit_code, int exit_signal = 0) {
    end(input.ranks[static_cast<std::size_t>(rank)], at, exit_code, exit_signal);
    return *this;
  }

  Job& others_end(int rank, Duration at, int exit_code, int exit_signal = 0) {
    for (int r = 0; r < 8; ++r) {
      if (r != rank) ends(r, at, exit_code, exit_signal);
    }
    return *this;
  }

  Event& event(EventKind kind, Duration at, int rank, std::string message) {
    Event event;
    event.time = start + at;
    event.kind = kind;
    event.attempt = input.attempt.key;
    if (rank >= 0) {
      event.rank = rank;
      event.rank_id = 100 + static_cast<std::uint64_t>(rank);
      event.node = input.ranks[static_cast<std::size_t>(rank)].node;
    }
    event.message = std::move(message);
    input.events.push_back(std::move(event));
    return input.events.back();
  }

  Event& node_event(EventKind kind, Duration at, std::string node, std::string message) {
    Event& e = event(kind, at, -1, std::move(message));
    e.attempt.reset();
    e.node = std::move(node);
    return e;
  }

  [[nodiscard]] Why why() const { return explain(input); }
};

}  // namespace vetta::diagnose
