// SPDX-License-Identifier: Apache-2.0
// What main.cc's kinds do: a text through one of the product's parsers, as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vetta::conformance {

/// Empty if there is no such kind. `args` are the words behind the file's name.
[[nodiscard]] std::string read(const std::string& kind, std::string_view text,
                               const std::vector<std::string>& args);

}  // namespace vetta::conformance
