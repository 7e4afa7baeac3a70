// SPDX-License-Identifier: Apache-2.0
#include "cli/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <numeric>

#include "core/text.h"

namespace vetta::cli {
namespace {

/// A value for each kind of value, to show how it is written.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> values = {{
    {"ADDRESS", "unix:/run/vettad/vettad.sock"},
    {"FILE", "/etc/vetta/token"},
    {"SPAN", "1h"},
    {"N", "100"},
    {"NODE", "n001"},
    {"HOSTLIST", "n[001-128]"},
    {"STATE,STATE", "R,PD"},
    {"TEXT", "train"},
    {"TOPIC", "formats"},
    {"SHELL", "bash"},
    {"KEY", "server"},
}};

std::string value_like(std::string_view type) {
  for (const auto& [name, value] : values)
    if (name == type) return std::string(value);
  return "NAME";
}

const CLI::App& last_chosen(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : last_chosen(*chosen.front());
}

std::string path_of(const CLI::App& app) {
  std::string path = app.get_name();
  for (const CLI::App* up = app.get_parent(); up != nullptr; up = up->get_parent())
    path.insert(0, up->get_name() + " ");
  return path;
}

std::string help_of(const CLI::App& app) {
  return "`" + path_of(app) + " --help` shows what it takes";
}

Error usage_error(std::string message, std::string hint) {
  return fail(Code::invalid, std::move(message), std::move(hint)).error();
}

std::vector<std::string> children_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(child->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string first_example(const CLI::App& app) {
  const std::string examples = app.get_footer();
  const std::string_view line = std::string_view(examples).substr(0, examples.find('\n'));
  return std::string(trim(line.substr(0, line.find("   ", 2))));
}

Error unexpected_word(const CLI::App& root) {
  const CLI::App* at = &root;
  while (at->remaining_size() == 0 && !at->get_subcommands().empty())
    at = at->get_subcommands().front();
  const auto left = at->remaining();
  const std::string word = left.empty() ? "" : left.front().substr(0, left.front().find('='));
  const std::string shown = "'" + one_line(word, 60) + "'";
  const bool is_option = word.starts_with('-');
  const auto children = children_of(*at);
  if (!is_option && children.empty())
    return usage_error(shown + " is one word too many", help_of(*at));
  const std::string meant = nearest(word, is_option ? options_of(*at) : children);
  return usage_error(std::string("there is no ") + (is_option ? "option " : "command ") + shown +
                         (meant.empty() ? "" : "; did you mean '" + meant + "'?"),
                     help_of(*at));
}

/// What a command is about was left out: "which job?".
Error missing_word(const CLI::App& app, const CLI::Option& missing) {
  std::string hint = first_example(app);
  if (missing.get_type_name() == "JOB") hint += " (vetta job list --me)";
  if (missing.get_type_name() == "NODE") hint += " (vetta node list)";
  return usage_error("which " + missing.get_single_name() + "?", hint);
}

Error missing_value(const CLI::Option& option) {
  const std::string name = option.get_name();
  return usage_error(name + " needs a value",
                     name + " " + value_like(option.get_type_name()) + " (for example)");
}

/// Letters to change, add, take away or swap with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& words) {
  constexpr std::size_t word_max = 40;
  if (word.size() > word_max) return {};
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  std::string best;
  std::size_t best_distance = 3;
  for (const std::string& each : words) {
    const bool is_beginning = word.size() > dashes + 1 && each.starts_with(word);
    const std::size_t letters = std::max(word.size(), each.size()) - std::min(dashes, each.size());
    const std::size_t far = is_beginning ? 1 : distance(word, each);
    // Two letters of three are another word.
    if (far >= best_distance || 2 * far >= letters) continue;
    best = each;
    best_distance = far;
  }
  return best;
}

Error explain_usage(const CLI::ParseError& error, const CLI::App& root) {
  const CLI::App& at = last_chosen(root);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unexpected_word(root);
  const std::string_view what = error.what();
  for (const CLI::Option* option : at.get_options()) {
    if (!what.starts_with(option->get_name())) continue;
    if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && option->get_positional() &&
        option->count() == 0)
      return missing_word(at, *option);
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && option->count() == 0 &&
        !option->get_positional())
      return missing_value(*option);
  }
  return usage_error(error.what(), help_of(at));
}

}  // namespace vetta::cli
