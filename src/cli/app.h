// SPDX-License-Identifier: Apache-2.0
// The program `vetta`: parses its command line, runs one command, gives the exit code.
#pragma once

#include <string>
#include <vector>

namespace vetta::cli {

/// `words` without the program's name.
[[nodiscard]] int run(std::vector<std::string> words);

}  // namespace vetta::cli
