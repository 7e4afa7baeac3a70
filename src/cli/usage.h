// SPDX-License-Identifier: Apache-2.0
// What to say when the command line cannot be understood: what was wrong, what was probably meant,
// and a line that works.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace vetta::cli {

/// `root` is the tree that threw `error` while it parsed.
[[nodiscard]] Error explain_usage(const CLI::ParseError& error, const CLI::App& root);

/// The one of `words` that `word` was probably meant to be: one or two letters wrong, or its
/// beginning. Empty: none is near.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace vetta::cli
