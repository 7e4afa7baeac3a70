// SPDX-License-Identifier: Apache-2.0
// `vetta why` and `vetta diagnose job`.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/job.h"
#include "cli/screen.h"
#include "cli/value.h"
#include "core/error_table.h"
#include "core/text.h"

namespace vetta::cli {
namespace {

/// The answer in the words of the question.
std::string answer_words(std::string_view answer) {
  if (answer == "fine") return "nothing is wrong";
  if (answer == "code") return "your code";
  if (answer == "data") return "your data";
  if (answer == "machine") return "the machine";
  if (answer == "limit") return "a limit was reached";
  if (answer == "cancelled") return "it was cancelled";
  if (answer == "waiting") return "it waits";
  if (answer == "slow_rank") return "one rank holds the others";
  return "cannot tell";
}

std::string label(std::string_view word, const Terminal& terminal) {
  return terminal.dim(pad(word, 10));
}

void add_list(std::string& out, std::string_view word, const Json& list, const Terminal& terminal) {
  if (!list.is_array() || list.empty()) return;
  out += "\n";
  bool is_first = true;
  for (const Json& item : list) {
    if (!item.is_string()) continue;
    out += label(is_first ? word : "", terminal) +
           wrap(to_utf8(item.get<std::string>()), terminal.screen_width() - 10, 10) + "\n";
    is_first = false;
  }
}

std::string first_event(const Json& event, const Terminal& terminal) {
  if (!event.is_object()) return {};
  std::string head = when(event, "time");
  if (const std::string rank = integer_text(event, "rank"); !rank.empty()) head += "  rank " + rank;
  if (const std::string node = text_of(event, "node"); !node.empty()) head += "  on " + node;
  if (const std::string how = exit_text(event); !how.empty()) head += "  " + how;
  std::string out = "\n" + label("first", terminal) + head + "\n";
  if (const std::string message = text_of(event, "message"); !message.empty())
    out += std::string(10, ' ') + wrap(message, terminal.screen_width() - 10, 10) + "\n";
  const std::string detail = text_of(event, "detail");
  const auto lines = split(trim(detail), "\n");
  constexpr std::size_t lines_shown = 6;
  const std::size_t from = lines.size() > lines_shown ? lines.size() - lines_shown : 0;
  for (std::size_t i = from; !detail.empty() && i < lines.size(); ++i)
    out += std::string(10, ' ') +
           terminal.dim("│ " + one_line(lines[i], terminal.screen_width() - 12)) + "\n";
  return out;
}

std::string losses(const Json& list, const Terminal& terminal) {
  if (!list.is_array() || list.empty()) return {};
  std::string out = "\n";
  bool is_first = true;
  for (const Json& loss : list) {
    const std::string note = text_of(loss, "note");
    out += label(is_first ? "lost" : "", terminal) + pad_left(span(number_of(loss, "time")), 9) +
           "  " + text_of(loss, "what") + (note.empty() ? "" : terminal.dim("  " + note)) + "\n";
    is_first = false;
  }
  return out;
}

}  // namespace

std::string why_screen(const Json& answer, const Terminal& terminal) {
  const Json& why = part_of(answer, "why");
  const Json& job = part_of(answer, "job");
  const std::string word = text_of(why, "answer");
  const bool is_calm = word == "fine" || word == "waiting" || word == "cancelled";
  const std::string verdict = answer_words(word);
  std::string out = (is_calm ? terminal.green("▌ ") : terminal.red("▌ ")) +
                    terminal.bold(wrap(verdict + ": " + text_of(why, "headline"),
                                       terminal.screen_width() - 2, 2)) +
                    "\n";
  out +=
      terminal.dim(fmt::format("  job {}  {}  {}{}", text_of(job, "id"),
                               one_line(text_of(job, "name"), 50), text_of(job, "state"),
                               text_of(job, "nodes").empty() ? "" : "  " + text_of(job, "nodes"))) +
      "\n";
  out += first_event(part_of(why, "first"), terminal);
  out += losses(part_of(why, "lost"), terminal);
  add_list(out, "do", part_of(why, "advice"), terminal);
  add_list(out, "evidence", part_of(why, "evidence"), terminal);
  add_list(out, "unknown", part_of(why, "unknown"), terminal);
  return out;
}

std::string diagnosis_screen(const Json& diagnosis, const Terminal& terminal) {
  const bool is_slow = text_of(diagnosis, "outcome") == "slow_rank";
  std::string out;
  bool is_first = true;
  for (const std::string& line : diagnosis_lines(diagnosis)) {
    const std::string text = wrap(line, terminal.screen_width() - 2, 2);
    out += (is_slow ? terminal.red("▌ ") : terminal.green("▌ ")) +
           (is_first ? terminal.bold(text) : text) + "\n";
    is_first = false;
  }
  add_list(out, "evidence", part_of(diagnosis, "evidence"), terminal);
  return out;
}

namespace {

int explain_job(const JobArguments& arguments) {
  Session session(arguments.common);
  const bool as_json = arguments.common.json;
  const auto answer = session.get(job_path(arguments.id, "/why"));
  if (!answer) return end_with(answer.error(), as_json);
  if (as_json)
    print_json(*answer);
  else
    print(why_screen(*answer, session.terminal()));
  return exit_fine;
}

int diagnose_job(const JobArguments& arguments) {
  Session session(arguments.common);
  const bool as_json = arguments.common.json;
  const auto answer = session.get(job_path(arguments.id, "/diagnosis"));
  if (!answer) return end_with(answer.error(), as_json);
  const Json& diagnosis = part_of(*answer, "diagnosis");
  if (as_json)
    print_json(*answer);
  else
    print(diagnosis_screen(diagnosis, session.terminal()));
  return text_of(diagnosis, "outcome") == "slow_rank" ? exit_found : exit_fine;
}

}  // namespace

void add_judgement_commands(CLI::App& root, Plan& plan) {
  auto why = std::make_shared<JobArguments>();
  CLI::App* explain = root.add_subcommand(
      "why", "Explains a job on one screen: my code, my data, or your machine?");
  add_examples(*explain,
               "vetta why 4711\n"
               "vetta why 4711_3 --json");
  explain->add_option("job", why->id, "A job id: running, failed or finished")
      ->required()
      ->type_name("JOB");
  add_common(*explain, why->common, Output::value);
  explain->callback(choose(plan, why, explain_job));

  CLI::App* noun = root.add_subcommand("diagnose", "Judges what the ranks' step marks show");
  noun->set_help_flag("-h,--help", "Show this help");
  add_examples(*noun,
               "vetta diagnose job 4711\n"
               "vetta diagnose job 4711 --json");
  auto diagnose = std::make_shared<JobArguments>();
  CLI::App* job = noun->add_subcommand(
      "job", "Names the rank that holds the others, if one does (then the exit code is 3)");
  add_examples(*job,
               "vetta diagnose job 4711\n"
               "vetta diagnose job 4711 --json | jq .diagnosis.lost_share");
  job->add_option("job", diagnose->id, "A job id")->required()->type_name("JOB");
  add_common(*job, diagnose->common, Output::value);
  job->callback(choose(plan, diagnose, diagnose_job));
}

}  // namespace vetta::cli
