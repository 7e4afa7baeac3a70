// SPDX-License-Identifier: Apache-2.0
#include "cli/tree.h"

#include <CLI/CLI.hpp>

#include "cli/terminal.h"
#include "core/text.h"

#ifndef VETTA_VERSION
#define VETTA_VERSION "0.1.0"
#endif

namespace vetta::cli {
namespace {

constexpr std::size_t option_column = 30;

std::string option_names(const CLI::Option& option) {
  std::string names = option.get_name(false, true);
  if (!option.get_positional() && option.get_type_size() != 0 && !option.get_type_name().empty())
    names += " " + option.get_type_name();
  return names;
}

std::string row(const std::string& left, const std::string& right) {
  std::string out = "  " + left;
  if (width(left) + 2 >= option_column)
    out += "\n" + std::string(option_column, ' ');
  else
    out += std::string(option_column - 2 - width(left), ' ');
  return out + wrap(right, 92 - option_column, option_column).substr(0) + "\n";
}

/// Help in the order in which people read: what it is, how it is called, examples, options.
class Formatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    Plan unused;
    const CommandText text = describe_one(*app);
    std::string out = text.about + "\n\nUsage: " + text.usage + "\n";
    if (!text.examples.empty()) out += "\nExamples:\n" + text.examples + "\n";
    if (!text.children.empty()) {
      out += "\nCommands:\n";
      for (const CLI::App* child : app->get_subcommands([](const CLI::App*) { return true; }))
        out += row(child->get_name(), child->get_description());
    }
    if (!text.positionals.empty()) out += "\nArguments:\n";
    for (const auto& positional : text.positionals) out += row(positional.names, positional.about);
    out += "\nOptions:\n";
    for (const auto& option : text.options) out += row(option.names, option.about);
    return out;
  }

  static CommandText describe_one(const CLI::App& app);
};

CommandText Formatter::describe_one(const CLI::App& app) {
  CommandText text;
  for (const CLI::App* up = &app; up != nullptr; up = up->get_parent())
    text.path.insert(text.path.begin(), up->get_name());
  text.about = app.get_description();
  text.examples = app.get_footer();
  for (const std::string& word : text.path) text.usage += (text.usage.empty() ? "" : " ") + word;
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; }))
    text.children.push_back(child->get_name());
  text.usage += text.children.empty() ? " [OPTIONS]" : " COMMAND";
  if (app.get_name() == "exec") text.usage += " [--] PROGRAM [ARG…]";  // never met by the parser
  for (const CLI::Option* option : app.get_options()) {
    CommandText::Option out;
    if (option->get_positional()) {
      out.names =
          option->get_type_name().empty() ? option->get_single_name() : option->get_type_name();
      out.about = option->get_description();
      text.usage += option->get_required() ? " " + out.names : " [" + out.names + "]";
      text.positionals.push_back(std::move(out));
      continue;
    }
    out.names = option_names(*option);
    out.about = option->get_description();
    out.takes_value = option->get_type_size() != 0;
    for (const std::string& name : option->get_snames()) out.words.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) out.words.push_back("--" + name);
    text.options.push_back(std::move(out));
  }
  return text;
}

void describe_into(const CLI::App& app, std::vector<CommandText>& all) {
  all.push_back(Formatter::describe_one(app));
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; }))
    describe_into(*child, all);
}

}  // namespace

void add_common(CLI::App& command, Common& common, Output output) {
  command.add_flag("--json", common.json, "Print exactly one JSON value, as the API gives it");
  if (output == Output::table) {
    command.add_option("-o,--columns", common.columns, "Columns, in this order")
        ->type_name("NAME,NAME");
    command.add_flag("--no-header", common.no_header, "Leave the header line out");
  }
  command
      .add_option("--server", common.flags.server,
                  "The vettad to ask: unix:PATH or http://HOST:PORT")
      ->type_name("ADDRESS");
  command.add_option("--token-file", common.flags.token_file, "File with the token for it")
      ->type_name("FILE");
  command.add_option("--timeout", common.timeout, "How long to wait for an answer (30s)")
      ->type_name("SPAN");
}

void add_examples(CLI::App& command, std::string_view examples) {
  std::string text;
  for (const std::string_view line : split(examples, "\n"))
    if (!line.empty()) text += (text.empty() ? "  " : "\n  ") + std::string(line);
  command.footer(text);
}

std::unique_ptr<CLI::App> make_tree(Plan& plan) {
  auto root = std::make_unique<CLI::App>(
      "Vetta: where is the time of my training job lost, and whose fault is it?", "vetta");
  root->formatter(std::make_shared<Formatter>());
  root->set_help_flag("-h,--help", "Show this help");
  root->set_version_flag("--version", "vetta " VETTA_VERSION);
  add_job_commands(*root, plan);
  add_judgement_commands(*root, plan);
  add_node_commands(*root, plan);
  add_cluster_commands(*root, plan);
  add_probe_commands(*root, plan);
  add_config_commands(*root, plan);
  add_help_commands(*root, plan);
  // One word a level: what follows a command is its own, also where it is a command's name.
  root->require_subcommand(0, 1);
  for (CLI::App* noun : root->get_subcommands([](CLI::App*) { return true; }))
    noun->require_subcommand(0, 1);
  add_examples(*root,
               "vetta job list --me            my jobs that wait or run\n"
               "vetta why 4711                 my code, my data, or your machine?\n"
               "vetta probe exec -- python3 train.py");
  return root;
}

std::vector<CommandText> describe(const CLI::App& root) {
  std::vector<CommandText> all;
  describe_into(root, all);
  return all;
}

}  // namespace vetta::cli
