// SPDX-License-Identifier: Apache-2.0
#include "cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/command.h"
#include "cli/tree.h"
#include "cli/usage.h"
#include "core/error_table.h"

namespace vetta::cli {
namespace {

/// `vetta probe exec [OPTIONS] [--] CMD…`: what is CMD's never meets our parser.
std::vector<std::string> split_exec(std::vector<std::string>& words) {
  if (words.size() < 2 || words[0] != "probe" || words[1] != "exec") return {};
  auto begin = std::find_if(words.begin() + 2, words.end(), [](const std::string& word) {
    return word == "--" || !word.starts_with('-');
  });
  const auto command = begin != words.end() && *begin == "--" ? begin + 1 : begin;
  std::vector<std::string> rest(command, words.end());
  words.erase(begin, words.end());
  return rest;
}

const CLI::App& deepest(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : deepest(*chosen.front());
}

}  // namespace

int run(std::vector<std::string> words) {
  Plan plan;
  plan.rest = split_exec(words);
  const bool as_json = std::ranges::find(words, "--json") != words.end();
  const auto root = make_tree(plan);
  const bool is_bare = words.empty();
  std::ranges::reverse(words);  // CLI11 takes them from the end
  try {
    root->parse(words);
  } catch (const CLI::CallForHelp&) {
    print(deepest(*root).help());
    return exit_fine;
  } catch (const CLI::CallForVersion&) {
    print(root->version() + "\n");
    return exit_fine;
  } catch (const CLI::ParseError& error) {
    return end_with(explain_usage(error, *root), as_json);
  }
  if (plan.run) return plan.run();
  print(deepest(*root).help());
  return is_bare ? exit_fine : exit_usage;
}

}  // namespace vetta::cli
