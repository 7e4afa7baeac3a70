// SPDX-License-Identifier: Apache-2.0
// Tables for terminals and for scripts: one row a thing, no blank within a cell, a dash for what is
// not known, columns that can be chosen. On a terminal long texts shrink and the last columns go
// first when there is no room; into a pipe everything is written whole.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "core/result.h"

namespace vetta::cli {

struct Column {
  std::string name;           ///< the field's own name; shown in capitals
  bool is_right = false;      ///< numbers
  std::size_t width_min = 0;  ///< may shrink down to it; 0: never shrinks
  bool is_default = true;     ///< shown without -o
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Cells in the order of the columns; blanks become underscores, an empty one a dash.
  void add(std::vector<std::string> cells);
  /// Colours whole rows; called with the row's number.
  void paint_with(std::function<std::string(std::size_t, std::string_view)> paint);

  /// `wanted` are column names, in that order; empty: the default ones. Code::invalid names the
  /// columns there are.
  [[nodiscard]] Result<std::string> text(const std::vector<std::string>& wanted,
                                         const Terminal& terminal, bool has_header) const;

  [[nodiscard]] std::size_t rows() const { return rows_.size(); }

 private:
  [[nodiscard]] Result<std::vector<std::size_t>> choose(
      const std::vector<std::string>& wanted) const;
  [[nodiscard]] std::vector<std::size_t> widths(std::vector<std::size_t>& chosen, bool may_drop,
                                                const Terminal& terminal, bool has_header) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::function<std::string(std::size_t, std::string_view)> paint_;
};

}  // namespace vetta::cli
