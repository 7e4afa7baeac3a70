// SPDX-License-Identifier: Apache-2.0
// How commands register themselves on the tree. One file pair or one .cc a noun; each command has a
// struct of arguments and a function that gives the exit code.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cli/session.h"

namespace CLI {
class App;
}

namespace vetta::cli {

/// What the command line has chosen to do.
struct Plan {
  std::function<int()> run;
  bool is_json = false;           ///< how errors are told
  std::vector<std::string> rest;  ///< what stands behind `probe exec --`
};

enum class Output { value, table };

/// --server, --token-file, --timeout, --json, and for tables -o and --no-header.
void add_common(CLI::App& command, Common& common, Output output);
/// Two or more lines, "command   what it does".
void add_examples(CLI::App& command, std::string_view examples);

void add_job_commands(CLI::App& root, Plan& plan);
void add_node_commands(CLI::App& root, Plan& plan);
void add_cluster_commands(CLI::App& root, Plan& plan);
void add_judgement_commands(CLI::App& root, Plan& plan);
void add_probe_commands(CLI::App& root, Plan& plan);
void add_config_commands(CLI::App& root, Plan& plan);
void add_help_commands(CLI::App& root, Plan& plan);

/// Registers `function(arguments)` as what the command does.
template <typename Arguments>
std::function<void()> choose(Plan& plan, std::shared_ptr<Arguments> arguments,
                             int (*function)(const Arguments&)) {
  return [&plan, arguments = std::move(arguments), function] {
    plan.is_json = arguments->common.json;
    plan.run = [arguments, function] { return function(*arguments); };
  };
}

}  // namespace vetta::cli
