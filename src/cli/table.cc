// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <algorithm>
#include <numeric>

#include "core/text.h"

namespace vetta::cli {
namespace {

constexpr std::size_t gap = 2;

std::string cell(std::string text) {
  text = one_line(text, 400);
  for (char& c : text)
    if (c == ' ') c = '_';
  return text.empty() ? "-" : text;
}

std::string capitals(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

std::size_t total(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), std::size_t{0}) +
         gap * (widths.empty() ? 0 : widths.size() - 1);
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  VETTA_ASSERT(cells.size() == columns_.size(), "a row has a cell for every column");
  for (std::string& text : cells) text = cell(std::move(text));
  rows_.push_back(std::move(cells));
}

void Table::paint_with(std::function<std::string(std::size_t, std::string_view)> paint) {
  paint_ = std::move(paint);
}

Result<std::vector<std::size_t>> Table::choose(const std::vector<std::string>& wanted) const {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; wanted.empty() && i < columns_.size(); ++i)
    if (columns_[i].is_default) chosen.push_back(i);
  for (const std::string& name : wanted) {
    const auto found = std::ranges::find(columns_, name, &Column::name);
    if (found == columns_.end()) {
      std::string all;
      for (const Column& column : columns_) all += (all.empty() ? "" : ",") + column.name;
      return fail(Code::invalid, "there is no column '" + one_line(name, 40) + "'",
                  "columns are " + all);
    }
    chosen.push_back(static_cast<std::size_t>(found - columns_.begin()));
  }
  return chosen;
}

std::vector<std::size_t> Table::widths(std::vector<std::size_t>& chosen, bool may_drop,
                                       const Terminal& terminal, bool has_header) const {
  std::vector<std::size_t> widths;
  for (const std::size_t i : chosen) {
    std::size_t most = has_header ? columns_[i].name.size() : 0;
    for (const auto& row : rows_) most = std::max(most, width(row[i]));
    widths.push_back(most);
  }
  if (terminal.columns == 0) return widths;
  while (total(widths) > terminal.columns) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::size_t least = columns_[chosen[i]].width_min;
      if (least > 0 && widths[i] > least && (widest == widths.size() || widths[i] > widths[widest]))
        widest = i;
    }
    if (widest < widths.size()) {
      --widths[widest];
    } else if (may_drop && widths.size() > 1) {
      widths.pop_back();
      chosen.pop_back();
    } else {
      break;
    }
  }
  return widths;
}

Result<std::string> Table::text(const std::vector<std::string>& wanted, const Terminal& terminal,
                                bool has_header) const {
  auto chosen = VETTA_TRY(choose(wanted));
  const auto widths = this->widths(chosen, wanted.empty(), terminal, has_header);
  const auto line = [&](const auto& cell_of) {
    std::string out;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const std::string text = cell_of(chosen[i]);
      const bool is_last = i + 1 == chosen.size();
      if (columns_[chosen[i]].is_right)
        out += pad_left(text, widths[i]);
      else
        out += is_last && width(text) <= widths[i] ? text : pad(text, widths[i]);
      if (!is_last) out.append(gap, ' ');
    }
    return out;
  };
  std::string out;
  if (has_header)
    out += terminal.dim(line([&](std::size_t i) { return capitals(columns_[i].name); })) + "\n";
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const std::string text = line([&](std::size_t i) { return rows_[row][i]; });
    out += (paint_ ? paint_(row, text) : text) + "\n";
  }
  return out;
}

}  // namespace vetta::cli
