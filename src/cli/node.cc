// SPDX-License-Identifier: Apache-2.0
// `vetta node list` and `vetta node show`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/value.h"
#include "core/error_table.h"
#include "core/hostlist.h"
#include "core/text.h"

namespace vetta::cli {
namespace {

struct NodeListArguments {
  Common common;
  std::string state, partition, nodes;
  bool unusable = false;
};

struct NodeArguments {
  Common common;
  std::string name;
};

std::string joined(const Json& list, std::string_view between) {
  std::string out;
  for (const Json& item : list)
    if (item.is_string())
      out += (out.empty() ? "" : std::string(between)) + to_utf8(item.get<std::string>());
  return out;
}

std::string share(const Json& object, std::string_view used, std::string_view all) {
  const std::string total = integer_text(object, all);
  if (total.empty()) return {};
  const std::string part = integer_text(object, used);
  return (part.empty() ? "?" : part) + "/" + total;
}

std::string gpus_of(const Json& node) {
  std::uint64_t total = 0, used = 0;
  bool is_known = true;
  for (const Json& gres : part_of(node, "gres")) {
    if (text_of(gres, "name") != "gpu") continue;
    total += static_cast<std::uint64_t>(number_of(gres, "total").value_or(0));
    const auto allocated = number_of(gres, "allocated");
    is_known = is_known && allocated.has_value();
    used += static_cast<std::uint64_t>(allocated.value_or(0));
  }
  if (total == 0) return {};
  return (is_known ? std::to_string(used) : "?") + "/" + std::to_string(total);
}

std::string agent_word(const Json& node) {
  const Json& agent = part_of(node, "agent");
  if (!agent.is_object()) return "none";
  return is_true(agent, "is_connected") ? "connected" : "lost";
}

std::string memory_word(const Json& node) {
  std::string text = bytes_text(number_of(node, "memory_bytes"));
  std::erase(text, ' ');
  return text;
}

/// Keeps the nodes of a hostlist.
Result<void> keep_named(Json& body, const std::string& hostlist) {
  if (hostlist.empty()) return {};
  const auto names = VETTA_TRY(expand_hostlist(hostlist));
  const std::set<std::string> wanted(names.begin(), names.end());
  Json kept = Json::array();
  for (const Json& node : part_of(body, "nodes"))
    if (wanted.contains(text_of(node, "name"))) kept.push_back(node);
  body["nodes"] = std::move(kept);
  return {};
}

Table node_table(const Json& nodes, const Terminal& terminal) {
  Table table({{.name = "name", .width_min = 6},
               {.name = "states", .width_min = 6},
               {.name = "partitions", .width_min = 6},
               {.name = "cpus", .is_right = true},
               {.name = "gpus", .is_right = true},
               {.name = "memory", .is_right = true},
               {.name = "load", .is_right = true},
               {.name = "agent"},
               {.name = "reason", .width_min = 6},
               {.name = "version", .is_default = false},
               {.name = "features", .is_default = false},
               {.name = "boot", .is_default = false}});
  std::vector<bool> usable;
  for (const Json& node : nodes) {
    usable.push_back(is_true(node, "is_usable"));
    const auto load = number_of(node, "load");
    table.add({text_of(node, "name"), joined(part_of(node, "states"), "+"),
               joined(part_of(node, "partitions"), ","), share(node, "cpus_allocated", "cpus"),
               gpus_of(node), memory_word(node), load ? fmt::format("{:.2f}", *load) : "",
               agent_word(node), text_of(node, "reason"), text_of(node, "version"),
               text_of(node, "features"), when(node, "boot")});
  }
  table.paint_with([usable = std::move(usable), terminal](std::size_t row, std::string_view text) {
    return usable[row] ? std::string(text) : terminal.red(text);
  });
  return table;
}

int list_nodes(const NodeListArguments& arguments) {
  Session session(arguments.common);
  const bool as_json = arguments.common.json;
  std::string states = arguments.state;
  for (char& c : states)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  Target target("/api/v1/nodes");
  target.add_if("state", states).add_if("partition", arguments.partition);
  if (arguments.unusable) target.add("unusable", "true");
  auto body = session.get(target.text());
  if (!body) return end_with(body.error(), as_json);
  if (auto kept = keep_named(*body, arguments.nodes); !kept) return end_with(kept.error(), as_json);
  if (as_json) {
    print_json(*body);
    return exit_fine;
  }
  const auto text = node_table(part_of(*body, "nodes"), session.terminal())
                        .text(session.columns(), session.terminal(), !arguments.common.no_header);
  if (!text) return end_with(text.error(), as_json);
  print(*text);
  return exit_fine;
}

int show_node(const NodeArguments& arguments) {
  Session session(arguments.common);
  const bool as_json = arguments.common.json;
  const auto body = session.get("/api/v1/nodes/" + http::percent_encode(arguments.name));
  if (!body) return end_with(body.error(), as_json);
  if (as_json)
    print_json(*body);
  else
    print(node_screen(*body, session.terminal(), now()));
  return exit_fine;
}

void add_line(std::string& out, std::string_view word, const std::string& value,
              const Terminal& terminal) {
  if (!value.empty())
    out += terminal.dim(pad(word, 12)) + wrap(value, terminal.screen_width() - 12, 12) + "\n";
}

}  // namespace

std::string node_screen(const Json& detail, const Terminal& terminal, Time now) {
  const Json& node = part_of(detail, "node");
  const std::string states = joined(part_of(node, "states"), "+");
  std::string out = terminal.bold("node " + text_of(node, "name")) + "  " +
                    (is_true(node, "is_usable") ? terminal.green(states) : terminal.red(states)) +
                    "\n";
  if (const std::string reason = text_of(node, "reason"); !reason.empty())
    out += terminal.yellow("▌ ") + reason +
           terminal.dim("  " + text_of(node, "reason_user") + " " + when(node, "reason_since")) +
           "\n";
  out += "\n";
  add_line(out, "partitions", joined(part_of(node, "partitions"), ", "), terminal);
  add_line(out, "cpus", share(node, "cpus_allocated", "cpus"), terminal);
  add_line(out, "gpus", gpus_of(node), terminal);
  add_line(out, "memory", bytes_text(number_of(node, "memory_bytes")), terminal);
  if (const auto load = number_of(node, "load"))
    add_line(out, "load", fmt::format("{:.2f}", *load), terminal);
  add_line(out, "system", text_of(node, "operating_system"), terminal);
  add_line(out, "slurm", text_of(node, "version"), terminal);
  add_line(out, "booted", when(node, "boot"), terminal);
  const Json& agent = part_of(node, "agent");
  add_line(
      out, "agent",
      agent_word(node) + (text_of(agent, "version").empty() ? "" : " " + text_of(agent, "version")),
      terminal);
  for (const Json& gap : part_of(agent, "gaps"))
    if (gap.is_string()) add_line(out, "", "cannot see: " + gap.get<std::string>(), terminal);
  const Json& jobs = part_of(detail, "jobs");
  if (!jobs.is_array() || jobs.empty()) return out;
  out += "\n" + terminal.bold("jobs") + "\n";
  for (const Json& job : jobs)
    out +=
        fmt::format("  {} {} {} {} {}\n", pad(text_of(job, "id"), 12),
                    pad(state_letters(text_of(job, "state")), 3), pad(text_of(job, "user"), 10),
                    pad_left(span(run_seconds(job, now)), 8), one_line(text_of(job, "name"), 40));
  return out;
}

void add_node_commands(CLI::App& root, Plan& plan) {
  CLI::App* noun = root.add_subcommand("node", "Nodes: list, show");
  noun->set_help_flag("-h,--help", "Show this help");
  add_examples(*noun,
               "vetta node list --unusable\n"
               "vetta node show n001");
  auto arguments = std::make_shared<NodeListArguments>();
  CLI::App* list = noun->add_subcommand("list", "Lists nodes as Slurm and Vetta see them");
  add_examples(*list,
               "vetta node list\n"
               "vetta node list --unusable -o name,states,reason\n"
               "vetta node list -w n[001-128] --json");
  list->add_option("-p,--partition", arguments->partition, "Nodes of these partitions")
      ->type_name("NAME,NAME");
  list->add_option("-t,--state", arguments->state, "Nodes with one of these states, Slurm's words")
      ->type_name("STATE,STATE");
  list->add_option("-w,--nodelist", arguments->nodes, "These nodes")->type_name("HOSTLIST");
  list->add_flag("--unusable", arguments->unusable, "Only nodes that cannot run work now");
  add_common(*list, arguments->common, Output::table);
  list->callback(choose(plan, arguments, list_nodes));

  auto one = std::make_shared<NodeArguments>();
  CLI::App* show = noun->add_subcommand("show", "Shows a node and its recent jobs");
  add_examples(*show,
               "vetta node show n001\n"
               "vetta node show n001 --json");
  show->add_option("node", one->name, "A node's name")->required()->type_name("NODE");
  add_common(*show, one->common, Output::value);
  show->callback(choose(plan, one, show_node));
}

}  // namespace vetta::cli
