// SPDX-License-Identifier: Apache-2.0
// Where the output goes: width, colour, and the small signs that screens are made of.
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace vetta::cli {

struct Terminal {
  bool is_terminal = false;  ///< stdout is one
  bool has_color = false;
  std::size_t columns = 0;  ///< 0: no bound (a pipe or a file)

  /// Looks at stdout, NO_COLOR, TERM and COLUMNS.
  [[nodiscard]] static Terminal detect();

  [[nodiscard]] std::string bold(std::string_view text) const { return paint("1", text); }

  [[nodiscard]] std::string dim(std::string_view text) const { return paint("2", text); }

  [[nodiscard]] std::string red(std::string_view text) const { return paint("31;1", text); }

  [[nodiscard]] std::string yellow(std::string_view text) const { return paint("33", text); }

  [[nodiscard]] std::string green(std::string_view text) const { return paint("32", text); }

  [[nodiscard]] std::string cyan(std::string_view text) const { return paint("36", text); }

  /// A width to lay screens out for: that of the terminal, at most 110; 100 without one.
  [[nodiscard]] std::size_t screen_width() const;

 private:
  [[nodiscard]] std::string paint(std::string_view code, std::string_view text) const;
};

/// A horizontal bar of `cells` columns with eighths: `full` of it solid, then `rest` of it light.
[[nodiscard]] std::string bar(double full, double rest, std::size_t cells);
/// At most so many columns, the cut marked by an ellipsis within them.
[[nodiscard]] std::string cut(std::string_view text, std::size_t columns);
/// Filled with blanks up to `columns`; longer text is cut with an ellipsis.
[[nodiscard]] std::string pad(std::string_view text, std::size_t columns);
[[nodiscard]] std::string pad_left(std::string_view text, std::size_t columns);
/// Breaks at blanks so that no line is longer than `columns`; every line after the first begins
/// with `indent` blanks.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t columns, std::size_t indent);

}  // namespace vetta::cli
