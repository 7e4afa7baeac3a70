// SPDX-License-Identifier: Apache-2.0
// How long a live diagnosis takes: ranks × steps.
#include <benchmark/benchmark.h>

#include "diagnose/slow_rank.h"
#include "diagnose/test_simulator.h"

namespace vetta::diagnose {
namespace {

void judge(benchmark::State& state) {
  test::Training training;
  training.ranks = static_cast<int>(state.range(0));
  training.steps = static_cast<int>(state.range(1));
  training.ranks_per_node = 8;
  if (state.range(2) == 1) training.fault = {.ranks = {5}, .data_extra = 60};
  const model::StepTable table = test::simulate(training).table;
  for (auto _ : state) benchmark::DoNotOptimize(diagnose(table).lost_share);
}

BENCHMARK(judge)
    ->Args({8, 1000, 1})
    ->Args({1024, 5000, 0})
    ->Args({1024, 5000, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vetta::diagnose
