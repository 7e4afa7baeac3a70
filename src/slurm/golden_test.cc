// SPDX-License-Identifier: Apache-2.0
// Walks tests/golden/slurm: a folder is a case, its name says the reader (jobs-…, nodes-…); `input`
// is what Slurm printed, `expect` what is read of it. UPDATE_GOLDEN=1 rewrites `expect`: review the
// difference. Every prefix of every input must be read or refused too.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "core/text.h"
#include "slurm/accounting.h"
#include "slurm/allocations.h"
#include "slurm/jobs.h"
#include "slurm/nodes.h"
#include "slurm/partitions.h"
#include "slurm/sdiag.h"

namespace vetta::slurm {
namespace {

namespace fs = std::filesystem;

/// The folder tests/golden/slurm above this program: build trees lie within the source tree.
fs::path golden_folder() {
  for (fs::path at = fs::read_symlink("/proc/self/exe").parent_path(); at != at.root_path();
       at = at.parent_path())
    if (fs::exists(at / "tests/golden/slurm")) return at / "tests/golden/slurm";
  return {};
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (byte < 0x20 || byte >= 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "\"";
}

/// Prints what is known: "key=value", one record a line.
class Line {
 public:
  explicit Line(std::string_view kind) : text_(kind) {}

  Line& add(std::string_view key, std::string_view value) {
    if (!value.empty()) text_ += fmt::format(" {}={}", key, in_quotes(value));
    return *this;
  }

  Line& add(std::string_view key, const std::optional<Time>& value) {
    if (value) text_ += fmt::format(" {}={}", key, epoch_seconds(*value));
    return *this;
  }

  Line& add(std::string_view key, const std::optional<Duration>& value) {
    if (value) text_ += fmt::format(" {}={}s", key, seconds(*value));
    return *this;
  }

  template <typename Number>
    requires std::is_arithmetic_v<Number>
  Line& add(std::string_view key, const std::optional<Number>& value) {
    if (value) text_ += fmt::format(" {}={}", key, *value);
    return *this;
  }

  [[nodiscard]] std::string text() const { return text_ + "\n"; }

 private:
  std::string text_;
};

std::string show(const std::vector<Refusal>& refused) {
  std::string out;
  for (const Refusal& refusal : refused)
    out += fmt::format("refused line {}: {}\n", refusal.line, refusal.reason);
  return out;
}

std::string show(const model::Attempt& job) {
  Line line(fmt::format("job {} submit={} {}", job.key.job_id, epoch_seconds(job.key.submit),
                        model::name(job.state)));
  line.add("state_text", job.state_text).add("reason", job.reason);
  if (job.array) {
    line.add("array", std::optional(job.array->job_id)).add("task", job.array->task_id);
    line.add("tasks", job.array->tasks);
  }
  if (job.het)
    line.add("het", std::optional(job.het->job_id)).add("offset", std::optional(job.het->offset));
  line.add("restart", job.restart > 0 ? std::optional(job.restart) : std::nullopt);
  line.add("name", job.name).add("user", job.user).add("uid", job.uid);
  line.add("account", job.account).add("partition", job.partition).add("qos", job.qos);
  line.add("eligible", job.eligible).add("start", job.start).add("end", job.end);
  line.add("expected_start", job.expected_start).add("time_limit", job.time_limit);
  line.add("suspended_total", job.suspended_total).add("nodes", job.nodes);
  line.add("node_count", job.node_count).add("cpus", job.cpus).add("tasks_n", job.tasks);
  line.add("memory", job.memory_bytes).add("gpus", job.gpus).add("tres", job.tres);
  line.add("exit", job.exit_code).add("signal", job.exit_signal);
  line.add("derived", job.derived_exit_code).add("derived_signal", job.derived_exit_signal);
  line.add("work_dir", job.work_dir).add("command", job.command).add("comment", job.comment);
  line.add("std_out", job.std_out).add("std_err", job.std_err).add("dependency", job.dependency);
  line.add("priority", job.priority);
  return line.text();
}

std::string show(const model::Step& step) {
  Line line(fmt::format("  step {} {}", step.step_id, model::name(step.state)));
  line.add("name", step.name).add("start", step.start).add("end", step.end);
  line.add("exit", step.exit_code).add("signal", step.exit_signal).add("nodes", step.nodes);
  line.add("tasks", step.tasks).add("max_rss", step.max_rss_bytes).add("cpu", step.cpu_time);
  return line.text();
}

std::string show(const model::Node& node) {
  Line line(fmt::format("node {}", node.name));
  std::string states;
  for (const std::string& state : node.states) states += (states.empty() ? "" : "+") + state;
  std::string partitions;
  for (const std::string& name : node.partitions)
    partitions += (partitions.empty() ? "" : ",") + name;
  line.add("states", states).add("partitions", partitions);
  line.add("usable", model::is_usable(node) ? "yes" : "no");
  line.add("address", node.address).add("host_name", node.host_name);
  line.add("reason", node.reason).add("by", node.reason_user).add("since", node.reason_since);
  line.add("cpus", node.cpus).add("cpus_allocated", node.cpus_allocated);
  line.add("memory", node.memory_bytes).add("memory_allocated", node.memory_allocated_bytes);
  line.add("memory_free", node.memory_free_bytes).add("load", node.load);
  line.add("boot", node.boot).add("last_busy", node.last_busy).add("features", node.features);
  line.add("version", node.version).add("os", node.operating_system);
  line.add("architecture", node.architecture);
  std::string text = line.text();
  for (const model::Gres& gres : node.gres)
    text += fmt::format("  gres {} type={} total={} allocated={} indices={}\n", gres.name,
                        in_quotes(gres.type), gres.total,
                        gres.allocated ? std::to_string(*gres.allocated) : "unknown",
                        fmt::join(gres.allocated_indices, ","));
  return text;
}

std::string show(const model::Partition& partition) {
  Line line(fmt::format("partition {}{}", partition.name, partition.is_default ? " default" : ""));
  line.add("state", partition.state).add("nodes", partition.nodes);
  line.add("node_count", partition.node_count).add("cpus", partition.cpus);
  line.add("gpus", partition.gpus).add("priority_tier", partition.priority_tier);
  line.add("time_limit", partition.time_limit).add("preempt_mode", partition.preempt_mode);
  return line.text();
}

std::string show(const HeldJob& job) {
  Line line(fmt::format("held {}", job.job_id));
  line.add("submit", job.submit).add("start", job.start);
  line.add("suspend_changed", job.suspend_changed).add("ran_before", job.ran_before);
  std::string text = line.text();
  for (const model::Allocation& allocation : job.allocations) {
    Line one(fmt::format("  on {}", allocation.node));
    one.add("cpus", allocation.cpus).add("ids", allocation.cpu_ids);
    one.add("memory", allocation.memory_bytes);
    one.add("devices", fmt::format("{}", fmt::join(allocation.devices, ",")));
    text += one.text();
  }
  return text;
}

template <typename T>
std::string show(const Parsed<std::vector<T>>& parsed) {
  std::string text;
  for (const T& value : parsed.value) text += show(value);
  return text + show(parsed.refused);
}

struct Case {
  std::string kind, input, jobs, separator;
  std::vector<std::string> fields;
};

Case load(const fs::path& folder) {
  Case one;
  const std::string name = folder.filename();
  one.kind = name.substr(0, name.find('-'));
  one.input = read_file(folder / "input");
  one.jobs = read_file(folder / "jobs");
  const std::string format = read_file(folder / "format");
  const auto lines = split(format, "\n");
  if (lines.size() < 2) return one;
  one.separator = lines[0];
  for (const std::string_view field : split(lines[1], ",")) one.fields.emplace_back(field);
  return one;
}

std::string parse_accounted(const Case& one, std::string_view input) {
  const auto parsed = parse_accounting(input, {one.fields, one.separator, true, {}}, "c");
  std::string text;
  for (const AccountedAttempt& attempt : parsed.value) {
    text += show(attempt.attempt);
    for (const model::Step& step : attempt.steps) text += show(step);
  }
  return text + show(parsed.refused);
}

std::string parse_load(std::string_view input) {
  const auto sdiag = parse_sdiag(input);
  if (!sdiag) return sdiag.error().text() + "\n";
  Line line("sdiag");
  line.add("at", sdiag->at).add("since", sdiag->since).add("threads", sdiag->server_threads);
  line.add("agent_queue", sdiag->agent_queue).add("dbd_queue", sdiag->dbd_agent_queue);
  line.add("submitted", sdiag->jobs_submitted).add("pending", sdiag->jobs_pending);
  line.add("running", sdiag->jobs_running).add("rpcs", std::optional(sdiag->rpcs()));
  std::string text = line.text();
  for (const auto* list : {&sdiag->by_type, &sdiag->by_user})
    for (const RpcCount& rpc : *list)
      text += fmt::format("  {} {} count={} average={}us total={}us\n", rpc.name, rpc.id, rpc.count,
                          rpc.average_us, rpc.total_us);
  return text;
}

std::string parse(const Case& one, std::string_view input) {
  const JobText format{one.fields, one.separator, true, {}};
  if (one.kind == "jobs") return show(parse_jobs(input, format, "c"));
  if (one.kind == "nodes") return show(parse_nodes(input));
  if (one.kind == "partitions") return show(parse_partitions(input));
  if (one.kind == "accounting") return parse_accounted(one, input);
  if (one.kind == "sdiag") return parse_load(input);
  if (one.kind == "allocations") {
    const auto jobs = parse_jobs(one.jobs, format, "c");
    return show(parse_allocations(input, &jobs.value));
  }
  ADD_FAILURE() << "no reader is called " << one.kind;
  return {};
}

std::vector<fs::path> cases() {
  std::vector<fs::path> found;
  const fs::path folder = golden_folder();
  if (folder.empty()) return found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

TEST(Golden, EachCaseReadsAsExpected) {
  const auto all = cases();
  ASSERT_GE(all.size(), 6U) << "tests/golden/slurm was not found above " << fs::current_path();
  for (const fs::path& folder : all) {
    const Case one = load(folder);
    const std::string got = parse(one, one.input);
    if (std::getenv("UPDATE_GOLDEN") != nullptr)
      std::ofstream(folder / "expect", std::ios::binary) << got;
    EXPECT_EQ(got, read_file(folder / "expect")) << folder;
  }
}

TEST(Golden, EveryPrefixIsReadOrRefused) {
  for (const fs::path& folder : cases()) {
    const Case one = load(folder);
    const std::size_t stride = std::max<std::size_t>(1, one.input.size() / 150);
    for (std::size_t length = 0; length < one.input.size(); length += stride) {
      // A copy of exactly this length, so that the sanitizers see a step beyond it.
      const std::vector<char> exact(one.input.begin(),
                                    one.input.begin() + static_cast<std::ptrdiff_t>(length));
      const std::string got = parse(one, std::string_view(exact.data(), exact.size()));
      if (length > 0 && one.kind != "allocations") {
        EXPECT_FALSE(got.empty()) << folder << " cut at " << length;
      }
    }
  }
}

}  // namespace
}  // namespace vetta::slurm
