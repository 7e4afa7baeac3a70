// SPDX-License-Identifier: Apache-2.0
#include "collect/delivery.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "core/text.h"

namespace vetta::collect {
namespace {

/// A rank whose job is not known to vettad is offered again after 1 s, 2 s, … this.
constexpr int unplaced_backoff_max = 5;  // 2^4 = 16 s
/// And with few marks until it is placed.
constexpr std::size_t slots_unplaced = 64;
constexpr std::size_t slots_a_rank = 1024;
/// A place from before its rank's start (less what clocks may have been set by) is none.
constexpr Duration clock_step_max = std::chrono::minutes(1);
constexpr std::int64_t duration_max_ns = std::int64_t{7} * 24 * 3600 * 1'000'000'000;

std::size_t size_of(const model::Rank& rank) {
  return 150 + rank.step_id.size() + rank.node.size() + rank.devices.size();
}

std::size_t size_of(const model::Event& event) {
  return 150 + event.node.size() + event.message.size() + event.detail.size() +
         event.source.size() + event.dedup.size();
}

constexpr std::size_t mark_bytes = 90;
constexpr std::size_t part_bytes = 64;  ///< of a rank's end, place and head of marks, each

std::string_view last_line(std::string_view text) {
  text = trim(text.substr(0, text.find('\n')));
  return text;
}

}  // namespace

std::optional<model::Event> event_of(const RankState& state, const sys::RingNote& note) {
  model::Event event;
  switch (note.kind) {
    case sys::RingNoteKind::exception:
      event.kind = model::EventKind::exception;
      event.message = one_line(last_line(note.text));  // an exception's note begins with it
      event.detail = to_utf8(note.text);
      break;
    case sys::RingNoteKind::probe_fault:
      event.kind = model::EventKind::gap;
      event.message = "the probe switched itself off: " + one_line(last_line(note.text));
      event.detail = to_utf8(note.text);
      break;
    case sys::RingNoteKind::loop_ended: return std::nullopt;  // the rank's end says it
  }
  event.time = from_epoch_nanoseconds(note.wall_ns);
  event.node = state.rank.node;
  event.rank = state.rank.rank;
  event.rank_id = state.rank.rank_id;
  event.source = "probe";
  event.dedup = fmt::format("note-{:016x}-{}", state.rank.rank_id, note.sequence);
  return event;
}

model::Event event_of_held_notes(const RankState& state, std::uint64_t count, Time time) {
  model::Event event;
  event.kind = model::EventKind::gap;
  event.time = time;
  event.message = fmt::format("{} more notes of this rank were not kept: {} are", count,
                              Delivery::notes_a_rank);
  event.node = state.rank.node;
  event.rank = state.rank.rank;
  event.rank_id = state.rank.rank_id;
  event.source = "agent";
  event.dedup = fmt::format("notes-{:016x}", state.rank.rank_id);
  return event;
}

std::optional<model::Mark> mark_of(const sys::RingStep& step) {
  if (step.duration_ns < 0 || step.duration_ns > duration_max_ns || step.start_wall_ns < 0)
    return std::nullopt;
  model::Mark mark;
  mark.sequence = step.sequence;
  mark.step = step.step;
  mark.start = from_epoch_nanoseconds(step.start_wall_ns);
  mark.duration = Duration(step.duration_ns);
  for (std::size_t phase = 0; phase < model::phase_count; ++phase) {
    const std::int64_t ns = step.phases_ns.at(phase);
    if (ns >= 0 && ns <= duration_max_ns) mark.phases.at(phase) = Duration(ns);
  }
  mark.samples = step.samples;
  mark.loss = step.loss;
  mark.source = step.source == 2 ? model::MarkSource::injected : model::MarkSource::hand;
  return mark;
}

std::optional<model::RankNow> place_of(const RankState& state, const sys::RingContent& content) {
  if (!content.now) return std::nullopt;
  const sys::RingNow& said = *content.now;
  model::RankNow place;
  if (said.step >= 0) place.step = said.step;
  if (said.phase > model::phase_count) return std::nullopt;
  if (said.phase > 0) place.phase = static_cast<model::Phase>(said.phase - 1);
  place.since = from_epoch_nanoseconds(said.wall_ns);
  place.after = content.written;
  if (place.since + clock_step_max < state.rank.start) return std::nullopt;
  return place;
}

Delivery::Cursor& Delivery::cursor(std::uint64_t rank_id) {
  const auto [it, is_new] = cursors_.try_emplace(rank_id);
  if (is_new) {
    it->second.marks_sent = it->second.marks_acknowledged = rings_.acknowledged(rank_id);
  }
  return it->second;
}

void Delivery::connected(std::uint16_t protocol) {
  takes_places_ = protocol >= model::protocol_of_places;
  for (auto& [id, cursor] : cursors_) {
    cursor.revision_sent = 0;
    cursor.not_before = {};
  }
}

void Delivery::disconnected() {
  for (auto& [id, cursor] : cursors_) {
    cursor.marks_sent = cursor.marks_acknowledged;
    cursor.notes_sent = cursor.notes_acknowledged;
    cursor.overwritten = cursor.overwritten_acknowledged;
    cursor.is_end_sent = cursor.is_end_acknowledged;
    cursor.place_sent = cursor.place_acknowledged;
    cursor.revision_sent = 0;
  }
  for (auto it = in_flight_.rbegin(); it != in_flight_.rend(); ++it)
    if (it->item != 0) again_.emplace_front(it->sequence, it->item);
  in_flight_.clear();
}

std::optional<model::Batch> Delivery::next_item() {
  std::uint64_t sequence = 0;
  std::uint64_t id = 0;
  while (!again_.empty() && id == 0) {
    if (spool_.find(again_.front().second) != nullptr)
      std::tie(sequence, id) = again_.front();
    else
      ++dropped_;
    again_.pop_front();
  }
  if (id == 0) {
    if (next_item_ < spool_.first()) {
      dropped_ += spool_.first() - next_item_;
      next_item_ = spool_.first();
    }
    if (spool_.find(next_item_) == nullptr) return std::nullopt;
    id = next_item_++;
    sequence = ++sequence_;
  }
  const SpoolItem& item = *spool_.find(id);
  model::Batch batch;
  batch.sequence = sequence;
  batch.rank_samples = item.rank_samples;
  batch.node_samples = item.node_samples;
  batch.events = item.events;
  in_flight_.push_back({sequence, {}, id});
  return batch;
}

std::optional<model::Batch> Delivery::next(Duration monotonic, bool with_marks) {
  if (in_flight_.size() >= in_flight_max) {
    has_backlog_ = true;
    return std::nullopt;
  }
  std::optional<model::Batch> batch;
  if (!again_.empty()) batch = next_item();  // old numbers go before new ones
  if (!batch) batch = next_of_ranks(monotonic, with_marks);
  if (!batch) batch = next_item();
  if (!batch) return std::nullopt;
  batch->agent_id = agent_id_;
  batch->dropped_batches = dropped_ + given_up_;
  return batch;
}

/// Begins where the one before had no more room, so that nobody who has much to say keeps others
/// from theirs.
std::optional<model::Batch> Delivery::next_of_ranks(Duration monotonic, bool with_marks) {
  model::Batch batch;
  InFlight flight;
  slots_left_ = slots_a_batch;
  bytes_ = 0;
  has_backlog_ = false;
  const auto& ranks = ranks_.all();
  auto it = ranks.lower_bound(std::exchange(next_rank_, 0));
  for (std::size_t i = 0; i < ranks.size(); ++i, ++it) {
    if (it == ranks.end()) it = ranks.begin();
    if (flight.parts.size() >= ranks_a_batch || bytes_ >= bytes_a_batch) {
      has_backlog_ = true;
      if (next_rank_ == 0) next_rank_ = it->first;
      break;
    }
    add_rank(it->second, monotonic, with_marks, batch, flight);
  }
  if (flight.parts.empty()) return std::nullopt;
  batch.sequence = flight.sequence = ++sequence_;
  in_flight_.push_back(std::move(flight));
  return batch;
}

Delivery::Encoded Delivery::encode(const model::Batch& batch, std::size_t bytes_max) {
  Encoded out{model::encode(model::Frame(batch)), false};
  if (out.bytes.size() <= bytes_max) return out;
  model::Batch empty;
  empty.agent_id = batch.agent_id;
  empty.sequence = batch.sequence;
  empty.dropped_batches = dropped_ + ++given_up_;
  return {model::encode(model::Frame(std::move(empty))), true};
}

void Delivery::add_place(const RankState& state, Cursor& cursor, const sys::RingContent& content,
                         Duration monotonic, model::Batch& batch, Part& part) {
  const auto place = place_of(state, content);
  if (content.written != cursor.written) {
    cursor.written = content.written;
    cursor.quiet_since = monotonic;
  }
  if (!place || !takes_places_) return;
  if (place == cursor.place_sent) return;
  // One long step (a checkpoint) does not make the rank a slow one.
  const Duration step = std::ranges::min(cursor.last_steps);
  const Duration pace = std::clamp(5 * step, place_after_min, place_after_max);
  // Told before, in this same silence: true no longer, and no mark will say so.
  const bool is_told = cursor.place_sent && cursor.place_sent->after == place->after;
  const bool is_due = monotonic - (is_told ? cursor.place_sent_at : cursor.quiet_since) >= pace;
  const bool is_last = state.is_ended() && (place->step || place->phase);
  if (!is_due && !is_last) return;
  batch.places.push_back({state.rank.rank_id, *place});
  bytes_ += part_bytes;
  cursor.place_sent = part.place = place;
  cursor.place_sent_at = monotonic;
}

void Delivery::add_notes(const RankState& state, Cursor& cursor, const sys::RingContent& content,
                         model::Batch& batch) {
  for (const sys::RingNote& note : content.notes) {
    auto event = event_of(state, note);
    if (!event || ++cursor.notes_sent > notes_a_rank) continue;
    bytes_ += size_of(*event);
    batch.events.push_back(std::move(*event));
  }
}

bool Delivery::add_marks(const RankState& state, Cursor& cursor, Duration monotonic,
                         model::Batch& batch, Part& part) {
  const std::uint64_t id = state.rank.rank_id;
  const std::size_t slots =
      std::min(slots_left_, cursor.times_unplaced > 0 ? slots_unplaced : slots_a_rank);
  if (slots == 0) {
    has_backlog_ = true;
    if (next_rank_ == 0) next_rank_ = id;
    return false;
  }
  const auto content = rings_.read(id, cursor.marks_sent, slots, state.is_ended());
  if (!content) return true;  // spoilt by its owner: nothing more comes from it
  if (content->has_more) has_backlog_ = true;
  if (content->next != cursor.marks_sent) {
    slots_left_ -= std::min(slots_left_, content->steps.size() + content->notes.size() * 8);
    model::RankMarks marks;
    marks.rank_id = id;
    cursor.overwritten += content->overwritten + content->damaged;
    for (const sys::RingStep& step : content->steps) {
      if (auto mark = mark_of(step))
        marks.marks.push_back(*mark);
      else
        ++cursor.overwritten;
    }
    for (const model::Mark& mark : marks.marks)
      cursor.last_steps = {cursor.last_steps[1], mark.duration};
    marks.overwritten = cursor.overwritten;
    add_notes(state, cursor, *content, batch);
    bytes_ += part_bytes + marks.marks.size() * mark_bytes;
    batch.marks.push_back(std::move(marks));
    cursor.marks_sent = part.marks_to = content->next;
    part.notes_to = cursor.notes_sent;
    part.overwritten_to = cursor.overwritten;
  }
  if (!content->has_more) add_place(state, cursor, *content, monotonic, batch, part);
  return !content->has_more;
}

void Delivery::add_rank(const RankState& state, Duration monotonic, bool with_marks,
                        model::Batch& batch, InFlight& flight) {
  Cursor& cursor = this->cursor(state.rank.rank_id);
  if (cursor.is_end_acknowledged && cursor.revision_done == state.revision) return;
  if (monotonic < cursor.not_before) return;
  Part part{.rank_id = state.rank.rank_id, .revision = state.revision};
  const bool is_news = cursor.revision_sent != state.revision;
  bool is_all = true;
  if (with_marks || state.is_ended()) {
    is_all = add_marks(state, cursor, monotonic, batch, part);
  }
  const bool ends = state.is_ended() && is_all && (!cursor.is_end_sent || is_news);
  if (!is_news && part.marks_to == 0 && !part.place && !ends) return;
  if (is_news) {
    batch.ranks.push_back(state.rank);
    bytes_ += size_of(state.rank);
    cursor.revision_sent = state.revision;
  }
  if (ends) {
    batch.ends.push_back(
        {state.rank.rank_id, *state.rank.end, state.rank.exit_code, state.rank.exit_signal});
    bytes_ += part_bytes;
    if (cursor.notes_sent > notes_a_rank)
      batch.events.push_back(
          event_of_held_notes(state, cursor.notes_sent - notes_a_rank, *state.rank.end));
    cursor.is_end_sent = part.has_end = true;
  }
  flight.parts.push_back(part);
}

void Delivery::settle(const Part& part, bool is_unplaced, Duration monotonic) {
  const auto it = cursors_.find(part.rank_id);
  if (it == cursors_.end()) return;  // forgotten meanwhile
  Cursor& cursor = it->second;
  if (!is_unplaced) {
    cursor.times_unplaced = 0;
    cursor.marks_acknowledged = std::max(cursor.marks_acknowledged, part.marks_to);
    cursor.notes_acknowledged = std::max(cursor.notes_acknowledged, part.notes_to);
    cursor.overwritten_acknowledged =
        std::max(cursor.overwritten_acknowledged, part.overwritten_to);
    if (part.place) cursor.place_acknowledged = part.place;
    if (part.has_end) {
      cursor.is_end_acknowledged = true;
      cursor.revision_done = part.revision;
    }
    return;
  }
  cursor.times_unplaced = std::min(cursor.times_unplaced + 1, unplaced_backoff_max);
  cursor.not_before =
      monotonic + std::chrono::seconds(1U << static_cast<unsigned>(cursor.times_unplaced - 1));
  cursor.marks_sent = cursor.marks_acknowledged;
  cursor.notes_sent = cursor.notes_acknowledged;
  cursor.overwritten = cursor.overwritten_acknowledged;
  cursor.is_end_sent = cursor.is_end_acknowledged;
  cursor.place_sent = cursor.place_acknowledged;
  cursor.revision_sent = 0;
}

void Delivery::acknowledge(const model::Ack& ack, Duration monotonic) {
  while (!in_flight_.empty() && in_flight_.front().sequence <= ack.sequence) {
    const InFlight& flight = in_flight_.front();
    for (const Part& part : flight.parts)
      settle(part, std::ranges::find(ack.unplaced, part.rank_id) != ack.unplaced.end(), monotonic);
    if (flight.item != 0) spool_acknowledged_ = std::max(spool_acknowledged_, flight.item);
    in_flight_.pop_front();
  }
}

bool Delivery::is_done(std::uint64_t rank_id) const {
  const auto it = cursors_.find(rank_id);
  return it != cursors_.end() && it->second.is_end_acknowledged;
}

std::uint64_t Delivery::marks_acknowledged(std::uint64_t rank_id) const {
  const auto it = cursors_.find(rank_id);
  return it == cursors_.end() ? rings_.acknowledged(rank_id) : it->second.marks_acknowledged;
}

std::size_t Delivery::unplaced() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      cursors_, [](const auto& entry) { return entry.second.times_unplaced > 0; }));
}

}  // namespace vetta::collect
