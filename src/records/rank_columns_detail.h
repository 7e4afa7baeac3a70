// SPDX-License-Identifier: Apache-2.0
// The one list of a rank's columns: those of its registration, and where it is now.
#pragma once

#include <string>

#include "records/database_detail.h"
#include "records/types.h"

namespace vetta::records {

/// Calls visit(name, value) for every column; enums and flags through `source`.
void visit_rank(auto& row, auto& source, auto&& visit) {
  auto& r = row.rank;
  visit("rank_id", r.rank_id);
  visit("attempt", row.attempt);
  visit("incarnation", r.incarnation);
  visit("job_id", r.job_id);
  visit("step_id", r.step_id);
  visit("slurm_restart", r.slurm_restart);
  visit("elastic_restart", r.elastic_restart);
  visit("rank", r.rank);
  visit("local_rank", r.local_rank);
  visit("world_size", r.world_size);
  visit("task", r.task);
  visit("node", r.node);
  visit("uid", r.uid);
  visit("pid", r.pid);
  visit("devices", r.devices);
  visit("source", source);
  visit("is_probed", r.is_probed);
  visit("start", r.start);
  visit("end", r.end);
  visit("exit_code", r.exit_code);
  visit("exit_signal", r.exit_signal);
  visit("overwritten", row.overwritten);
}

[[nodiscard]] inline const std::string& rank_column_names() {
  static const std::string names = [] {
    std::string out;
    RankRow row;
    std::uint32_t source = 0;
    visit_rank(row, source, [&](std::string_view name, const auto&) {
      if (!out.empty()) out += ',';
      out += '"';
      out += name;
      out += '"';
    });
    return out;
  }();
  return names;
}

/// What read_rank() reads.
[[nodiscard]] inline const std::string& rank_select_names() {
  static const std::string names = rank_column_names() + ",now_step,now_phase,now_since,now_after";
  return names;
}

[[nodiscard]] inline std::optional<model::RankNow> read_now(Statement& statement) {
  model::RankNow now;
  std::optional<std::uint32_t> phase;
  std::optional<Time> since;
  statement.read(now.step);
  statement.read(phase);
  statement.read(since);
  statement.read(now.after);
  if (!since) return std::nullopt;
  now.since = *since;
  if (phase && *phase < model::phase_count) now.phase = static_cast<model::Phase>(*phase);
  return now;
}

[[nodiscard]] inline RankRow read_rank(Statement& statement) {
  RankRow row;
  std::uint32_t source = 0;
  visit_rank(row, source, [&](std::string_view, auto& value) { statement.read(value); });
  row.rank.source = static_cast<model::RankSource>(source);
  row.now = read_now(statement);
  return row;
}

}  // namespace vetta::records
