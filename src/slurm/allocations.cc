// SPDX-License-Identifier: Apache-2.0
#include "slurm/allocations.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <unordered_map>

#include "core/hostlist.h"
#include "core/text.h"
#include "slurm/fields.h"
#include "slurm/gres.h"

namespace vetta::slurm {
namespace {

constexpr std::string_view record_key = "JobId=";

/// The place of `key` ("Nodes=") at the start or behind a blank, from `at` on.
std::size_t find_key(std::string_view text, std::string_view key, std::size_t at = 0) {
  while (true) {
    at = text.find(key, at);
    if (at == std::string_view::npos || at == 0 || is_blank(text[at - 1])) return at;
    ++at;
  }
}

/// The value behind the first such key, up to the next blank.
std::string_view value_of(std::string_view text, std::string_view key, std::size_t at = 0) {
  const std::size_t found = find_key(text, key, at);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = text.substr(found + key.size());
  return rest.substr(0, rest.find_first_of(" \n\t\r"));
}

/// One record cut out of the text, and its part that no user writes.
struct Cut {
  std::uint64_t job_id = 0;
  int line = 0;
  std::string_view facts;  ///< from behind the name up to " Command=" or the end
};

class Cutter {
 public:
  Cutter(std::string_view text, const std::vector<model::Attempt>* jobs)
      : text_(text), has_jobs_(jobs != nullptr) {
    if (jobs == nullptr) return;
    for (const model::Attempt& job : *jobs) jobs_[job.key.job_id] = &job;
  }

  Parsed<std::vector<Cut>> cut() {
    while (next_start()) one();
    return std::move(parsed_);
  }

  [[nodiscard]] const model::Attempt* job(std::uint64_t id) const {
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : found->second;
  }

 private:
  /// Moves at_ to the next "JobId=" at the start of a line.
  bool next_start() {
    std::size_t found = at_;
    while (true) {
      found = text_.find(record_key, found);
      if (found == std::string_view::npos) return false;
      if (found == 0 || text_[found - 1] == '\n') break;
      ++found;
    }
    line_ += static_cast<int>(std::ranges::count(text_.substr(at_, found - at_), '\n'));
    at_ = found;
    return true;
  }

  void move_to(std::size_t to) {
    line_ += static_cast<int>(std::ranges::count(text_.substr(at_, to - at_), '\n'));
    at_ = to;
  }

  void one() {
    Cut cut;
    cut.line = line_;
    const std::string_view id_text = value_of(text_.substr(at_, 64), record_key);
    const auto id = parse_uint(id_text);
    constexpr std::string_view name_key = "JobName=";
    const std::size_t name_at = find_key(text_, name_key, at_);
    const std::size_t line_end = std::min(text_.find('\n', at_), text_.size());
    if (!id || name_at == std::string_view::npos || name_at > line_end) {
      parsed_.refused.push_back({line_, "a job without a readable id and name"});
      move_to(line_end);
      return;
    }
    cut.job_id = *id;
    const model::Attempt* known = job(*id);
    std::size_t facts_at = name_at + name_key.size();
    if (known != nullptr && !step_over_name(*known, facts_at)) {
      parsed_.refused.push_back(
          {line_, fmt::format("the name of job {} is not the one that squeue tells", *id)});
      move_to(line_end);
      return;
    }
    if (known == nullptr) facts_at = std::min(find_key(text_, "UserId=", facts_at), text_.size());
    const std::size_t end = end_of_record(facts_at, known);
    cut.facts = text_.substr(facts_at, end - facts_at);
    cut.facts = cut.facts.substr(0, find_key(cut.facts, "Command="));
    if (known != nullptr || !has_jobs_) parsed_.value.push_back(cut);
    move_to(end);
  }

  bool step_over_name(const model::Attempt& known, std::size_t& at) const {
    const std::string_view rest = text_.substr(at);
    if (!rest.starts_with(known.name)) return false;
    const std::string_view behind = trim(rest.substr(known.name.size(), 64));
    if (!behind.starts_with("UserId=") && !behind.starts_with("HetJobIdSet=")) return false;
    at += known.name.size();
    return true;
  }

  /// The next line that begins a record, those aside that lie within this job's own texts.
  [[nodiscard]] std::size_t end_of_record(std::size_t from, const model::Attempt* known) const {
    constexpr std::string_view next = "\nJobId=";
    while (true) {
      const std::size_t end = text_.find(next, from);
      if (end == std::string_view::npos) return text_.size();
      const std::size_t behind = known == nullptr ? 0 : end_of_text_around(from, end, *known);
      if (behind == 0) return end + 1;
      from = behind;
    }
  }

  /// Where the user's text ends that covers `place`, 0 if none does.
  [[nodiscard]] std::size_t end_of_text_around(std::size_t from, std::size_t place,
                                               const model::Attempt& known) const {
    const std::array<const std::string*, 5> texts = {
        &known.comment, &known.work_dir, &known.command, &known.std_out, &known.std_err};
    for (const std::string* text : texts) {
      if (!text->contains("\nJobId=")) continue;
      const std::size_t at = text_.find(*text, from);
      if (at != std::string_view::npos && at <= place && place < at + text->size())
        return at + text->size();
    }
    return 0;
  }

  std::string_view text_;
  bool has_jobs_;
  std::unordered_map<std::uint64_t, const model::Attempt*> jobs_;
  std::size_t at_ = 0;
  int line_ = 1;
  Parsed<std::vector<Cut>> parsed_;
};

/// "gpu:2(IDX:0-1)" as "gpu:0", "gpu:1"; "gpu:h100:1(IDX:3)" as "gpu:h100:3".
Result<std::vector<std::string>> devices_of(std::string_view gres) {
  std::vector<std::string> devices;
  for (const GresEntry& entry : VETTA_TRY(parse_gres(gres)))
    for (const std::uint32_t index : entry.indices)
      devices.push_back(entry.type.empty()
                            ? fmt::format("{}:{}", entry.name, index)
                            : fmt::format("{}:{}:{}", entry.name, entry.type, index));
  return devices;
}

/// One "Nodes=n[001-002] CPU_IDs=0-3 Mem=500 GRES=gpu:2(IDX:0-1)" group.
Result<void> read_group(std::string_view group, const std::optional<Time>& start, HeldJob& job) {
  model::Allocation allocation;
  if (start) allocation.span.start = *start;
  allocation.cpu_ids = value_of(group, "CPU_IDs=");
  if (const auto ids = parse_indices(allocation.cpu_ids))
    allocation.cpus = static_cast<std::uint32_t>(ids->size());
  allocation.memory_bytes = read_memory(value_of(group, "Mem="));
  std::string_view gres = value_of(group, "GRES=");
  if (gres.empty()) gres = value_of(group, "GRES_IDX=");
  allocation.devices = VETTA_TRY(devices_of(gres));
  for (std::string& node : VETTA_TRY(expand_hostlist(value_of(group, "Nodes=")))) {
    allocation.node = std::move(node);
    job.allocations.push_back(allocation);
  }
  return {};
}

/// Every node must be one that squeue tells of the job.
Result<void> check_nodes(const HeldJob& job, const model::Attempt& known) {
  auto told = VETTA_TRY(expand_hostlist(known.nodes));
  std::ranges::sort(told);
  for (const model::Allocation& allocation : job.allocations)
    if (!std::ranges::binary_search(told, allocation.node))
      return fail(Code::conflict,
                  fmt::format("job {} is said to hold {}, squeue tells {}", job.job_id,
                              one_line(allocation.node, 60), one_line(known.nodes, 60)));
  return {};
}

Result<HeldJob> read_job(const Cut& cut, const model::Attempt* known) {
  HeldJob job;
  job.job_id = cut.job_id;
  job.submit = read_time(value_of(cut.facts, "SubmitTime="));
  job.start = read_time(value_of(cut.facts, "StartTime="));
  job.suspend_changed = read_time(value_of(cut.facts, "SuspendTime="));
  if (const auto seconds = read_count(value_of(cut.facts, "SecsPreSuspend=")))
    job.ran_before = std::chrono::seconds(*seconds);
  constexpr std::string_view key = "Nodes=";
  std::size_t at = find_key(cut.facts, key);
  while (at != std::string_view::npos) {
    const std::size_t next = find_key(cut.facts, key, at + key.size());
    const std::string_view group = cut.facts.substr(at, next - at);
    if (group.contains("CPU_IDs=")) VETTA_TRY(read_group(group, job.start, job));
    at = next;
  }
  if (known == nullptr) return job;
  if (job.submit && *job.submit != known->key.submit)
    return fail(Code::conflict, fmt::format("job {} is another attempt by now", job.job_id));
  VETTA_TRY(check_nodes(job, *known));
  return job;
}

bool taken(const std::vector<HeldJob>& jobs, std::uint64_t id) {
  return std::ranges::find(jobs, id, &HeldJob::job_id) != jobs.end();
}

}  // namespace

Parsed<std::vector<HeldJob>> parse_allocations(std::string_view text,
                                               const std::vector<model::Attempt>* jobs) {
  Cutter cutter(text, jobs);
  auto cuts = cutter.cut();
  Parsed<std::vector<HeldJob>> parsed;
  parsed.refused = std::move(cuts.refused);
  std::unordered_map<std::uint64_t, int> seen;
  for (const Cut& cut : cuts.value) ++seen[cut.job_id];
  for (const Cut& cut : cuts.value) {
    if (!cut.facts.contains("CPU_IDs=")) continue;
    if (seen[cut.job_id] > 1) {
      parsed.refused.push_back({cut.line, fmt::format("job {} has two records", cut.job_id)});
      if (jobs != nullptr || taken(parsed.value, cut.job_id)) continue;
    }
    auto job = read_job(cut, cutter.job(cut.job_id));
    if (job)
      parsed.value.push_back(std::move(*job));
    else
      parsed.refused.push_back({cut.line, job.error().text()});
  }
  return parsed;
}

void update_suspended(std::vector<model::Span>& spans, model::JobState state, const HeldJob& held) {
  if (!held.suspend_changed || !held.start || !held.ran_before) return;
  const Duration total = *held.suspend_changed - *held.start - *held.ran_before;
  if (total < Duration::zero()) return;
  const bool is_suspended = state == model::JobState::suspended;
  if (!spans.empty() && !spans.back().end) {
    model::Span& open = spans.back();
    if (is_suspended && open.start == *held.suspend_changed) return;
    Duration others{};
    for (const model::Span& span : spans)
      if (span.end) others += *span.end - span.start;
    // Resumed since, or resumed and suspended again: then only its length is known.
    open.end = is_suspended ? open.start + std::max(total - others, Duration::zero())
                            : *held.suspend_changed;
  }
  Duration closed{};
  for (const model::Span& span : spans)
    if (span.end) closed += *span.end - span.start;
  const Duration missed = total - closed;
  if (missed > Duration::zero()) {
    // While suspended the missed time lies somewhere before; it ends at the latest where it began.
    Time end = *held.suspend_changed;
    if (is_suspended) end = *held.suspend_changed - *held.ran_before;
    if (!spans.empty() && spans.back().end) end = std::max(end, *spans.back().end + missed);
    spans.push_back({end - missed, end});
  }
  if (is_suspended) spans.push_back({*held.suspend_changed, std::nullopt});
}

}  // namespace vetta::slurm
