// SPDX-License-Identifier: Apache-2.0
#include "core/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

#include "core/text.h"

namespace vetta {

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, units.at(unit));
}

Result<std::uint64_t> parse_bytes(std::string_view text, std::uint64_t bare_unit) {
  const auto refuse = [&] {
    return fail(Code::invalid, fmt::format("'{}' is not a size", one_line(text, 40)),
                "write it as 512M or 1.5G");
  };
  double value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || value < 0 || !std::isfinite(value)) return refuse();
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  auto factor = static_cast<double>(bare_unit);
  if (!unit.empty()) {
    constexpr std::string_view letters = "KMGTPE";
    const std::size_t power =
        letters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
    const std::string_view rest = unit.substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "iB")) {
      if (unit != "B") return refuse();
      factor = 1;
    } else {
      factor = std::pow(1024.0, static_cast<double>(power + 1));
    }
  }
  const double bytes = value * factor;
  if (bytes >= 18446744073709551615.0) return refuse();
  return static_cast<std::uint64_t>(std::llround(std::min(bytes, 9.2e18)));
}

}  // namespace vetta
