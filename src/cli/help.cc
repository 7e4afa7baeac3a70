// SPDX-License-Identifier: Apache-2.0
// `vetta help`, `vetta completion`, `vetta config`.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/table.h"
#include "cli/tree.h"
#include "core/error_table.h"
#include "core/text.h"

namespace vetta::cli {
namespace {

constexpr std::string_view exit_codes_text = R"(Exit codes of vetta

    0  fine
    1  could not: there is no such job, or the server could not answer
    2  usage: the command line or a file is wrong
    3  done, and found something (diagnose: a rank holds the others)
    4  not allowed
    5  unreachable: no vettad answers
  124  timed out
  130  interrupted

`vetta probe exec` gives the exit code of its command, 128 + signal if a signal ended it,
125 if Vetta itself failed, 126 if the command cannot be run, 127 if there is none.
)";

constexpr std::string_view environment_text = R"(Environment of vetta

  VETTA_SERVER       the vettad to ask: unix:PATH or http://HOST:PORT (like --server)
  VETTA_TOKEN_FILE   file with the token for it (like --token-file)
  NO_COLOR           no colour, if set to anything
  COLUMNS            width of the screen where the terminal does not tell
  XDG_CONFIG_HOME    folder of vetta/config.toml (~/.config)

A flag goes before the environment, that before ~/.config/vetta/config.toml, that before
/etc/vetta/vetta.toml. `vetta config explain` says where each value came from.

Of jobs under the probe:
  VETTA_PROBE=0      turns the injected probe off
)";

constexpr std::string_view formats_text = R"(Output of vetta

Tables have one row a thing and no blank within a cell: blanks in names become underscores, a
value that is not known is a dash. On a terminal long names are shortened and the last columns
are left out when there is no room; into a pipe everything is written whole.
`-o name,name` chooses columns; an unknown name lists them all. `--no-header` leaves the header out.

--json prints exactly one JSON value on stdout, the API's own, with "schema": 1 in it; filters
apply. Times are seconds since the epoch, spans seconds, sizes bytes, null is not known.
Streams (`job watch --json`) print one JSON value a line. Errors under --json are JSON on stderr:
{"error": {"code", "message", "hint"}}.

States are written in Slurm's letters: PD R S CG CD CA F TO NF PR OOM …
)";

struct HelpArguments {
  Common common;
  std::vector<std::string> topic;
  bool as_markdown = false, as_man = false;
};

int topic_help(const std::vector<std::string>& topic) {
  Plan plan;
  const auto root = make_tree(plan);
  const CLI::App* at = root.get();
  for (const std::string& word : topic) {
    const CLI::App* next = nullptr;
    for (const CLI::App* child : at->get_subcommands([](const CLI::App*) { return true; }))
      if (child->get_name() == word) next = child;
    if (next == nullptr)
      return end_with(fail(Code::invalid, "there is no help on '" + one_line(word, 40) + "'",
                           "topics are exit-codes, environment, formats and every command")
                          .error(),
                      false);
    at = next;
  }
  print(at->help());
  return exit_fine;
}

int show_help(const HelpArguments& arguments) {
  Plan plan;
  if (arguments.as_markdown) {
    print(markdown(describe(*make_tree(plan))));
  } else if (arguments.as_man) {
    print(man_page(describe(*make_tree(plan))));
  } else if (arguments.topic == std::vector<std::string>{"exit-codes"}) {
    print(exit_codes_text);
  } else if (arguments.topic == std::vector<std::string>{"environment"}) {
    print(environment_text);
  } else if (arguments.topic == std::vector<std::string>{"formats"}) {
    print(formats_text);
  } else {
    return topic_help(arguments.topic);
  }
  return exit_fine;
}

struct CompletionArguments {
  Common common;
  std::string shell;
};

int show_completion(const CompletionArguments& arguments) {
  Plan plan;
  const auto script = completion(describe(*make_tree(plan)), arguments.shell);
  if (!script) return end_with(script.error(), false);
  print(*script);
  return exit_fine;
}

struct ConfigArguments {
  Common common;
  std::string key;
};

int explain_config(const ConfigArguments& arguments) {
  const bool as_json = arguments.common.json;
  const auto environment = process_environment();
  const auto settings = settle(arguments.common.flags, environment);
  if (!settings) return end_with(settings.error(), as_json);
  Json list = Json::array();
  Table table({{.name = "key"}, {.name = "value"}, {.name = "origin"}});
  for (const Setting& setting : settings->all()) {
    if (!arguments.key.empty() && setting.name != arguments.key) continue;
    list.push_back({{"key", setting.name}, {"value", setting.value}, {"origin", setting.origin}});
    table.add({setting.name, setting.value, setting.origin});
  }
  if (list.empty())
    return end_with(fail(Code::invalid, "there is no setting '" + one_line(arguments.key, 40) + "'",
                         "settings are server and token_file")
                        .error(),
                    as_json);
  if (as_json) {
    print_json({{"schema", 1}, {"settings", list}, {"files", config_paths(environment)}});
    return exit_fine;
  }
  const auto text = table.text({}, Terminal::detect(), true);
  if (!text) return end_with(text.error(), as_json);
  print(*text);
  for (const std::string& path : config_paths(environment)) print("# looked at " + path + "\n");
  return exit_fine;
}

}  // namespace

void add_config_commands(CLI::App& root, Plan& plan) {
  CLI::App* noun = root.add_subcommand("config", "Settings of this command line");
  noun->set_help_flag("-h,--help", "Show this help");
  add_examples(*noun,
               "vetta config explain\n"
               "vetta config explain server");
  auto arguments = std::make_shared<ConfigArguments>();
  CLI::App* explain = noun->add_subcommand("explain", "Says where each setting came from");
  add_examples(*explain, "vetta config explain\nvetta config explain server --json");
  explain->add_option("key", arguments->key, "One setting")->type_name("KEY");
  explain->add_flag("--json", arguments->common.json, "Print exactly one JSON value");
  explain->add_option("--server", arguments->common.flags.server, "As given to other commands")
      ->type_name("ADDRESS");
  explain
      ->add_option("--token-file", arguments->common.flags.token_file, "As given to other commands")
      ->type_name("FILE");
  explain->callback(choose(plan, arguments, explain_config));

  auto shell = std::make_shared<CompletionArguments>();
  CLI::App* complete = root.add_subcommand("completion", "Prints a completion script for a shell");
  add_examples(*complete,
               "vetta completion bash > /etc/bash_completion.d/vetta\n"
               "source <(vetta completion bash)");
  complete->add_option("shell", shell->shell, "bash, zsh or fish")->required()->type_name("SHELL");
  complete->callback(choose(plan, shell, show_completion));
}

void add_help_commands(CLI::App& root, Plan& plan) {
  auto arguments = std::make_shared<HelpArguments>();
  CLI::App* help =
      root.add_subcommand("help", "Help on a command, or on exit-codes, environment, formats");
  add_examples(*help, "vetta help exit-codes\nvetta help job list");
  help->add_option("topic", arguments->topic, "A command or a topic")->type_name("TOPIC");
  help->add_flag("--markdown", arguments->as_markdown, "The whole reference as Markdown");
  help->add_flag("--man", arguments->as_man, "The manual page as roff");
  help->callback(choose(plan, arguments, show_help));
}

}  // namespace vetta::cli
