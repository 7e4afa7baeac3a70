// SPDX-License-Identifier: Apache-2.0
// What a vettad of a large cluster does all day: snapshots of 20,000 jobs, pages of jobs, batches
// of 64 ranks.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "ingest/stand_detail.h"

namespace {

using namespace std::chrono_literals;
using vetta::Time;
using vetta::ingest::at;
using vetta::ingest::Stand;
namespace model = vetta::model;
namespace records = vetta::records;
namespace slurm = vetta::slurm;

slurm::Snapshot snapshot(std::uint64_t jobs, std::int64_t time) {
  slurm::Snapshot s;
  s.cluster = "alps";
  s.at = at(time);
  s.jobs.knowledge = model::Knowledge::known;
  for (std::uint64_t id = 1; id <= jobs; ++id) {
    auto& a = s.jobs.value.emplace_back();
    a.key = {"alps", id, at(static_cast<std::int64_t>(id / 4))};
    const bool runs = id % 10 == 0;
    a.state = runs ? model::JobState::running : model::JobState::pending;
    a.state_text = runs ? "RUNNING" : "PENDING";
    a.reason = runs ? "None" : "Priority";
    a.user = fmt::format("user{:03}", id % 300);
    a.uid = static_cast<std::uint32_t>(10'000 + id % 300);
    a.account = fmt::format("project{:02}", id % 40);
    a.partition = id % 3 == 0 ? "gpu" : "cpu";
    a.qos = "normal";
    a.name = fmt::format("train-{}-lr{}", id % 50, id % 7);
    a.time_limit = 12h;
    a.node_count = 4;
    a.cpus = 256;
    a.tres = "cpu=256,mem=1024G,node=4,billing=256,gres/gpu=16";
    a.work_dir = fmt::format("/users/user{:03}/experiments/{}", id % 300, id % 50);
    a.command = a.work_dir + "/train.sh";
    a.std_out = a.work_dir + fmt::format("/slurm-{}.out", id);
    a.std_err = a.std_out;
    a.priority = 100'000 + static_cast<std::int64_t>(id);
    if (runs) {
      a.start = at(static_cast<std::int64_t>(id / 4 + 60));
      a.nodes = "nid[001001-001004]";
    }
  }
  return s;
}

void first_snapshot(benchmark::State& state) {
  const auto s = snapshot(20'000, 10'000);
  for (auto _ : state) {
    state.PauseTiming();
    auto stand = std::make_unique<Stand>("bench", true);
    state.ResumeTiming();
    if (!stand->ingest->take(s)) state.SkipWithError("not taken");
    state.PauseTiming();
    stand.reset();
    state.ResumeTiming();
  }
}

BENCHMARK(first_snapshot)->Unit(benchmark::kMillisecond)->Iterations(3);

void same_snapshot(benchmark::State& state) {
  Stand stand("bench", true);
  auto s = snapshot(20'000, 10'000);
  if (!stand.ingest->take(s)) state.SkipWithError("not taken");
  for (auto _ : state) {
    s.at += 10s;
    if (!stand.ingest->take(s)) state.SkipWithError("not taken");
  }
}

BENCHMARK(same_snapshot)->Unit(benchmark::kMillisecond)->Iterations(5);

/// All priorities have changed, as they do while jobs wait.
void aged_snapshot(benchmark::State& state) {
  Stand stand("bench", true);
  auto s = snapshot(20'000, 10'000);
  if (!stand.ingest->take(s)) state.SkipWithError("not taken");
  for (auto _ : state) {
    s.at += 10s;
    for (auto& a : s.jobs.value) *a.priority += 1;
    if (!stand.ingest->take(s)) state.SkipWithError("not taken");
  }
}

BENCHMARK(aged_snapshot)->Unit(benchmark::kMillisecond)->Iterations(5);

const char* const page_names[] = {"all", "user", "state", "partition", "name", "last_page"};

void page_of_jobs(benchmark::State& state) {
  static auto stand = [] {
    auto out = std::make_unique<Stand>("bench", false);
    static_cast<void>(out->ingest->take(snapshot(10'000, 10'000)));
    return out;
  }();
  records::JobFilter filter;
  std::optional<records::JobCursor> cursor;
  switch (state.range(0)) {
    case 1: filter.users = {"user007"}; break;
    case 2: filter.states = {model::JobState::running}; break;
    case 3: filter.partitions = {"gpu"}; break;
    case 4: filter.name_contains = "lr3"; break;
    case 5: cursor = records::JobCursor{at(3), 20}; break;
    default: break;
  }
  std::uint64_t rows = 0;
  for (auto _ : state) {
    auto reader = stand->records->read().value();
    const auto page = reader.jobs(filter, cursor, 100).value();
    const auto counts = reader.count_jobs(filter).value();
    rows = page.rows.size();
    benchmark::DoNotOptimize(counts.total);
  }
  state.SetLabel(fmt::format("{}: {} rows", page_names[state.range(0)], rows));
}

BENCHMARK(page_of_jobs)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);

/// Batches of 64 ranks with 100 marks each, every one synced to disk before it is acknowledged.
void batches(benchmark::State& state) {
  Stand stand("bench", state.range(0) == 1);
  static_cast<void>(stand.ingest->take(snapshot(100, 10'000)));
  model::Hello hello;
  hello.cluster = "alps";
  hello.node = "nid001001";
  model::Batch batch;
  batch.agent_id = 1;
  for (std::uint64_t r = 1; r <= 64; ++r) {
    model::Rank rank;
    rank.rank_id = r;
    rank.job_id = 10;
    rank.step_id = "0";
    rank.rank = static_cast<std::int32_t>(r);
    rank.uid = 10'010;
    rank.is_probed = true;
    rank.start = at(100);
    batch.ranks.push_back(rank);
    batch.marks.push_back({r, 0, std::vector<model::Mark>(100)});
  }
  std::uint64_t sequence = 0, marks = 0;
  for (auto _ : state) {
    state.PauseTiming();
    batch.sequence += 1;
    for (auto& of_rank : batch.marks) {
      std::uint64_t s = sequence;
      for (auto& mark : of_rank.marks) {
        mark.sequence = ++s;
        mark.step = static_cast<std::int64_t>(s);
        mark.start = at(200) + std::chrono::milliseconds(300 * s) +
                     std::chrono::nanoseconds((s * 7'654'321) % 900'000);
        mark.duration = 290ms + std::chrono::nanoseconds((s * 1'234'567) % 9'000'000);
        mark.phases[0] = 2ms + std::chrono::nanoseconds((s * 7'777) % 900'000);
        mark.phases[1] = 90ms + std::chrono::nanoseconds((s * 5'555'555) % 2'000'000);
        mark.phases[4] = 40ms + std::chrono::nanoseconds((s * 3'333'333) % 2'000'000);
        mark.samples = 32;
        mark.loss = static_cast<double>(1.0F / static_cast<float>(s));
      }
    }
    sequence += 100;
    state.ResumeTiming();
    if (!stand.ingest->take(hello, batch)) state.SkipWithError("not taken");
    batch.ranks.clear();
    marks += 6400;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(marks));
  const auto info = stand.files->info({"alps", 10, at(2)}).value().value();
  state.SetLabel(fmt::format("{}, {:.1f} bytes a mark", state.range(0) == 1 ? "synced" : "unsynced",
                             static_cast<double>(info.bytes) / static_cast<double>(info.marks)));
}

BENCHMARK(batches)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond)->Iterations(100);

}  // namespace
