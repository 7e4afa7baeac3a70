// SPDX-License-Identifier: Apache-2.0
// Filters as SQL conditions with bound values; values never become part of the text.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "records/database_detail.h"
#include "records/types.h"

namespace vetta::records {

using Value = std::variant<std::int64_t, std::string>;

/// Code::invalid if the filter is longer than one question to SQLite may be.
[[nodiscard]] Result<void> check(const JobFilter& filter);

class Conditions {
 public:
  Conditions(const JobFilter& filter, const std::optional<JobCursor>& after);

  /// The rows of a page, newest first; the limit is bound last.
  [[nodiscard]] std::string ids() const;
  /// The same as whole rows, so that sorting and skipping never read those.
  [[nodiscard]] std::string page() const;
  /// Rows of each state; how many are counted at most is bound last.
  [[nodiscard]] std::string counts() const;
  void bind(Statement& statement) const;

 private:
  /// "WHERE …", or nothing.
  [[nodiscard]] std::string where() const;
  void add(std::string condition);
  void add(std::string condition, Value value);
  void add_any(std::string_view column, const std::vector<std::string>& values);

  std::vector<std::string> conditions_;
  std::vector<Value> values_;
};

class EventConditions {
 public:
  explicit EventConditions(const EventFilter& filter);

  [[nodiscard]] const std::string& sql() const { return sql_; }

  void bind(Statement& statement) const;

 private:
  std::string sql_;
  std::vector<Value> values_;
};

}  // namespace vetta::records
