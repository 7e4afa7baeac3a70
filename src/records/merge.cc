// SPDX-License-Identifier: Apache-2.0
#include "records/merge.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace vetta::records {
namespace {

using model::Attempt;

constexpr Duration requeue_delay_max = std::chrono::minutes(10);

int standing(const Attempt& attempt, ViewSource source) {
  return model::is_final(attempt.state) ? static_cast<int>(source) : 0;
}

bool is_better_state(const Told& view, const Told& have, bool is_stale) {
  const int of_view = standing(view.attempt, view.source);
  const int of_have = standing(have.attempt, have.source);
  if (of_view != of_have) return of_view > of_have;
  if (is_stale && of_view == 0) return false;
  // Accounting tells of a job that lives, too, and later than it was so: the controller knows.
  if (of_view == 0 && view.source != have.source) return view.source == ViewSource::controller;
  return std::tuple(view.as_of, static_cast<int>(view.source)) >=
         std::tuple(have.as_of, static_cast<int>(have.source));
}

bool is_better_description(const Told& view, const Told& have, bool is_stale) {
  if (view.source == ViewSource::inferred) return false;
  const bool by_controller = view.source == ViewSource::controller;
  const bool had_controller = have.described_by == ViewSource::controller;
  if (by_controller != had_controller) return by_controller;
  return !is_stale && view.described_at >= have.described_at;
}

template <typename T>
void fill(std::optional<T>& to, const std::optional<T>& from) {
  if (!to) to = from;
}

void fill(std::string& to, const std::string& from) {
  if (to.empty()) to = from;
}

/// The state of `better`, with what it does not know from `other`.
void take_state(Attempt& out, const Attempt& better, const Attempt& other) {
  const bool is_final = model::is_final(better.state);
  out.state = better.state;
  out.state_text = better.state_text;
  out.reason = better.reason;
  out.dependency = better.dependency;
  out.expected_start = better.expected_start;
  out.start = better.start;
  out.end = better.end;
  out.suspended_total = better.suspended_total;
  out.exit_code = better.exit_code;
  out.exit_signal = better.exit_signal;
  out.derived_exit_code = better.derived_exit_code;
  out.derived_exit_signal = better.derived_exit_signal;
  if (better.state != model::JobState::pending) fill(out.start, other.start);
  fill(out.suspended_total, other.suspended_total);
  fill(out.derived_exit_code, other.derived_exit_code);
  fill(out.derived_exit_signal, other.derived_exit_signal);
  if (!is_final) return;
  fill(out.end, other.end);
  fill(out.exit_code, other.exit_code);
  fill(out.exit_signal, other.exit_signal);
}

void take_description(Attempt& out, const Attempt& better, const Attempt& other) {
  const auto text = [&](std::string Attempt::* member) {
    out.*member = better.*member;
    fill(out.*member, other.*member);
  };
  for (auto member :
       {&Attempt::sluid, &Attempt::user, &Attempt::account, &Attempt::partition, &Attempt::qos,
        &Attempt::name, &Attempt::experiment, &Attempt::nodes, &Attempt::tres, &Attempt::work_dir,
        &Attempt::command, &Attempt::std_out, &Attempt::std_err, &Attempt::comment})
    text(member);
  const auto number = [&](auto member) {
    out.*member = better.*member;
    fill(out.*member, other.*member);
  };
  number(&Attempt::uid);
  number(&Attempt::eligible);
  number(&Attempt::time_limit);
  number(&Attempt::node_count);
  number(&Attempt::cpus);
  number(&Attempt::tasks);
  number(&Attempt::memory_bytes);
  number(&Attempt::gpus);
  number(&Attempt::priority);
  number(&Attempt::preempted_by);
  number(&Attempt::het);
  number(&Attempt::array);
  // The record of an array's waiting tasks becomes the record of its last task.
  if (out.array && !out.array->task_id && other.array && other.array->task_id)
    out.array = other.array;
}

/// Spans of both by start; a known end stays, the earlier of two.
void unite_suspended(Attempt& out, const Attempt& a, const Attempt& b) {
  std::map<Time, std::optional<Time>> spans;
  for (const auto* attempt : {&a, &b}) {
    for (const auto& span : attempt->suspended) {
      auto [at, is_new] = spans.try_emplace(span.start, span.end);
      if (is_new || !span.end) continue;
      at->second = at->second ? std::min(*at->second, *span.end) : span.end;
    }
  }
  out.suspended.clear();
  for (const auto& [start, end] : spans) out.suspended.push_back({start, end});
}

/// Opens and closes spans where only the state tells of them.
void follow_suspension(Attempt& out, const Told& before, const Told& after) {
  const bool is_suspended = after.attempt.state == model::JobState::suspended;
  const bool has_open = !out.suspended.empty() && !out.suspended.back().end;
  if (is_suspended && !has_open && after.as_of > before.as_of)
    out.suspended.push_back({after.as_of, {}});
  if (!is_suspended && has_open) {
    const Time end = out.end.value_or(after.as_of);
    out.suspended.back().end = std::max(end, out.suspended.back().start);
  }
}

}  // namespace

Told told(const Attempt& attempt, ViewSource source, Time as_of) {
  return {attempt, source, as_of, source, as_of};
}

Told first(Told view) {
  if (view.attempt.state == model::JobState::suspended && view.attempt.suspended.empty())
    view.attempt.suspended.push_back({view.as_of, {}});
  return view;
}

Told merge(const Told& have, const Told& view, bool is_stale) {
  const bool state_wins = is_better_state(view, have, is_stale);
  const bool description_wins = is_better_description(view, have, is_stale);
  const Told& stated = state_wins ? view : have;
  Told out = stated;
  take_state(out.attempt, stated.attempt, state_wins ? have.attempt : view.attempt);
  const Told& described = description_wins ? view : have;
  take_description(out.attempt, described.attempt, description_wins ? have.attempt : view.attempt);
  out.described_by = described.described_by;
  out.described_at = described.described_at;
  out.attempt.restart = std::max(have.attempt.restart, view.attempt.restart);
  unite_suspended(out.attempt, have.attempt, view.attempt);
  if (state_wins) follow_suspension(out.attempt, have, view);
  return out;
}

bool continues(const Attempt& earlier, const Attempt& later) {
  if (earlier.user != later.user) return false;
  if (later.restart > earlier.restart) return true;
  return earlier.end && later.key.submit <= *earlier.end + requeue_delay_max;
}

}  // namespace vetta::records
