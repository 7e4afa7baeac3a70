// SPDX-License-Identifier: Apache-2.0
// `vetta cluster show`.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/value.h"
#include "core/error_table.h"

namespace vetta::cli {
namespace {

struct ClusterArguments {
  Common common;
};

std::string use_line(std::string_view word, const Json& use, const Terminal& terminal,
                     bool is_bytes) {
  const auto total = number_of(use, "total");
  const auto allocated = number_of(use, "allocated");
  if (!total || *total <= 0) return {};
  const auto text = [&](const std::optional<double>& value) {
    if (!value) return std::string("?");
    return is_bytes ? bytes_text(value) : fmt::format("{:.0f}", *value);
  };
  const double ratio = allocated ? *allocated / *total : 0;
  return "  " + pad(word, 8) + terminal.cyan(bar(ratio, 1, 30)) +
         fmt::format("  {} of {} in use\n", text(allocated), text(total));
}

std::string counts(const Json& list, std::string_view field, std::string_view count) {
  std::string out;
  for (const Json& item : list)
    out += fmt::format("{}{} {}", out.empty() ? "" : "   ", integer_text(item, count),
                       text_of(item, field));
  return out;
}

std::string sources_part(const Json& list, const Terminal& terminal) {
  std::string out;
  for (const Json& source : list) {
    if (text_of(source, "knowledge") == "known") continue;
    out += terminal.yellow("▌ ") + "could not ask " + text_of(source, "name") + ": " +
           wrap(text_of(source, "reason"), terminal.screen_width() - 4, 2) + "\n";
  }
  return out.empty() ? out : "\n" + out;
}

}  // namespace

std::string cluster_screen(const Json& cluster, const Terminal& terminal, Time now) {
  std::string out = terminal.bold("cluster " + text_of(cluster, "cluster"));
  if (const auto as_of = time_of(cluster, "as_of"))
    out += terminal.dim("  as of " + human(std::max(Duration::zero(), now - *as_of)) + " ago");
  out += "\n" + sources_part(part_of(cluster, "sources"), terminal);
  const Json& nodes = part_of(cluster, "nodes");
  out += "\n  nodes   " + integer_text(nodes, "usable") + " of " + integer_text(nodes, "total") +
         " usable   " + terminal.dim(counts(part_of(nodes, "states"), "state", "nodes")) + "\n";
  out += use_line("cpus", part_of(cluster, "cpus"), terminal, false);
  out += use_line("gpus", part_of(cluster, "gpus"), terminal, false);
  out += use_line("memory", part_of(cluster, "memory_bytes"), terminal, true);
  const Json& jobs = part_of(cluster, "jobs");
  const std::string by_state = counts(part_of(jobs, "states"), "state", "jobs");
  out += "  jobs    " + (by_state.empty() ? "none waits or runs" : by_state) + "\n";
  std::size_t connected = 0, known = 0;
  for (const Json& agent : part_of(cluster, "agents")) {
    ++known;
    connected += is_true(agent, "is_connected") ? 1 : 0;
  }
  out += fmt::format("  agents  {} connected", connected);
  if (known > connected) out += terminal.yellow(fmt::format(", {} lost", known - connected));
  out += "\n";
  if (const Json& load = part_of(cluster, "load"); load.is_object())
    out += terminal.dim(fmt::format("  slurm   read every {}, {:.1f} RPCs a minute are Vetta's",
                                    span(number_of(load, "poll_period")),
                                    number_of(load, "rpcs_per_minute_vetta").value_or(0))) +
           "\n";
  Table table({{.name = "partition", .width_min = 8},
               {.name = "state"},
               {.name = "nodes", .is_right = true},
               {.name = "cpus", .is_right = true},
               {.name = "gpus", .is_right = true},
               {.name = "time_limit", .is_right = true},
               {.name = "tier", .is_right = true},
               {.name = "nodelist", .width_min = 10}});
  for (const Json& partition : part_of(cluster, "partitions"))
    table.add({text_of(partition, "name") + (is_true(partition, "is_default") ? "*" : ""),
               text_of(partition, "state"), integer_text(partition, "node_count"),
               integer_text(partition, "cpus"), integer_text(partition, "gpus"),
               span(number_of(partition, "time_limit")), integer_text(partition, "priority_tier"),
               text_of(partition, "nodes")});
  const auto text = table.text({}, terminal, true);
  return table.rows() == 0 || !text ? out : out + "\n" + *text;
}

namespace {

int show_cluster(const ClusterArguments& arguments) {
  Session session(arguments.common);
  const auto body = session.get("/api/v1/cluster");
  if (!body) return end_with(body.error(), arguments.common.json);
  if (arguments.common.json)
    print_json(*body);
  else
    print(cluster_screen(*body, session.terminal(), now()));
  return exit_fine;
}

}  // namespace

void add_cluster_commands(CLI::App& root, Plan& plan) {
  CLI::App* noun = root.add_subcommand("cluster", "The cluster: show");
  noun->set_help_flag("-h,--help", "Show this help");
  add_examples(*noun,
               "vetta cluster show\n"
               "vetta cluster show --json");
  auto arguments = std::make_shared<ClusterArguments>();
  CLI::App* show =
      noun->add_subcommand("show", "Shows the cluster: what there is, what is in use, who answers");
  add_examples(*show,
               "vetta cluster show\n"
               "vetta cluster show --json | jq .nodes");
  add_common(*show, arguments->common, Output::value);
  show->callback(choose(plan, arguments, show_cluster));
}

}  // namespace vetta::cli
