// SPDX-License-Identifier: Apache-2.0
// `vetta job list`, and the registration of the job commands.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <pwd.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/job.h"
#include "cli/table.h"
#include "cli/value.h"
#include "core/error_table.h"
#include "core/text.h"

namespace vetta::cli {
namespace {

constexpr std::size_t page = 1000;

struct ListArguments {
  Common common;
  bool me = false, all = false;
  std::string user, account, partition, state, name, node, since, until;
  std::size_t limit = 1000;
};

std::string own_name() {
  const passwd* entry = getpwuid(getuid());
  return entry == nullptr ? std::to_string(getuid()) : entry->pw_name;
}

Result<std::string> ago(std::string_view text) {
  const Duration span = VETTA_TRY(parse_span(text));
  return std::to_string(epoch_seconds(now() - span));
}

Result<Target> target_of(const ListArguments& arguments) {
  Target target("/api/v1/jobs");
  if (arguments.me) target.add("user", own_name());
  target.add_if("user", arguments.user)
      .add_if("account", arguments.account)
      .add_if("partition", arguments.partition)
      .add_if("state", arguments.state)
      .add_if("name", arguments.name)
      .add_if("node", arguments.node);
  if (!arguments.since.empty()) target.add("since", VETTA_TRY(ago(arguments.since)));
  if (!arguments.until.empty()) target.add("until", VETTA_TRY(ago(arguments.until)));
  const bool is_bounded = arguments.all || !arguments.since.empty() || !arguments.state.empty();
  if (!is_bounded) target.add("active", "true");
  return target;
}

/// All pages up to the limit as one object, as the first page has it.
Result<Json> fetch(Session& session, const ListArguments& arguments) {
  Json whole;
  std::string cursor;
  std::size_t have = 0;
  do {
    Target target = VETTA_TRY(target_of(arguments));
    target.add("limit", std::to_string(std::min(page, arguments.limit - have)));
    target.add_if("cursor", cursor);
    Json part = VETTA_TRY(session.get(target.text()));
    cursor = text_of(part, "next");
    if (whole.is_null()) {
      whole = std::move(part);
    } else {
      for (Json& job : part["jobs"]) whole["jobs"].push_back(std::move(job));
      whole["next"] = part["next"];
    }
    have = whole["jobs"].size();
  } while (!cursor.empty() && have < arguments.limit);
  return whole;
}

/// What squeue shows last: where it runs, or why it does not.
std::string place(const Json& job) {
  const std::string nodes = text_of(job, "nodes");
  if (!nodes.empty()) return nodes;
  const std::string reason = text_of(job, "reason");
  return reason.empty() ? "" : "(" + reason + ")";
}

Table job_table(const Json& jobs, const Terminal& terminal) {
  Table table({{.name = "id", .width_min = 6},
               {.name = "partition", .width_min = 6},
               {.name = "name", .width_min = 8},
               {.name = "user", .width_min = 5},
               {.name = "st"},
               {.name = "time", .is_right = true},
               {.name = "node_count", .is_right = true},
               {.name = "gpus", .is_right = true},
               {.name = "where", .width_min = 8},
               {.name = "state", .is_default = false},
               {.name = "reason", .is_default = false},
               {.name = "nodes", .is_default = false},
               {.name = "account", .is_default = false},
               {.name = "qos", .is_default = false},
               {.name = "cpus", .is_right = true, .is_default = false},
               {.name = "time_limit", .is_right = true, .is_default = false},
               {.name = "submit", .is_default = false},
               {.name = "start", .is_default = false},
               {.name = "end", .is_default = false},
               {.name = "attempt", .is_right = true, .is_default = false},
               {.name = "exit_code", .is_right = true, .is_default = false},
               {.name = "job_id", .is_right = true, .is_default = false}});
  const Time at = now();
  std::vector<std::string> states;
  for (const Json& job : jobs) {
    const std::string state = text_of(job, "state");
    states.push_back(state);
    table.add({text_of(job, "id"),
               text_of(job, "partition"),
               text_of(job, "name"),
               text_of(job, "user"),
               std::string(state_letters(state)),
               span(run_seconds(job, at)),
               integer_text(job, "node_count"),
               integer_text(job, "gpus"),
               place(job),
               state,
               text_of(job, "reason"),
               text_of(job, "nodes"),
               text_of(job, "account"),
               text_of(job, "qos"),
               integer_text(job, "cpus"),
               span(number_of(job, "time_limit")),
               when(job, "submit"),
               when(job, "start"),
               when(job, "end"),
               integer_text(job, "attempt"),
               integer_text(job, "exit_code"),
               integer_text(job, "job_id")});
  }
  table.paint_with([states = std::move(states), terminal](std::size_t row, std::string_view text) {
    const std::string& state = states[row];
    if (state == "PENDING") return terminal.dim(text);
    if (state == "FAILED" || state == "OUT_OF_MEMORY" || state == "NODE_FAIL" || state == "TIMEOUT")
      return terminal.red(text);
    return std::string(text);
  });
  return table;
}

int list_jobs(const ListArguments& arguments) {
  Session session(arguments.common);
  const bool as_json = arguments.common.json;
  if (arguments.limit == 0)
    return end_with(fail(Code::invalid, "--limit 0 asks for nothing").error(), as_json);
  const auto jobs = fetch(session, arguments);
  if (!jobs) return end_with(jobs.error(), as_json);
  if (as_json) {
    print_json(*jobs);
    return exit_fine;
  }
  const Table table = job_table(part_of(*jobs, "jobs"), session.terminal());
  const auto text = table.text(session.columns(), session.terminal(), !arguments.common.no_header);
  if (!text) return end_with(text.error(), as_json);
  print(*text);
  if (!text_of(*jobs, "next").empty())
    std::fputs("vetta: there are more jobs; --limit shows more, a filter fewer\n", stderr);
  return exit_fine;
}

void add_list(CLI::App& noun, Plan& plan) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::App* list = noun.add_subcommand("list", "Lists jobs: those that wait or run, newest first");
  add_examples(*list,
               "vetta job list --me\n"
               "vetta job list -p gpu -t R,PD\n"
               "vetta job list --since 1d -t F -o id,user,name,end,exit_code");
  list->add_flag("--me", arguments->me, "Only my jobs");
  const auto text = [&](const char* names, std::string& to, const char* about, const char* type) {
    list->add_option(names, to, about)->type_name(type);
  };
  text("-u,--user", arguments->user, "Jobs of these users", "NAME,NAME");
  text("-A,--account", arguments->account, "Jobs of these accounts", "NAME,NAME");
  text("-p,--partition", arguments->partition, "Jobs of these partitions", "NAME,NAME");
  text("-t,--state", arguments->state, "Jobs in these states, in Slurm's words or letters",
       "STATE,STATE");
  text("-n,--name", arguments->name, "Jobs with this in their name", "TEXT");
  text("-w,--node", arguments->node, "Jobs that hold or held this node", "NODE");
  text("--since", arguments->since, "Also ended jobs, that lived within this span", "SPAN");
  text("--until", arguments->until, "Only jobs that lived before this span began", "SPAN");
  list->add_flag("--all", arguments->all, "Also jobs that have ended, as far as they are kept");
  list->add_option("--limit", arguments->limit, "At most so many (1000)")->type_name("N");
  add_common(*list, arguments->common, Output::table);
  list->callback(choose(plan, arguments, list_jobs));
}

void add_show(CLI::App& noun, Plan& plan) {
  auto arguments = std::make_shared<JobArguments>();
  CLI::App* show = noun.add_subcommand(
      "show", "Shows a job: the diagnosis, its time, its nodes, and its ranks side by side");
  add_examples(*show,
               "vetta job show 4711\n"
               "vetta job show 4711_3          task 3 of an array\n"
               "vetta job show 4711/1          the first attempt of a requeued job");
  show->add_option("job", arguments->id, "A job id")->required()->type_name("JOB");
  show->add_flag("--ranks", arguments->all_ranks, "All ranks, also where there are many");
  add_common(*show, arguments->common, Output::value);
  show->callback(choose(plan, arguments, show_job));
}

void add_watch(CLI::App& noun, Plan& plan) {
  auto arguments = std::make_shared<JobArguments>();
  CLI::App* watch = noun.add_subcommand(
      "watch", "Follows a job until it ends; its agents sample every second meanwhile");
  add_examples(*watch,
               "vetta job watch 4711\n"
               "vetta job watch 4711 --json    one JSON value a line");
  watch->add_option("job", arguments->id, "A job id")->required()->type_name("JOB");
  add_common(*watch, arguments->common, Output::value);
  watch->callback(choose(plan, arguments, watch_job));
}

}  // namespace

void add_job_commands(CLI::App& root, Plan& plan) {
  CLI::App* noun = root.add_subcommand("job", "Jobs: list, show, watch");
  noun->set_help_flag("-h,--help", "Show this help");
  add_examples(*noun,
               "vetta job list --me\n"
               "vetta job show 4711\n"
               "vetta job watch 4711");
  add_list(*noun, plan);
  add_show(*noun, plan);
  add_watch(*noun, plan);
}

}  // namespace vetta::cli
