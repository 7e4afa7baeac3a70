// SPDX-License-Identifier: Apache-2.0
// The tree of commands, and what is made from it: help, completion, the manual page and the
// reference.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "core/result.h"

namespace vetta::cli {

[[nodiscard]] std::unique_ptr<CLI::App> make_tree(Plan& plan);

/// A command as the generators see it; plain data.
struct CommandText {
  struct Option {
    std::string names;  ///< "-p,--partition NAME"
    std::string about;
    std::vector<std::string> words;  ///< "-p", "--partition"
    bool takes_value = false;
  };

  std::vector<std::string> path;  ///< "vetta", "job", "list"
  std::string about, usage, examples;
  std::vector<Option> options, positionals;
  std::vector<std::string> children;
};

/// The whole tree, parents before children.
[[nodiscard]] std::vector<CommandText> describe(const CLI::App& root);
[[nodiscard]] std::string markdown(const std::vector<CommandText>& commands);
[[nodiscard]] std::string man_page(const std::vector<CommandText>& commands);
/// "bash", "zsh" or "fish".
[[nodiscard]] Result<std::string> completion(const std::vector<CommandText>& commands,
                                             std::string_view shell);

}  // namespace vetta::cli
