// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "records/attempt_columns_detail.h"
#include "records/event_columns_detail.h"
#include "records/filter_detail.h"

namespace vetta::records {
namespace {

constexpr std::size_t events_max = 10'000;

void bind_values(Statement& statement, const std::vector<Value>& values) {
  for (const auto& value : values) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      statement.bind(*number);
    } else {
      statement.bind(std::string_view(std::get<std::string>(value)));
    }
  }
}

std::string marks(std::size_t count) {
  std::string out = "?";
  for (std::size_t i = 1; i < count; ++i) out += ",?";
  return out;
}

}  // namespace

Result<void> check(const JobFilter& filter) {
  const auto is_long = [](const auto& values) { return values.size() > filter_values_max; };
  if (is_long(filter.users) || is_long(filter.accounts) || is_long(filter.partitions) ||
      is_long(filter.states)) {
    return fail(Code::invalid,
                fmt::format("a filter has more than {} values of one kind", filter_values_max),
                "ask in several requests");
  }
  return {};
}

void Conditions::add(std::string condition) {
  conditions_.push_back(std::move(condition));
}

void Conditions::add(std::string condition, Value value) {
  conditions_.push_back(std::move(condition));
  values_.push_back(std::move(value));
}

void Conditions::add_any(std::string_view column, const std::vector<std::string>& values) {
  if (values.empty()) return;
  add(fmt::format("{} IN ({})", column, marks(values.size())));
  for (const auto& value : values) values_.emplace_back(value);
}

Conditions::Conditions(const JobFilter& filter, const std::optional<JobCursor>& after) {
  // A '+' keeps a column that holds few values from choosing the index: what it would find is half
  // of all rows, out of order. With states, attempts_state finds few.
  const bool by_state = !filter.states.empty() && filter.users.empty() && !filter.uid;
  if (!filter.all_attempts) add(by_state ? "is_superseded=0" : "+is_superseded=0");
  if (filter.active_only) add("is_final=0");
  if (!filter.cluster.empty()) add("+cluster=?", filter.cluster);
  if (filter.uid) add("uid=?", std::int64_t{*filter.uid});
  add_any("user", filter.users);
  add_any("account", filter.accounts);
  std::vector<std::string> states;
  for (const auto state : filter.states) states.emplace_back(model::name(state));
  add_any("state", states);
  if (!filter.partitions.empty()) {
    // A pending job may name several: "cpu,gpu".
    std::string any;
    for (const auto& partition : filter.partitions) {
      any += any.empty() ? "" : " OR ";
      any += R"(instr(','||"partition"||',',','||?||',')>0)";
      values_.emplace_back(partition);
    }
    add("(" + any + ")");
  }
  if (!filter.name_contains.empty()) add("instr(lower(name),lower(?))>0", filter.name_contains);
  if (filter.array_job_id) add("array_job_id=?", static_cast<std::int64_t>(*filter.array_job_id));
  if (filter.het_job_id) add("het_job_id=?", static_cast<std::int64_t>(*filter.het_job_id));
  if (!filter.node.empty())
    add("id IN (SELECT attempt FROM allocations WHERE node=?)", filter.node);
  if (filter.from) {
    add("(\"end\" IS NULL OR \"end\">=?)", epoch_nanoseconds(*filter.from));
  }
  if (filter.to) add("submit<?", epoch_nanoseconds(*filter.to));
  if (after) {
    add("(submit,id)<(?,?)", epoch_nanoseconds(after->submit));
    values_.emplace_back(after->id);
  }
}

std::string Conditions::where() const {
  return conditions_.empty() ? "" : fmt::format("WHERE {}", fmt::join(conditions_, " AND "));
}

std::string Conditions::ids() const {
  return fmt::format("SELECT id FROM attempts {} ORDER BY submit DESC, id DESC LIMIT ?", where());
}

std::string Conditions::page() const {
  return fmt::format("SELECT id,{} FROM attempts WHERE id IN ({}) ORDER BY submit DESC, id DESC",
                     attempt_column_names(), ids());
}

std::string Conditions::counts() const {
  return fmt::format(
      "SELECT state, count(*) FROM (SELECT state FROM attempts {} LIMIT ?) "
      "GROUP BY state ORDER BY state",
      where());
}

void Conditions::bind(Statement& statement) const {
  bind_values(statement, values_);
}

EventConditions::EventConditions(const EventFilter& filter) {
  std::vector<std::string> conditions{"e.id>?"};
  values_.emplace_back(static_cast<std::int64_t>(filter.after_id));
  const auto add = [&](std::string condition, Value value) {
    conditions.push_back(std::move(condition));
    values_.push_back(std::move(value));
  };
  if (filter.attempt) add("e.attempt=?", *filter.attempt);
  if (filter.uid)
    add("(a.uid=? OR (e.attempt IS NULL AND e.rank_id=0))", std::int64_t{*filter.uid});
  if (!filter.cluster.empty()) add("e.cluster=?", filter.cluster);
  if (!filter.node.empty()) add("e.node=?", filter.node);
  if (filter.nodes_of)
    add("(e.node='' OR e.node IN (SELECT node FROM allocations WHERE attempt=?))",
        *filter.nodes_of);
  if (!filter.kinds.empty()) {
    conditions.push_back(fmt::format("e.kind IN ({})", marks(filter.kinds.size())));
    for (const auto kind : filter.kinds) values_.emplace_back(std::string(model::name(kind)));
  }
  if (filter.from) add("e.time>=?", epoch_nanoseconds(*filter.from));
  if (filter.to) add("e.time<?", epoch_nanoseconds(*filter.to));
  sql_ = fmt::format(
      "SELECT {} FROM events e LEFT JOIN attempts a ON a.id=e.attempt WHERE {} ORDER BY e.id {} "
      "LIMIT ?",
      event_select_columns(), fmt::join(conditions, " AND "), filter.newest_first ? "DESC" : "ASC");
  values_.emplace_back(static_cast<std::int64_t>(std::min(filter.limit, events_max)));
}

void EventConditions::bind(Statement& statement) const {
  bind_values(statement, values_);
}

}  // namespace vetta::records
