// SPDX-License-Identifier: Apache-2.0
#include "collect/sample.h"

#include <fmt/format.h>
#include <unistd.h>

namespace vetta::collect {
namespace {

template <typename Number>
void add(std::optional<Number>& sum, Number value) {
  sum = sum.value_or(0) + value;
}

void add_gap(std::string& gap, const Error& error) {
  if (error.code == Code::not_found) return;  // it ended while we looked
  if (gap.size() < 200) gap += (gap.empty() ? "" : "; ") + error.message;
}

void add_stat(model::RankSample& sample, const sys::ProcessStat& stat, std::uint64_t page) {
  add(sample.cpu_seconds,
      seconds(sys::from_ticks(stat.user_ticks + stat.system_ticks + stat.child_user_ticks +
                              stat.child_system_ticks)));
  add(sample.rss_bytes, stat.rss_pages * page);
  add(sample.minor_faults, stat.minor_faults + stat.child_minor_faults);
  add(sample.major_faults, stat.major_faults + stat.child_major_faults);
  add(sample.threads, stat.threads);
  add(sample.processes, 1U);
}

template <typename T, typename Take>
void take(const Result<T>& value, std::string& gap, const Take& on_value) {
  if (value)
    on_value(*value);
  else
    gap += (gap.empty() ? "" : "; ") + value.error().message;
}

}  // namespace

model::RankSample sample_rank(const sys::Procfs& proc, const std::vector<std::int32_t>& pids,
                              Time now) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  model::RankSample sample;
  sample.time = now;
  for (const std::int32_t pid : pids) {
    const auto stat = proc.stat(pid);
    if (!stat) {
      add_gap(sample.gap, stat.error());
      continue;
    }
    add_stat(sample, *stat, page);
    if (stat->state == 'Z') continue;
    if (const auto io = proc.io(pid)) {
      add(sample.read_bytes, io->read_bytes);
      add(sample.write_bytes, io->write_bytes);
    } else {
      add_gap(sample.gap, io.error());
    }
    if (const auto status = proc.status(pid)) {
      add(sample.voluntary_switches, status->voluntary_switches.value_or(0));
      add(sample.involuntary_switches, status->involuntary_switches.value_or(0));
    } else {
      add_gap(sample.gap, status.error());
    }
  }
  if (!sample.processes && sample.gap.empty()) sample.gap = "its processes have ended";
  return sample;
}

model::NodeSample sample_node(const sys::Procfs& proc, bool is_shared_host, Time now) {
  model::NodeSample sample;
  sample.time = now;
  sample.shared_host = is_shared_host;
  std::string& gap = sample.gap;
  take(proc.cpu(), gap, [&sample](const sys::NodeCpu& cpu) {
    sample.cpu_seconds_busy = seconds(sys::from_ticks(cpu.busy_ticks));
    sample.cpu_seconds_total = seconds(sys::from_ticks(cpu.total_ticks));
  });
  take(proc.load_1m(), gap, [&sample](double load) { sample.load_1m = load; });
  take(proc.memory(), gap, [&sample](const sys::NodeMemory& memory) {
    sample.memory_total_bytes = memory.total_bytes;
    sample.memory_available_bytes = memory.available_bytes;
  });
  take(proc.network(), gap, [&sample](const sys::NodeNetwork& network) {
    sample.network_receive_bytes = network.receive_bytes;
    sample.network_transmit_bytes = network.transmit_bytes;
  });
  take(proc.pressure("cpu"), gap, [&sample](double ratio) { sample.pressure_cpu = ratio; });
  take(proc.pressure("memory"), gap, [&sample](double ratio) { sample.pressure_memory = ratio; });
  take(proc.pressure("io"), gap, [&sample](double ratio) { sample.pressure_io = ratio; });
  return sample;
}

}  // namespace vetta::collect
