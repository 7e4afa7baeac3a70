// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/text.h"
#include "slurm/fields.h"
#include "slurm/gres.h"
#include "slurm/record.h"

namespace vetta::slurm {
namespace {

using Record = std::span<const std::string_view>;

/// The places of the fields in a record, looked up once a text.
struct JobColumns {
  explicit JobColumns(const std::vector<std::string>& fields) : columns(fields) {}

  Columns columns;
  std::optional<std::size_t> job_id = columns.at("JobID"), label = columns.at("JobArrayID"),
                             array_id = columns.at("ArrayJobID"),
                             task_id = columns.at("ArrayTaskID"), het_id = columns.at("HetJobID"),
                             het_offset = columns.at("HetJobOffset"), sluid = columns.at("SLUID"),
                             state = columns.at("State"), reason = columns.at("Reason"),
                             user = columns.at("UserName"), uid = columns.at("UserID"),
                             account = columns.at("Account"), partition = columns.at("Partition"),
                             qos = columns.at("QOS"), submit = columns.at("SubmitTime"),
                             eligible = columns.at("EligibleTime"), start = columns.at("StartTime"),
                             end = columns.at("EndTime"), limit = columns.at("TimeLimit"),
                             restarts = columns.at("RestartCnt"),
                             priority = columns.at("PriorityLong"), nodes = columns.at("NodeList"),
                             node_count = columns.at("NumNodes"), cpus = columns.at("NumCPUs"),
                             tasks = columns.at("NumTasks"), tres = columns.at("tres-alloc"),
                             tres_node = columns.at("tres-per-node"),
                             tres_job = columns.at("tres-per-job"),
                             tres_task = columns.at("tres-per-task"),
                             exit = columns.at("exit_code"), derived = columns.at("DerivedEC"),
                             dependency = columns.at("Dependency"), std_out = columns.at("STDOUT"),
                             std_err = columns.at("STDERR"), work_dir = columns.at("WorkDir"),
                             command = columns.at("Command"), comment = columns.at("Comment"),
                             name = columns.at("Name");
};

/// A free text: only "(null)" means that there is none.
std::string free_text(std::string_view text) {
  return text == "(null)" ? std::string() : std::string(text);
}

std::optional<std::uint32_t> gpus_of(std::string_view tres) {
  const auto entries = parse_gres(tres);
  if (!entries) return std::nullopt;
  const std::uint64_t count = count_gpus(*entries).all;
  if (count == 0 || count > 0xFFFF'FFFFU) return std::nullopt;
  return static_cast<std::uint32_t>(count);
}

std::optional<std::uint32_t> times(std::optional<std::uint32_t> a, std::optional<std::uint32_t> b) {
  if (!a || !b) return std::nullopt;
  const std::uint64_t product = std::uint64_t(*a) * *b;
  return product > 0xFFFF'FFFFU ? std::nullopt : std::optional(static_cast<std::uint32_t>(product));
}

void read_identity(Record record, const JobColumns& at, model::Attempt& attempt) {
  const JobId label = parse_job_id(field(record, at.label)).value_or(JobId{});
  const auto array_id = parse_uint(field(record, at.array_id));
  const std::string_view task = known(field(record, at.task_id));
  const bool is_array = label.task || !label.tasks.empty() || !task.empty();
  if (is_array) {
    model::Array array;
    array.job_id = array_id && *array_id > 0 ? *array_id : label.id;
    array.task_id = label.task ? label.task : read_count(task);
    if (!array.task_id) array.tasks = label.tasks.empty() ? std::string(task) : label.tasks;
    attempt.array = std::move(array);
  }
  const auto het_id = parse_uint(field(record, at.het_id));
  if (het_id && *het_id > 0)
    attempt.het = model::Het{*het_id, read_count(field(record, at.het_offset)).value_or(0)};
  else if (label.het_offset)
    attempt.het = model::Het{label.id, *label.het_offset};
}

void read_times(Record record, const JobColumns& at, model::Attempt& attempt) {
  attempt.eligible = read_time(field(record, at.eligible));
  const auto start = read_time(field(record, at.start));
  const auto end = read_time(field(record, at.end));
  attempt.time_limit = read_span(field(record, at.limit));
  const bool is_over = model::is_final(attempt.state);
  if (attempt.state == model::JobState::pending) {
    attempt.expected_start = start;
  } else if (is_over && attempt.nodes.empty()) {
    attempt.end = end;  // ended without ever having started: its start is a copy of its end
  } else {
    attempt.start = start;
    if (is_over) attempt.end = end;
  }
}

void read_resources(Record record, const JobColumns& at, model::Attempt& attempt) {
  attempt.node_count = read_count(field(record, at.node_count));
  attempt.cpus = read_count(field(record, at.cpus));
  attempt.tasks = read_count(field(record, at.tasks));
  attempt.tres = known(field(record, at.tres));
  const Tres tres = parse_tres(attempt.tres);
  attempt.memory_bytes = tres.memory_bytes;
  if (tres.gpus && *tres.gpus <= 0xFFFF'FFFFU)
    attempt.gpus = static_cast<std::uint32_t>(*tres.gpus);
  // A site that does not track gres/gpu shows none there; what was asked for still tells.
  if (!attempt.gpus) attempt.gpus = gpus_of(field(record, at.tres_job));
  if (!attempt.gpus) attempt.gpus = times(gpus_of(field(record, at.tres_node)), attempt.node_count);
  if (!attempt.gpus) attempt.gpus = times(gpus_of(field(record, at.tres_task)), attempt.tasks);
}

void read_words(Record record, const JobColumns& at, model::Attempt& attempt) {
  attempt.sluid = known(field(record, at.sluid));
  attempt.reason = known(field(record, at.reason));
  attempt.user = known(field(record, at.user));
  attempt.uid = read_count(field(record, at.uid));
  attempt.account = known(field(record, at.account));
  attempt.partition = known(field(record, at.partition));
  attempt.qos = known(field(record, at.qos));
  attempt.dependency = known(field(record, at.dependency));
  attempt.std_out = free_text(field(record, at.std_out));
  attempt.std_err = free_text(field(record, at.std_err));
  attempt.work_dir = free_text(field(record, at.work_dir));
  attempt.command = free_text(field(record, at.command));
  attempt.comment = free_text(field(record, at.comment));
  attempt.name = field(record, at.name);
}

std::optional<std::string> read_job(Record record, const JobColumns& at, std::string_view cluster,
                                    model::Attempt& attempt) {
  const auto id = parse_job_id(field(record, at.job_id));
  if (!id) return id.error().message;
  const auto submit = read_time(field(record, at.submit));
  if (!submit)
    return fmt::format("job {} has no submit time but '{}'", id->id,
                       one_line(field(record, at.submit), 40));
  attempt.key = {std::string(cluster), id->id, *submit};
  attempt.state_text = trim(field(record, at.state));
  attempt.state = model::parse_job_state(attempt.state_text);
  attempt.nodes = known(field(record, at.nodes));
  attempt.restart = read_count(field(record, at.restarts)).value_or(0);
  if (const auto priority = parse_int(field(record, at.priority))) attempt.priority = *priority;
  read_identity(record, at, attempt);
  read_words(record, at, attempt);
  read_times(record, at, attempt);
  read_resources(record, at, attempt);
  if (model::is_final(attempt.state)) {
    const ExitCode exit = read_exit(field(record, at.exit));
    const ExitCode derived = read_exit(field(record, at.derived));
    attempt.exit_code = exit.code;
    attempt.exit_signal = exit.signal;
    attempt.derived_exit_code = derived.code;
    attempt.derived_exit_signal = derived.signal;
  }
  return std::nullopt;
}

}  // namespace

const std::vector<std::string>& job_fields() {
  static const std::vector<std::string> fields = {
      "JobID",      "JobArrayID",   "ArrayJobID",    "ArrayTaskID",   "HetJobID",  "HetJobOffset",
      "State",      "Reason",       "UserName",      "UserID",        "Account",   "Partition",
      "QOS",        "SubmitTime",   "EligibleTime",  "StartTime",     "EndTime",   "TimeLimit",
      "RestartCnt", "PriorityLong", "NodeList",      "NumNodes",      "NumCPUs",   "NumTasks",
      "tres-alloc", "tres-per-job", "tres-per-node", "tres-per-task", "exit_code", "DerivedEC",
      "Dependency", "STDOUT",       "STDERR",        "WorkDir",       "Command",   "Comment",
      "Name"};
  return fields;
}

std::string format_argument(const std::vector<std::string>& fields, std::string_view separator) {
  std::string argument;
  for (const std::string& name : fields) {
    if (!argument.empty()) argument += ',';
    argument += name;
    argument += ':';
    argument += separator;
  }
  return argument;
}

Parsed<std::vector<model::Attempt>> parse_jobs(std::string_view text, const JobText& format,
                                               std::string_view cluster) {
  Parsed<std::vector<model::Attempt>> parsed;
  const JobColumns places(format.fields);
  RecordFormat records;
  records.separator = format.separator;
  records.fields = format.fields.size();
  records.trailing_separator = format.trailing_separator;
  records.free_text = format.free_text;
  parsed.refused =
      read_records(text, records, [&](int, Record record) -> std::optional<std::string> {
        model::Attempt attempt;
        auto reason = read_job(record, places, cluster, attempt);
        if (!reason) parsed.value.push_back(std::move(attempt));
        return reason;
      });
  return parsed;
}

}  // namespace vetta::slurm
