// SPDX-License-Identifier: Apache-2.0
// For tests only: synchronous training with a known truth. Deterministic by seed. Every rank works
// (data, forward, backward), all meet in an all-reduce, then the optimizer runs; a fault slows one
// rank (or several) in some steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model/rank.h"

namespace vetta::diagnose::test {

enum class Marks { all_phases, hidden_waits, only_allreduce, no_phases, outside };

struct Fault {
  std::vector<int> ranks;     ///< none: healthy
  double data_extra = 0;      ///< ms more in the loader
  double compute_factor = 1;  ///< of forward, backward and optimizer
  double data_factor = 1;
  double burst_share = 1;      ///< share of the steps in which it is active
  int from = 0, to = 1 << 30;  ///< steps
  double mates_factor = 1;     ///< contention: compute of the other ranks on its node
  double link_extra = 0;       ///< ms more of communication for everybody
};

struct Training {
  int ranks = 8, ranks_per_node = 2, steps = 200;
  double data = 3, forward = 25, backward = 50, optimizer = 6, communication = 8;  ///< ms
  double noise = 0.05;       ///< sigma of each phase's lognormal noise
  double common_noise = 0;   ///< sigma of a factor that all ranks share in a step
  double rank_noise = 0;     ///< sigma of a constant factor of each rank
  double missing_share = 0;  ///< marks that are lost
  double pause_share = 0;    ///< steps in which one random rank pauses for three steps
  int checkpoint_every = 0;  ///< rank 0 writes for ten steps
  Marks marks = Marks::all_phases;
  std::uint64_t seed = 1;
  Fault fault;
};

struct Simulated {
  model::StepTable table;
  double lost_share = 0;  ///< truth: from the paired run without the fault, after warm-up
};

struct Clock {
  std::vector<double> start;    ///< ms, by rank
  std::vector<double> periods;  ///< of all steps
};

class Simulator {
 public:
  explicit Simulator(const Training& training) : t_(training), random_(training.seed) {}

  Simulated run() {
    prepare();
    Clock with{std::vector<double>(count(), 0), {}};
    Clock without = with;
    for (int s = 0; s < t_.steps; ++s) step(s, with, without);
    Simulated out;
    out.lost_share = truth(with, without);
    out.table = std::move(table_);
    return out;
  }

 private:
  struct Times {
    double data, forward, backward, optimizer, pause;
  };

  bool is_checkpoint(int s) const {
    return t_.checkpoint_every > 0 && s % t_.checkpoint_every == t_.checkpoint_every - 1;
  }

  // From the paired run; checkpoints are no part of it.
  double truth(const Clock& with, const Clock& without) const {
    double slow = 0;
    double mended = 0;
    for (int s = 5; s < t_.steps; ++s) {
      if (is_checkpoint(s)) continue;
      slow += with.periods[static_cast<std::size_t>(s)];
      mended += without.periods[static_cast<std::size_t>(s)];
    }
    return slow > 0 ? 1 - mended / slow : 0;
  }

  std::size_t count() const { return static_cast<std::size_t>(t_.ranks); }

  double normal() { return normal_(random_); }

  double uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  void prepare() {
    table_.world_size = t_.ranks;
    for (int r = 0; r < t_.ranks; ++r) {
      model::RankSteps rank;
      rank.rank = r;
      rank.node = "n" + std::to_string(100 + r / t_.ranks_per_node);
      table_.ranks.push_back(std::move(rank));
      pace_.push_back(std::exp(t_.rank_noise * normal()));
    }
  }

  bool is_faulty(int rank) const {
    return std::find(t_.fault.ranks.begin(), t_.fault.ranks.end(), rank) != t_.fault.ranks.end();
  }

  bool is_mate(int rank) const {
    return std::any_of(t_.fault.ranks.begin(), t_.fault.ranks.end(),
                       [&](int f) { return f / t_.ranks_per_node == rank / t_.ranks_per_node; });
  }

  Times healthy(int s, int r, double common, int pausing) {
    const auto noisy = [&](double ms) {
      return ms * common * pace_[static_cast<std::size_t>(r)] * std::exp(t_.noise * normal());
    };
    Times times{noisy(t_.data), noisy(t_.forward), noisy(t_.backward), noisy(t_.optimizer), 0};
    const double work = t_.data + t_.forward + t_.backward;
    if (r == pausing) times.pause = 3 * work;
    if (r == 0 && is_checkpoint(s)) times.pause = 10 * work;
    return times;
  }

  void step(int s, Clock& with, Clock& without) {
    const Fault& fault = t_.fault;
    const double common = std::exp(t_.common_noise * normal());
    const int pausing = uniform() < t_.pause_share ? static_cast<int>(uniform() * t_.ranks) : -1;
    const bool active = uniform() < fault.burst_share && s >= fault.from && s < fault.to;
    std::vector<Times> slow;
    std::vector<Times> mended;
    for (int r = 0; r < t_.ranks; ++r) {
      Times times = healthy(s, r, common, pausing);
      if (active && is_mate(r) && !is_faulty(r)) scale(times, fault.mates_factor, 1);
      mended.push_back(times);
      if (is_faulty(r)) mended.back().pause = 0;
      if (active && is_faulty(r)) {
        scale(times, fault.compute_factor, fault.data_factor);
        times.data += fault.data_extra;
      }
      slow.push_back(times);
    }
    const double communication =
        t_.communication * std::exp(0.1 * normal()) + (active ? fault.link_extra : 0);
    advance(s, slow, communication, with, true);
    advance(s, mended, communication, without, false);
  }

  static void scale(Times& times, double compute, double data) {
    times.forward *= compute;
    times.backward *= compute;
    times.optimizer *= compute;
    times.data *= data;
  }

  void advance(int s, const std::vector<Times>& all, double communication, Clock& clock,
               bool record) {
    double last = 0;
    double began = 0;
    for (std::size_t r = 0; r < all.size(); ++r) {
      last = std::max(
          last, clock.start[r] + all[r].data + all[r].forward + all[r].backward + all[r].pause);
      began = std::max(began, clock.start[r]);
    }
    const double met = last + communication;
    double lead = 0;
    for (std::size_t r = 0; r < all.size(); ++r) {
      const double arrived =
          clock.start[r] + all[r].data + all[r].forward + all[r].backward + all[r].pause;
      const double end = met + all[r].optimizer;
      if (record && uniform() >= t_.missing_share)
        mark(s, r, all[r], clock.start[r], met - arrived, end);
      clock.start[r] = end;
      lead = std::max(lead, end);
    }
    clock.periods.push_back(lead - began);
  }

  void mark(int s, std::size_t r, const Times& times, double start, double wait, double end) {
    model::Mark m;
    m.sequence = static_cast<std::uint64_t>(s) + 1;
    m.step = s;
    m.start = Time(ns(start)) + std::chrono::hours(480'000);
    m.duration = ns(end - start);
    const auto set = [&](model::Phase phase, double ms) {
      m.phases[static_cast<std::size_t>(phase)] = ns(ms);
    };
    if (t_.marks == Marks::outside) m.duration = ns(end - start - wait - times.optimizer);
    if (t_.marks == Marks::all_phases || t_.marks == Marks::hidden_waits) {
      const bool hidden = t_.marks == Marks::hidden_waits;
      set(model::Phase::data, times.data);
      set(model::Phase::forward, times.forward);
      set(model::Phase::backward, times.backward + times.pause + (hidden ? wait : 0));
      set(model::Phase::optimizer, times.optimizer);
    }
    if (t_.marks == Marks::all_phases || t_.marks == Marks::only_allreduce)
      set(model::Phase::allreduce, wait);
    table_.ranks[r].marks.push_back(m);
  }

  static Duration ns(double ms) { return Duration(static_cast<std::int64_t>(ms * 1e6)); }

  Training t_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  model::StepTable table_;
  std::vector<double> pace_;
};

inline Simulated simulate(const Training& training) {
  return Simulator(training).run();
}

}  // namespace vetta::diagnose::test
