// SPDX-License-Identifier: Apache-2.0
#include "slurm/accounting.h"

#include <fmt/format.h>
#include <unordered_map>

#include "core/text.h"
#include "slurm/fields.h"
#include "slurm/gres.h"
#include "slurm/record.h"

namespace vetta::slurm {
namespace {

using Record = std::span<const std::string_view>;

struct AccountingColumns {
  explicit AccountingColumns(const Columns& columns)
      : raw_id(columns.at("JobIDRaw")),
        id(columns.at("JobID")),
        state(columns.at("State")),
        submit(columns.at("Submit")),
        eligible(columns.at("Eligible")),
        start(columns.at("Start")),
        end(columns.at("End")),
        suspended(columns.at("Suspended")),
        exit(columns.at("ExitCode")),
        derived(columns.at("DerivedExitCode")),
        user(columns.at("User")),
        uid(columns.at("UID")),
        account(columns.at("Account")),
        partition(columns.at("Partition")),
        qos(columns.at("QOS")),
        nodes(columns.at("NodeList")),
        node_count(columns.at("NNodes")),
        cpus(columns.at("AllocCPUS")),
        tasks(columns.at("NTasks")),
        tres(columns.at("AllocTRES")),
        asked(columns.at("ReqTRES")),
        reason(columns.at("Reason")),
        limit(columns.at("TimelimitRaw")),
        limit_text(columns.at("Timelimit")),
        max_rss(columns.at("MaxRSS")),
        cpu_time(columns.at("TotalCPU")),
        priority(columns.at("Priority")),
        index(columns.at("DBIndex")),
        restarts(columns.at("Restarts")),
        sluid(columns.at("SLUID")),
        work_dir(columns.at("WorkDir")),
        comment(columns.at("Comment")),
        name(columns.at("JobName")) {}

  using Place = std::optional<std::size_t>;
  Place raw_id, id, state, submit, eligible, start, end, suspended, exit, derived, user, uid,
      account, partition, qos, nodes, node_count, cpus, tasks, tres, asked, reason, limit,
      limit_text, max_rss, cpu_time, priority, index, restarts, sluid, work_dir, comment, name;
};

void read_identity(const JobId& label, model::Attempt& attempt) {
  if (label.task || !label.tasks.empty())
    attempt.array = model::Array{label.id, label.task, label.tasks};
  if (label.het_offset) attempt.het = model::Het{label.id, *label.het_offset};
}

void read_resources(Record record, const AccountingColumns& at, model::Attempt& attempt) {
  attempt.node_count = read_count(field(record, at.node_count));
  attempt.cpus = read_count(field(record, at.cpus));
  attempt.tasks = read_count(field(record, at.tasks));
  attempt.tres = known(field(record, at.tres));
  const Tres held = parse_tres(attempt.tres);
  const Tres asked = parse_tres(field(record, at.asked));
  attempt.memory_bytes = held.memory_bytes;
  const auto gpus = held.gpus ? held.gpus : attempt.nodes.empty() ? asked.gpus : std::nullopt;
  if (gpus && *gpus <= 0xFFFF'FFFFU) attempt.gpus = static_cast<std::uint32_t>(*gpus);
}

void read_words(Record record, const AccountingColumns& at, model::Attempt& attempt) {
  attempt.sluid = known(field(record, at.sluid));
  attempt.reason = known(field(record, at.reason));
  attempt.user = known(field(record, at.user));
  attempt.uid = read_count(field(record, at.uid));
  attempt.account = known(field(record, at.account));
  attempt.partition = known(field(record, at.partition));
  attempt.qos = known(field(record, at.qos));
  attempt.work_dir = field(record, at.work_dir);
  attempt.comment = field(record, at.comment);
  attempt.name = field(record, at.name);
}

Result<model::Attempt> read_attempt(Record record, const AccountingColumns& at,
                                    std::uint64_t raw_id, const JobId& label,
                                    std::string_view cluster) {
  model::Attempt attempt;
  const auto submit = read_time(field(record, at.submit));
  if (!submit)
    return fail(Code::invalid, fmt::format("job {} has no submit time but '{}'", raw_id,
                                           one_line(field(record, at.submit), 40)));
  attempt.key = {std::string(cluster), raw_id, *submit};
  attempt.state_text = trim(field(record, at.state));
  attempt.state = model::parse_job_state(attempt.state_text);
  attempt.nodes = known(field(record, at.nodes));
  attempt.restart = read_count(field(record, at.restarts)).value_or(0);
  if (const auto priority = parse_int(field(record, at.priority))) attempt.priority = *priority;
  read_identity(label, attempt);
  read_words(record, at, attempt);
  attempt.eligible = read_time(field(record, at.eligible));
  // Without nodes it never started: its start is then a copy of its end.
  if (!attempt.nodes.empty()) attempt.start = read_time(field(record, at.start));
  if (model::is_final(attempt.state)) attempt.end = read_time(field(record, at.end));
  attempt.suspended_total = read_span(field(record, at.suspended));
  attempt.time_limit = read_span(field(record, at.limit));
  if (!at.limit) attempt.time_limit = read_span(field(record, at.limit_text));
  read_resources(record, at, attempt);
  const ExitCode exit = read_exit(field(record, at.exit));
  const ExitCode derived = read_exit(field(record, at.derived));
  if (attempt.end) {
    attempt.exit_code = exit.code;
    attempt.exit_signal = exit.signal;
    attempt.derived_exit_code = derived.code;
    attempt.derived_exit_signal = derived.signal;
  }
  return attempt;
}

model::Step read_step(Record record, const AccountingColumns& at, std::string_view step_id) {
  model::Step step;
  step.step_id = step_id;
  step.name = field(record, at.name);
  step.state = model::parse_job_state(trim(field(record, at.state)));
  step.start = read_time(field(record, at.start));
  if (model::is_final(step.state)) {
    step.end = read_time(field(record, at.end));
    const ExitCode exit = read_exit(field(record, at.exit));
    step.exit_code = exit.code;
    step.exit_signal = exit.signal;
  }
  step.nodes = known(field(record, at.nodes));
  step.tasks = read_count(field(record, at.tasks));
  const std::string_view rss = known(field(record, at.max_rss));
  step.max_rss_bytes = rss == "0" ? std::optional<std::uint64_t>(0) : read_memory(rss);
  step.cpu_time = read_span(field(record, at.cpu_time));
  return step;
}

class Rows {
 public:
  Rows(const AccountingText& format, std::string_view cluster)
      : places_(Columns(format.fields)), cluster_(cluster) {}

  std::optional<std::string> take(int line, Record record) {
    auto raw = parse_job_id(field(record, places_.raw_id));
    const auto label = parse_job_id(field(record, places_.id));
    if (!raw && !places_.raw_id) raw = label;
    if (!raw) return raw.error().message;
    const std::string_view index = trim(field(record, places_.index));
    if (raw->step.empty()) {
      auto attempt = read_attempt(record, places_, raw->id, label.value_or(*raw), cluster_);
      if (!attempt) return attempt.error().message;
      by_job_[raw->id] = attempts_.size();
      if (!index.empty()) by_index_[std::string(index)] = attempts_.size();
      attempts_.push_back({std::move(*attempt), {}});
      return std::nullopt;
    }
    if (!own(raw->id, index, record, raw->step))
      orphans_.push_back(
          {line, raw->id, std::string(index), read_step(record, places_, raw->step)});
    return std::nullopt;
  }

  /// Steps that came before the row of their job; those that still have none are refused.
  std::vector<Refusal> finish() {
    std::vector<Refusal> refused;
    for (Orphan& orphan : orphans_) {
      if (AccountedAttempt* owner = owner_of(orphan.job_id, orphan.index))
        owner->steps.push_back(std::move(orphan.step));
      else
        refused.push_back(
            {orphan.line, fmt::format("step {}.{} comes without its job", orphan.job_id,
                                      one_line(orphan.step.step_id, 40))});
    }
    return refused;
  }

  std::vector<AccountedAttempt> take_all() { return std::move(attempts_); }

 private:
  struct Orphan {
    int line = 0;
    std::uint64_t job_id = 0;
    std::string index;
    model::Step step;
  };

  /// By DBIndex where there is one, else the latest row of the job so far.
  AccountedAttempt* owner_of(std::uint64_t job_id, std::string_view index) {
    const auto indexed = by_index_.find(std::string(index));
    if (indexed != by_index_.end() && attempts_[indexed->second].attempt.key.job_id == job_id)
      return &attempts_[indexed->second];
    if (!index.empty()) return nullptr;
    const auto by_id = by_job_.find(job_id);
    return by_id == by_job_.end() ? nullptr : &attempts_[by_id->second];
  }

  bool own(std::uint64_t job_id, std::string_view index, Record record, std::string_view step_id) {
    AccountedAttempt* owner = owner_of(job_id, index);
    if (owner != nullptr) owner->steps.push_back(read_step(record, places_, step_id));
    return owner != nullptr;
  }

  AccountingColumns places_;
  std::string_view cluster_;
  std::vector<Orphan> orphans_;
  std::vector<AccountedAttempt> attempts_;
  std::unordered_map<std::uint64_t, std::size_t> by_job_;
  std::unordered_map<std::string, std::size_t> by_index_;
};

}  // namespace

const std::vector<std::string>& accounting_fields() {
  static const std::vector<std::string> fields = {
      "JobIDRaw",  "JobID",    "DBIndex",   "State",    "Submit",          "Eligible",
      "Start",     "End",      "Suspended", "ExitCode", "DerivedExitCode", "User",
      "UID",       "Account",  "Partition", "QOS",      "NodeList",        "NNodes",
      "AllocCPUS", "NTasks",   "AllocTRES", "ReqTRES",  "Reason",          "TimelimitRaw",
      "MaxRSS",    "TotalCPU", "Priority",  "Restarts", "SLUID",           "WorkDir",
      "Comment",   "JobName"};
  return fields;
}

Parsed<std::vector<AccountedAttempt>> parse_accounting(std::string_view text,
                                                       const AccountingText& format,
                                                       std::string_view cluster) {
  Rows rows(format, cluster);
  RecordFormat records;
  records.separator = format.separator;
  records.fields = format.fields.size();
  records.trailing_separator = format.trailing_separator;
  records.free_text = format.free_text;
  Parsed<std::vector<AccountedAttempt>> parsed;
  parsed.refused = read_records(
      text, records, [&rows](int line, Record record) { return rows.take(line, record); });
  const auto orphans = rows.finish();
  parsed.refused.insert(parsed.refused.end(), orphans.begin(), orphans.end());
  parsed.value = rows.take_all();
  return parsed;
}

}  // namespace vetta::slurm
