// SPDX-License-Identifier: Apache-2.0
// How an event's row is read: events e joined with attempts a.
#pragma once

#include <string_view>

#include "records/database_detail.h"
#include "records/types.h"

namespace vetta::records {

[[nodiscard]] constexpr std::string_view event_select_columns() {
  return "e.id,e.time,e.kind,e.node,e.rank,e.rank_id,e.exit_code,e.exit_signal,e.message,e.detail,"
         "e.source,e.dedup,a.cluster,a.job_id,a.submit";
}

[[nodiscard]] inline model::Event read_event(Statement& statement) {
  model::Event e;
  statement.read(e.id);
  statement.read(e.time);
  e.kind = model::parse_event_kind(statement.text()).value_or(model::EventKind::gap);
  statement.read(e.node);
  statement.read(e.rank);
  statement.read(e.rank_id);
  statement.read(e.exit_code);
  statement.read(e.exit_signal);
  statement.read(e.message);
  statement.read(e.detail);
  statement.read(e.source);
  statement.read(e.dedup);
  if (statement.is_null()) return e;
  auto& key = e.attempt.emplace();
  statement.read(key.cluster);
  statement.read(key.job_id);
  statement.read(key.submit);
  return e;
}

}  // namespace vetta::records
