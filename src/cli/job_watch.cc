// SPDX-License-Identifier: Apache-2.0
// `vetta job watch`: the screen of a job, painted again every second; into a pipe a line a change.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>

#include "cli/job.h"
#include "cli/value.h"
#include "core/error_table.h"
#include "core/text.h"

namespace vetta::cli {
namespace {

constexpr Duration period = std::chrono::seconds(1);
constexpr Duration burst_every = std::chrono::seconds(10);
constexpr int failures_max = 30;  ///< in a row: vettad may be restarted meanwhile

/// Waits, but not when interrupted.
void pause(Duration span) {
  const Duration until = monotonic_now() + span;
  while (!interrupted() && monotonic_now() < until)
    poll(nullptr, 0, 100);  // a signal ends it early
}

/// The second screen of the terminal: what was there before comes back at the end.
class Screen {
 public:
  explicit Screen(bool is_on) : is_on_(is_on) {
    if (is_on_) print("\x1b[?1049h\x1b[?25l");
  }

  ~Screen() { leave(); }

  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void paint(std::string_view text) const {
    std::string frame = "\x1b[H";
    for (const std::string_view line : split(text, "\n")) frame += std::string(line) + "\x1b[K\n";
    print(frame + "\x1b[J");
  }

  void leave() {
    if (is_on_) print("\x1b[?25h\x1b[?1049l");
    is_on_ = false;
  }

 private:
  bool is_on_;
};

std::int64_t newest_step(const Json& view) {
  std::int64_t newest = -1;
  for (const RankPace& pace : paces(part_of(view, "steps"))) newest = std::max(newest, pace.step);
  return newest;
}

/// What a pipe gets: state, step and diagnosis in one line, or the same as JSON.
std::string line_of(const Json& view, bool as_json) {
  const Json& job = part_of(part_of(view, "detail"), "job");
  const Json& diagnosis = part_of(part_of(view, "diagnosis"), "diagnosis");
  const std::int64_t step = newest_step(view);
  if (as_json)
    return model::dump({{"schema", 1},
                        {"job", job},
                        {"step", step < 0 ? Json(nullptr) : Json(step)},
                        {"diagnosis", diagnosis}}) +
           "\n";
  std::string line = text_of(job, "id") + " " + text_of(job, "state");
  if (step >= 0) line += fmt::format("  step {}", step);
  if (diagnosis.is_object()) line += "  " + diagnosis_lines(diagnosis).front();
  return line + "\n";
}

class Watch {
 public:
  explicit Watch(const JobArguments& arguments)
      : arguments_(arguments), session_(arguments.common) {}

  int run() {
    Screen screen(is_painted());
    while (!interrupted()) {
      auto view = fetch_job(session_, arguments_.id, 50);
      if (!view) {
        if (!may_try_again(view.error())) {
          screen.leave();
          return end_with(view.error(), arguments_.common.json);
        }
        pause(period);
        continue;
      }
      failures_ = 0;
      is_begun_ = true;
      show(*view, screen);
      if (is_over(text_of(part_of(part_of(*view, "detail"), "job"), "state"))) {
        screen.leave();
        if (is_painted()) print(job_screen(*view, session_.terminal(), now(), false));
        return exit_fine;
      }
      keep_burst();
      pause(period);
    }
    return exit_interrupted;
  }

 private:
  [[nodiscard]] bool is_painted() const {
    return session_.terminal().is_terminal && !arguments_.common.json;
  }

  bool may_try_again(const Error& error) {
    const bool is_away = error.code == Code::unavailable || error.code == Code::timeout;
    return is_begun_ && is_away && ++failures_ < failures_max;
  }

  void show(const Json& view, const Screen& screen) {
    if (is_painted()) {
      screen.paint(job_screen(view, session_.terminal(), now(), false) + "\n" +
                   session_.terminal().dim("every second, until the job ends; ^C leaves"));
      return;
    }
    std::string line = line_of(view, arguments_.common.json);
    if (line != last_line_) print(line);
    last_line_ = std::move(line);
  }

  /// A refusal is no reason to stop: the job is shown at the usual rate then.
  void keep_burst() {
    if (monotonic_now() < next_burst_) return;
    next_burst_ = monotonic_now() + burst_every;
    if (!session_.post(job_path(arguments_.id, "/burst?seconds=30"))) return;
  }

  JobArguments arguments_;
  Session session_;
  std::string last_line_;
  Duration next_burst_{};
  int failures_ = 0;
  bool is_begun_ = false;
};

}  // namespace

int watch_job(const JobArguments& arguments) {
  listen_for_interrupts();
  return Watch(arguments).run();
}

}  // namespace vetta::cli
