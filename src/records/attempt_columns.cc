// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <fmt/format.h>

#include "core/text.h"
#include "records/attempt_columns_detail.h"

namespace vetta::records {
namespace {

/// Members of an attempt that are not columns as they are.
struct Flat {
  std::string state;
  std::optional<std::uint64_t> array_job_id, het_job_id;
  std::optional<std::uint32_t> array_task_id, het_offset;
  std::string array_tasks;
  std::string suspended;  ///< "start-end start-", in nanoseconds
  bool is_final = false;
};

std::string print_spans(const std::vector<model::Span>& spans) {
  std::string out;
  for (const auto& span : spans) {
    out += fmt::format("{}{}-", out.empty() ? "" : " ", epoch_nanoseconds(span.start));
    if (span.end) out += fmt::format("{}", epoch_nanoseconds(*span.end));
  }
  return out;
}

std::vector<model::Span> parse_spans(std::string_view text) {
  std::vector<model::Span> out;
  if (text.empty()) return out;
  for (const auto part : split(text, " ")) {
    const auto edges = split(part, "-");
    if (edges.size() != 2) continue;
    const auto start = parse_int(edges[0]);
    const auto end = parse_int(edges[1]);
    if (!start) continue;
    model::Span span{from_epoch_nanoseconds(*start), {}};
    if (end) span.end = from_epoch_nanoseconds(*end);
    out.push_back(span);
  }
  return out;
}

Flat flatten(const model::Attempt& a) {
  Flat f;
  f.state = std::string(model::name(a.state));
  f.is_final = model::is_final(a.state);
  if (a.array) {
    f.array_job_id = a.array->job_id;
    f.array_task_id = a.array->task_id;
    f.array_tasks = a.array->tasks;
  }
  if (a.het) {
    f.het_job_id = a.het->job_id;
    f.het_offset = a.het->offset;
  }
  f.suspended = print_spans(a.suspended);
  return f;
}

void unflatten(const Flat& f, model::Attempt& a) {
  a.state = model::parse_job_state(f.state);
  a.array.reset();
  a.het.reset();
  if (f.array_job_id) a.array = model::Array{*f.array_job_id, f.array_task_id, f.array_tasks};
  if (f.het_job_id) a.het = model::Het{*f.het_job_id, f.het_offset.value_or(0)};
  a.suspended = parse_spans(f.suspended);
}

/// Calls visit(name, value) for what a view says.
void visit_attempt(auto& a, auto& f, auto&& visit) {
  visit("cluster", a.key.cluster);
  visit("job_id", a.key.job_id);
  visit("submit", a.key.submit);
  visit("array_job_id", f.array_job_id);
  visit("array_task_id", f.array_task_id);
  visit("array_tasks", f.array_tasks);
  visit("het_job_id", f.het_job_id);
  visit("het_offset", f.het_offset);
  visit("restart", a.restart);
  visit("sluid", a.sluid);
  visit("state", f.state);
  visit("is_final", f.is_final);
  visit("state_text", a.state_text);
  visit("reason", a.reason);
  visit("user", a.user);
  visit("account", a.account);
  visit("partition", a.partition);
  visit("qos", a.qos);
  visit("name", a.name);
  visit("uid", a.uid);
  visit("experiment", a.experiment);
  visit("eligible", a.eligible);
  visit("start", a.start);
  visit("end", a.end);
  visit("expected_start", a.expected_start);
  visit("suspended", f.suspended);
  visit("suspended_total", a.suspended_total);
  visit("time_limit", a.time_limit);
  visit("nodes", a.nodes);
  visit("node_count", a.node_count);
  visit("cpus", a.cpus);
  visit("tasks", a.tasks);
  visit("memory_bytes", a.memory_bytes);
  visit("gpus", a.gpus);
  visit("tres", a.tres);
  visit("exit_code", a.exit_code);
  visit("exit_signal", a.exit_signal);
  visit("derived_exit_code", a.derived_exit_code);
  visit("derived_exit_signal", a.derived_exit_signal);
  visit("work_dir", a.work_dir);
  visit("command", a.command);
  visit("std_out", a.std_out);
  visit("std_err", a.std_err);
  visit("comment", a.comment);
  visit("dependency", a.dependency);
  visit("priority", a.priority);
  visit("preempted_by", a.preempted_by);
}

/// Calls visit(name, value) for what records keep beside it; enums as numbers.
void visit_kept(auto& sources, auto& told, auto& kept, auto&& visit) {
  visit("source", sources.first);
  visit("as_of", told.as_of);
  visit("described_by", sources.second);
  visit("described_at", told.described_at);
  visit("number", kept.number);
  visit("is_superseded", kept.is_superseded);
  visit("is_sealed", kept.is_sealed);
  visit("gap", kept.gap);
  visit("controller_hash", kept.controller_hash);
  visit("accounting_hash", kept.accounting_hash);
}

using Sources = std::pair<std::uint32_t, std::uint32_t>;

void visit_all(const Told& told, const Kept& kept, auto&& visit) {
  const Flat flat = flatten(told.attempt);
  const Sources sources{static_cast<std::uint32_t>(told.source),
                        static_cast<std::uint32_t>(told.described_by)};
  visit_attempt(told.attempt, flat, visit);
  visit_kept(sources, told, kept, visit);
}

/// FNV-1a over words, then bytes: good enough to tell a changed view from the same one.
class Hasher {
 public:
  void operator()(std::string_view, const auto& value) { add(value); }

  [[nodiscard]] std::int64_t get() const {
    const auto out = static_cast<std::int64_t>(state_);
    return out == 0 ? 1 : out;
  }

 private:
  void word(std::uint64_t value) {
    state_ = (state_ ^ value) * 0x9E3779B97F4A7C15ULL;
    state_ ^= state_ >> 29U;
  }

  void add(const std::string& text) {
    word(text.size());
    std::size_t at = 0;
    for (; at + 8 <= text.size(); at += 8) {
      std::uint64_t value = 0;
      std::memcpy(&value, text.data() + at, 8);
      word(value);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, text.data() + at, text.size() - at);
    word(rest);
  }

  void add(Time value) { word(static_cast<std::uint64_t>(epoch_nanoseconds(value))); }

  void add(Duration value) { word(static_cast<std::uint64_t>(value.count())); }

  void add(std::integral auto value) { word(static_cast<std::uint64_t>(value)); }

  template <typename T>
  void add(const std::optional<T>& value) {
    word(value ? 1 : 2);
    if (value) add(*value);
  }

  std::uint64_t state_ = 0xCBF29CE484222325ULL;
};

std::vector<std::int64_t> column_hashes(const Told& told, const Kept& kept) {
  std::vector<std::int64_t> out;
  out.reserve(64);
  visit_all(told, kept, [&](std::string_view name, const auto& value) {
    Hasher hasher;
    hasher(name, value);
    out.push_back(hasher.get());
  });
  return out;
}

}  // namespace

const std::string& attempt_column_names() {
  static const std::string names = [] {
    std::string out;
    visit_all({}, {}, [&](std::string_view name, const auto&) {
      out += fmt::format("{}\"{}\"", out.empty() ? "" : ",", name);
    });
    return out;
  }();
  return names;
}

const std::string& attempt_parameters() {
  static const std::string parameters = [] {
    std::string out;
    visit_all({}, {}, [&](std::string_view, const auto&) { out += out.empty() ? "?" : ",?"; });
    return out;
  }();
  return parameters;
}

void bind_attempt(Statement& statement, const Told& told, const Kept& kept) {
  visit_all(told, kept, [&](std::string_view, const auto& value) { statement.bind(value); });
}

std::vector<bool> changed_columns(const Told& a, const Kept& kept_a, const Told& b,
                                  const Kept& kept_b) {
  const auto a_hashes = column_hashes(a, kept_a);
  const auto b_hashes = column_hashes(b, kept_b);
  std::vector<bool> out(a_hashes.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = a_hashes[i] != b_hashes[i];
  return out;
}

std::string assignments(const std::vector<bool>& chosen) {
  std::string out;
  std::size_t column = 0;
  visit_all({}, {}, [&](std::string_view name, const auto&) {
    if (!chosen[column++]) return;
    out += fmt::format("{}\"{}\"=?", out.empty() ? "" : ",", name);
  });
  return out;
}

void bind_chosen(Statement& statement, const Told& told, const Kept& kept,
                 const std::vector<bool>& chosen) {
  std::size_t column = 0;
  visit_all(told, kept, [&](std::string_view, const auto& value) {
    if (chosen[column++]) statement.bind(value);
  });
}

void read_attempt(Statement& statement, Told& told, Kept& kept) {
  Flat flat;
  Sources sources;
  const auto read = [&](std::string_view, auto& value) { statement.read(value); };
  visit_attempt(told.attempt, flat, read);
  unflatten(flat, told.attempt);
  visit_kept(sources, told, kept, read);
  told.source = static_cast<ViewSource>(sources.first);
  told.described_by = static_cast<ViewSource>(sources.second);
}

AttemptRow read_attempt_row(Statement& statement) {
  AttemptRow row;
  Told told;
  Kept kept;
  row.id = statement.integer();
  read_attempt(statement, told, kept);
  row.attempt = std::move(told.attempt);
  row.source = told.source;
  row.as_of = told.as_of;
  row.number = kept.number;
  row.is_superseded = kept.is_superseded;
  row.is_sealed = kept.is_sealed;
  row.gap = std::move(kept.gap);
  return row;
}

std::int64_t hash_of(const model::Attempt& attempt) {
  const Flat flat = flatten(attempt);
  Hasher hasher;
  visit_attempt(attempt, flat, hasher);
  return hasher.get();
}

}  // namespace vetta::records
