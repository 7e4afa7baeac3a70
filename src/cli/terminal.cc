// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/text.h"

namespace vetta::cli {
namespace {}  // namespace

Terminal Terminal::detect() {
  Terminal terminal;
  terminal.is_terminal = isatty(STDOUT_FILENO) == 1;
  if (!terminal.is_terminal) return terminal;
  terminal.has_color =
      environment_variable("NO_COLOR").empty() && environment_variable("TERM") != "dumb";
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    terminal.columns = size.ws_col;
  else if (const auto columns = parse_uint(environment_variable("COLUMNS"));
           columns && *columns > 0)
    terminal.columns = *columns;
  else
    terminal.columns = 80;
  return terminal;
}

std::size_t Terminal::screen_width() const {
  return columns == 0 ? 100 : std::clamp<std::size_t>(columns, 40, 110);
}

std::string Terminal::paint(std::string_view code, std::string_view text) const {
  if (!has_color || text.empty()) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string bar(double full, double rest, std::size_t cells) {
  constexpr std::array<std::string_view, 8> eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clean_full = std::isfinite(full) ? std::clamp(full, 0.0, 1.0) : 0;
  const double clean_rest = std::isfinite(rest) ? std::clamp(rest, 0.0, 1.0 - clean_full) : 0;
  const auto parts =
      static_cast<std::size_t>(std::lround(clean_full * 8 * static_cast<double>(cells)));
  const auto end =
      static_cast<std::size_t>(std::lround((clean_full + clean_rest) * static_cast<double>(cells)));
  std::string out;
  std::size_t used = parts / 8;
  for (std::size_t i = 0; i < used; ++i) out += "█";
  if (parts % 8 != 0) {
    out += eighths.at(parts % 8);
    ++used;
  }
  for (; used < end; ++used) out += "░";
  for (; used < cells; ++used) out += " ";
  return out;
}

std::string cut(std::string_view text, std::size_t columns) {
  if (width(text) <= columns) return std::string(text);
  return columns == 0 ? "" : one_line(text, columns - 1);
}

std::string pad(std::string_view text, std::size_t columns) {
  std::string out = cut(text, columns);
  const std::size_t have = width(out);
  if (have < columns) out.append(columns - have, ' ');
  return out;
}

std::string pad_left(std::string_view text, std::size_t columns) {
  std::string out = cut(text, columns);
  const std::size_t have = width(out);
  if (have < columns) out.insert(0, columns - have, ' ');
  return out;
}

std::string wrap(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  std::size_t at = 0;
  for (const std::string_view word : split(text, " ")) {
    const std::size_t size = width(word);
    if (at > 0 && at + 1 + size > columns) {
      out += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (at > 0) {
      out += ' ';
      ++at;
    }
    out += word;
    at += size;
  }
  return out;
}

}  // namespace vetta::cli
