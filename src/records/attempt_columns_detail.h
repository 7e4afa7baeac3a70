// SPDX-License-Identifier: Apache-2.0
// The one list of an attempt's columns: their names, how they are bound and read.
#pragma once

#include <string>
#include <vector>

#include "records/database_detail.h"
#include "records/merge.h"
#include "records/types.h"

namespace vetta::records {

/// Names of all columns after `id`, comma separated, in the order of bind and read.
[[nodiscard]] const std::string& attempt_column_names();
/// "?,?,…" for them.
[[nodiscard]] const std::string& attempt_parameters();

/// Columns that records keep beside what is told.
struct Kept {
  std::uint32_t number = 1;
  bool is_superseded = false;
  bool is_sealed = false;
  std::string gap;
  std::int64_t controller_hash = 0, accounting_hash = 0;  ///< of the last view of each source
};

void bind_attempt(Statement& statement, const Told& told, const Kept& kept);
/// Which columns differ, in the order of the list.
[[nodiscard]] std::vector<bool> changed_columns(const Told& a, const Kept& kept_a, const Told& b,
                                                const Kept& kept_b);
/// "a=?,b=?" for the chosen columns, and their values in that order.
[[nodiscard]] std::string assignments(const std::vector<bool>& chosen);
void bind_chosen(Statement& statement, const Told& told, const Kept& kept,
                 const std::vector<bool>& chosen);
void read_attempt(Statement& statement, Told& told, Kept& kept);
/// Reads `id` and all columns.
[[nodiscard]] AttemptRow read_attempt_row(Statement& statement);

/// Over everything that a view says; equal for equal views in every process. Never 0.
[[nodiscard]] std::int64_t hash_of(const model::Attempt& attempt);

}  // namespace vetta::records
