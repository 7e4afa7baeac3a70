// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/job.h"
#include "cli/table.h"
#include "cli/value.h"
#include "core/error_table.h"
#include "core/text.h"

namespace vetta::cli {
namespace {

constexpr std::size_t ranks_shown = 32;
constexpr std::size_t nodes_shown = 12;
constexpr std::size_t columns_beside_bar = 65;
constexpr std::string_view sign = " ◀ holds the others", short_sign = " ◀";

/// The lower one of two middles: of two ranks the faster is the measure.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string title(const Json& job, const Terminal& terminal, Time now) {
  const std::string state = text_of(job, "state");
  std::string left = "job " + text_of(job, "id");
  if (const auto attempt = number_of(job, "attempt"); attempt && *attempt > 1)
    left += fmt::format(" (attempt {})", static_cast<int>(*attempt));
  left += "  " + one_line(text_of(job, "name"), 50);
  std::string right = state;
  if (const std::string how = exit_text(job); !how.empty()) right += ", " + how;
  if (const auto run = run_seconds(job, now)) right += "  " + span(run);
  if (const auto limit = number_of(job, "time_limit")) right += " of " + span(limit);
  const std::size_t have = width(left) + width(right);
  const std::size_t all = terminal.screen_width();
  const std::string gap(have + 2 < all ? all - have : 2, ' ');
  const bool is_bad = is_over(state) && state != "COMPLETED";
  return terminal.bold(left) + gap + (is_bad ? terminal.red(right) : terminal.green(right)) + "\n";
}

void add_word(std::string& line, std::string_view label, const std::string& value) {
  if (value.empty()) return;
  line += (line.empty() ? "" : "   ") + std::string(label) + " " + value;
}

std::string who(const Json& job, const Terminal& terminal) {
  std::string line;
  add_word(line, "user", text_of(job, "user"));
  add_word(line, "account", text_of(job, "account"));
  add_word(line, "partition", text_of(job, "partition"));
  add_word(line, "qos", text_of(job, "qos"));
  add_word(line, "nodes", text_of(job, "nodes"));
  add_word(line, "cpus", integer_text(job, "cpus"));
  add_word(line, "gpus", integer_text(job, "gpus"));
  add_word(line, "memory", bytes_text(number_of(job, "memory_bytes")));
  return terminal.dim(wrap(line, terminal.screen_width(), 0)) + "\n";
}

std::string heading(std::string_view text, const Terminal& terminal) {
  return "\n" + terminal.bold(text) + "\n";
}

std::string timeline(const Json& job, const Terminal& terminal, Time now) {
  const auto submit = time_of(job, "submit");
  const auto start = time_of(job, "start");
  const auto end = time_of(job, "end");
  if (!submit) return {};
  const Time last = end.value_or(now);
  const Time begun = std::min(start.value_or(last), last);
  const double waited = std::max(0.0, seconds(begun - *submit));
  const double ran = std::max(0.0, seconds(last - begun));
  const double whole = std::max(waited + ran, 1e-9);
  const std::size_t cells = std::min<std::size_t>(terminal.screen_width() - 4, 60);
  std::string out = heading("time", terminal);
  const auto queue_cells = static_cast<std::size_t>(
      std::lround(std::clamp(waited / whole, 0.0, 1.0) * static_cast<double>(cells)));
  out += "  " + bar(0, 1, queue_cells) + terminal.cyan(bar(1, 0, cells - queue_cells)) + "\n";
  out += "  submitted " + local_short(*submit) + "   waited " + span(waited);
  if (start) out += "   started " + local_short(*start) + "   ran " + span(ran);
  if (end) out += "   ended " + local_short(*end);
  out += "\n";
  if (!start && !text_of(job, "reason").empty())
    out +=
        "  waits for " + text_of(job, "reason") +
        (number_of(job, "expected_start") ? ", Slurm expects " + when(job, "expected_start") : "") +
        "\n";
  if (const std::string gap = text_of(job, "gap"); !gap.empty())
    out += "  " + terminal.yellow(gap) + "\n";
  return out;
}

std::string devices_of(const Json& allocation) {
  std::string out;
  for (const Json& device : part_of(allocation, "devices"))
    if (device.is_string()) out += (out.empty() ? "" : ",") + device.get<std::string>();
  return out;
}

bool has_agent(const Json& detail, const std::string& node) {
  for (const Json& agent : part_of(detail, "agents"))
    if (text_of(agent, "node") == node) return is_true(agent, "is_connected");
  return false;
}

std::string nodes_part(const Json& detail, const Terminal& terminal) {
  const Json& allocations = part_of(detail, "allocations");
  if (!allocations.is_array() || allocations.empty()) return {};
  Table table({{.name = "node"},
               {.name = "cpus", .is_right = true},
               {.name = "memory", .is_right = true},
               {.name = "devices", .width_min = 10},
               {.name = "agent"}});
  std::size_t shown = 0;
  for (const Json& allocation : allocations) {
    if (++shown > nodes_shown) continue;
    std::string memory = bytes_text(number_of(allocation, "memory_bytes"));
    std::erase(memory, ' ');
    const std::string node = text_of(allocation, "node");
    table.add({node, integer_text(allocation, "cpus"), memory, devices_of(allocation),
               has_agent(detail, node) ? "connected" : "none"});
  }
  std::string out = heading("nodes", terminal);
  const std::string text = table.text({}, terminal, true).value_or("");
  for (const std::string_view line : split(trim(text), "\n"))
    out += "  " + std::string(line) + "\n";
  if (shown > nodes_shown) out += fmt::format("  … and {} more\n", shown - nodes_shown);
  return out;
}

std::string attempts_part(const Json& detail, const Terminal& terminal) {
  const Json& attempts = part_of(detail, "attempts");
  if (!attempts.is_array() || attempts.size() < 2) return {};
  std::string out = heading("attempts", terminal);
  for (const Json& attempt : attempts)
    out += fmt::format("  {}  {}  {} – {}\n", integer_text(attempt, "attempt"),
                       pad(text_of(attempt, "state"), 12), when(attempt, "start"),
                       when(attempt, "end"));
  return out;
}

/// What is left of the line for the bar, and which sign fits behind it.
std::size_t bar_cells(const Terminal& terminal) {
  const std::size_t used = columns_beside_bar + width(sign);
  return std::clamp<std::size_t>(std::max(terminal.screen_width(), used) - used, 12, 28);
}

std::string culprit_sign(const Terminal& terminal) {
  const std::size_t used = columns_beside_bar + bar_cells(terminal) + width(sign);
  return std::string(used <= terminal.screen_width() ? sign : short_sign);
}

std::string pace_line(const RankPace& pace, double slowest, double typical_own, bool is_culprit,
                      const Terminal& terminal) {
  const double own = slowest > 0 ? pace.own_seconds / slowest : 0;
  const double wait = slowest > 0 ? pace.wait_seconds / slowest : 0;
  const std::string drawn = bar(own, wait, bar_cells(terminal));
  std::string line =
      fmt::format("  {} {} {} {}  ", pad_left(std::to_string(pace.rank), 5), pad(pace.node, 10),
                  pad_left(pace.step < 0 ? "-" : std::to_string(pace.step), 8),
                  pad_left(span(pace.step_seconds), 8));
  line += is_culprit ? terminal.red(drawn) : terminal.cyan(drawn);
  line += fmt::format(" {}", pad_left(span(pace.own_seconds), 8));
  line += pad_left(pace.has_wait ? span(pace.wait_seconds) : "-", 10);
  line +=
      pad_left(typical_own > 0 ? fmt::format("{:.2f}", pace.own_seconds / typical_own) : "-", 8);
  if (is_culprit) line += terminal.red(culprit_sign(terminal));
  return line + "\n";
}

std::string ranks_part(const Json& view, const Terminal& terminal, bool all_ranks) {
  std::vector<RankPace> all = paces(part_of(view, "steps"));
  if (all.empty()) {
    const Json& ranks = part_of(part_of(view, "ranks"), "ranks");
    if (!ranks.is_array() || ranks.empty()) return {};
    return heading("ranks", terminal) +
           fmt::format("  {} registered, none has sent step marks\n", ranks.size());
  }
  const auto culprit = number_of(part_of(part_of(view, "diagnosis"), "diagnosis"), "rank");
  double slowest = 0;
  std::vector<double> owns;
  for (const RankPace& pace : all) {
    slowest = std::max({slowest, pace.step_seconds, pace.own_seconds + pace.wait_seconds});
    owns.push_back(pace.own_seconds);
  }
  const double typical = median(owns);
  const std::size_t count = all.size();
  if (!all_ranks && count > ranks_shown) {
    std::ranges::stable_sort(all, std::ranges::greater(), &RankPace::own_seconds);
    all.resize(ranks_shown / 2);
  }
  std::string out = heading("ranks", terminal);
  out += terminal.dim("   RANK NODE           STEP     TIME  " +
                      pad("OWN█ WAIT░", bar_cells(terminal)) + "      OWN      WAIT   RATIO") +
         "\n";
  for (const RankPace& pace : all)
    out += pace_line(pace, slowest, typical, culprit && *culprit == static_cast<double>(pace.rank),
                     terminal);
  if (all.size() < count)
    out += terminal.dim(
        fmt::format("  … the {} slowest of {} ranks; --ranks shows all\n", all.size(), count));
  return out;
}

}  // namespace

std::vector<RankPace> paces(const Json& steps) {
  std::vector<RankPace> all;
  for (const Json& rank : part_of(steps, "ranks")) {
    const Json& marks = part_of(rank, "marks");
    if (!marks.is_array() || marks.empty()) continue;
    std::vector<double> times, owns, waits;
    for (const Json& mark : marks) {
      const double duration = number_of(mark, "duration").value_or(0);
      const auto wait = number_of(part_of(mark, "phases"), "allreduce");
      times.push_back(duration);
      waits.push_back(wait.value_or(0));
      owns.push_back(std::max(0.0, duration - wait.value_or(0)));
    }
    RankPace pace;
    pace.rank = static_cast<std::int64_t>(number_of(rank, "rank").value_or(-1));
    pace.node = text_of(rank, "node");
    pace.step = static_cast<std::int64_t>(number_of(marks.back(), "step").value_or(-1));
    pace.has_wait = number_of(part_of(marks.back(), "phases"), "allreduce").has_value();
    pace.step_seconds = median(times);
    pace.own_seconds = median(owns);
    pace.wait_seconds = median(waits);
    all.push_back(pace);
  }
  return all;
}

std::vector<std::string> diagnosis_lines(const Json& diagnosis) {
  const std::string outcome = text_of(diagnosis, "outcome");
  std::vector<std::string> lines;
  if (outcome == "slow_rank") {
    const std::string phase = text_of(diagnosis, "phase");
    lines.push_back(fmt::format("rank {} on {} holds the others: {} of the step time is lost",
                                integer_text(diagnosis, "rank"), text_of(diagnosis, "node"),
                                percent(number_of(diagnosis, "lost_share").value_or(0))));
    lines.push_back(fmt::format(
        "cause {}{}   last in {} of {} steps   confidence {:.2f}   lost so far {}",
        text_of(diagnosis, "cause"), phase.empty() ? "" : ", in its " + phase + " phase",
        percent(number_of(diagnosis, "persistence").value_or(0)), integer_text(diagnosis, "steps"),
        number_of(diagnosis, "confidence").value_or(0), span(number_of(diagnosis, "lost_time"))));
  } else if (outcome == "nothing_wrong") {
    lines.push_back(fmt::format("no rank stands out in {} steps of {} (median)",
                                integer_text(diagnosis, "steps"),
                                span(number_of(diagnosis, "median_step"))));
  } else {
    lines.push_back("cannot tell yet whether a rank is slow");
  }
  if (const std::string reason = text_of(diagnosis, "reason"); !reason.empty())
    lines.push_back(reason);
  return lines;
}

Result<Json> fetch_job(Session& session, const std::string& id, std::size_t last_steps) {
  Json view;
  view["detail"] = VETTA_TRY(session.get(job_path(id)));
  view["ranks"] = VETTA_TRY(session.get(job_path(id, "/ranks")));
  const Json& marks = part_of(part_of(view, "detail"), "marks");
  if (number_of(marks, "marks").value_or(0) > 0) {
    view["steps"] =
        VETTA_TRY(session.get(job_path(id, "/steps?last=" + std::to_string(last_steps))));
    auto diagnosis = session.get(job_path(id, "/diagnosis"));
    if (diagnosis)
      view["diagnosis"] = std::move(*diagnosis);
    else if (diagnosis.error().code != Code::not_found)
      return std::unexpected(diagnosis.error());
  }
  return view;
}

std::string job_screen(const Json& view, const Terminal& terminal, Time now, bool all_ranks) {
  const Json& job = part_of(part_of(view, "detail"), "job");
  std::string out = title(job, terminal, now) + who(job, terminal);
  const Json& diagnosis = part_of(part_of(view, "diagnosis"), "diagnosis");
  if (diagnosis.is_object()) {
    out += "\n";
    const bool is_slow = text_of(diagnosis, "outcome") == "slow_rank";
    bool is_first = true;
    for (const std::string& line : diagnosis_lines(diagnosis)) {
      const std::string text = wrap(line, terminal.screen_width() - 2, 2);
      out += is_slow ? terminal.red("▌ ") : terminal.green("▌ ");
      out += (is_first ? terminal.bold(text) : text) + "\n";
      is_first = false;
    }
  }
  return out + timeline(job, terminal, now) + attempts_part(part_of(view, "detail"), terminal) +
         ranks_part(view, terminal, all_ranks) + nodes_part(part_of(view, "detail"), terminal);
}

int show_job(const JobArguments& arguments) {
  Session session(arguments.common);
  const bool as_json = arguments.common.json;
  if (as_json) {
    const auto detail = session.get(job_path(arguments.id));
    if (!detail) return end_with(detail.error(), true);
    print_json(*detail);
    return exit_fine;
  }
  const auto view = fetch_job(session, arguments.id, 100);
  if (!view) return end_with(view.error(), false);
  print(job_screen(*view, session.terminal(), now(), arguments.all_ranks));
  return exit_fine;
}

}  // namespace vetta::cli
