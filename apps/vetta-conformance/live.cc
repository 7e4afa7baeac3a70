// SPDX-License-Identifier: Apache-2.0
#include "live.h"

#include <condition_variable>
#include <cstdio>
#include <fmt/format.h>
#include <mutex>
#include <thread>

#include "print.h"
#include "slurm/jobs.h"
#include "slurm/poller.h"

namespace vetta::conformance {

int poll(double seconds) {
  slurm::PollerSinks sinks;
  sinks.snapshot = [](const slurm::Snapshot& snapshot) {
    fmt::print(R"({{"at": {}, "jobs": {}, "knowledge": "{}", "nodes": {}, "allocations": {}, )"
               R"("pause_s": {:.1f}, "rpcs_per_minute": {:.2f}, "why": {}}})"
               "\n",
               epoch_seconds(snapshot.at), snapshot.jobs.value.size(),
               model::name(snapshot.jobs.knowledge), snapshot.nodes.value.size(),
               snapshot.allocations.value.size(), vetta::seconds(snapshot.load.poll_period),
               snapshot.load.rpcs_per_minute_vetta, json_text(snapshot.jobs.why.text()));
    std::fflush(stdout);
  };
  slurm::Poller poller(slurm::Reader({}, std::make_shared<sys::ProcessRunner>()), {},
                       std::move(sinks));
  const Duration end = monotonic_now() + from_seconds(seconds);
  std::stop_source stop;
  std::thread watch([&] {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    never.wait_for(lock, stop.get_token(), end - monotonic_now(), [] { return false; });
    stop.request_stop();
  });
  poller.run(stop.get_token());
  watch.join();
  return 0;
}

namespace {

/// Remembers what squeue printed, so that reading can be timed apart from asking.
class Recorder final : public sys::CommandRunner {
 public:
  Result<sys::CommandOutput> run(const sys::Command& command, std::stop_token stop) override {
    auto output = runner_.run(command, std::move(stop));
    if (output) out = output->out;
    return output;
  }

  std::string out;

 private:
  sys::ProcessRunner runner_;
};

}  // namespace

int time_jobs(int runs) {
  const auto recorder = std::make_shared<Recorder>();
  slurm::ReaderConfig config;
  config.cluster = "c";
  config.separator =
      "\x1f"
      "bench";
  slurm::Reader reader(config, recorder);
  const auto asked = reader.jobs();
  if (!asked.is_known()) {
    std::fprintf(stderr, "vetta-conformance: %s\n", asked.why.text().c_str());
    return 1;
  }
  std::vector<std::string> times;
  for (int i = 0; i < runs; ++i) {
    const Duration begin = monotonic_now();
    const auto parsed =
        slurm::parse_jobs(recorder->out, {slurm::job_fields(), config.separator, true, {}}, "c");
    times.push_back(fmt::format("{:.3f}", seconds(monotonic_now() - begin) * 1000));
    if (parsed.value.size() != asked.value.size() || !parsed.refused.empty()) return 1;
  }
  fmt::print(R"({{"jobs": {}, "bytes": {}, "asked_ms": {:.1f}, "parse_ms": {}}})"
             "\n",
             asked.value.size(), recorder->out.size(), seconds(asked.took) * 1000,
             json_list(times));
  return 0;
}

}  // namespace vetta::conformance
