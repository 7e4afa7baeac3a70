// SPDX-License-Identifier: Apache-2.0
// What one vettad has and what it gets next: registrations, marks straight from the rings, ends,
// and the spool's items. Decides only; bytes and sockets are elsewhere. Not thread-safe.
//
// Numbers rise by one for each batch to this vettad. What is not acknowledged when a connection
// breaks is sent again: spool items under their old number (so that none counts twice), marks under
// a new one (they carry their own sequence). A number is never used for other content.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collect/ranks.h"
#include "collect/rings.h"
#include "collect/spool.h"
#include "model/wire.h"

namespace vetta::collect {

class Delivery {
 public:
  static constexpr std::size_t in_flight_max = 8;
  static constexpr std::size_t slots_a_batch = 4096;  ///< half a MiB of marks and notes
  /// A batch ends behind the rank that reaches one of these; vettad takes frames of 4 MiB.
  static constexpr std::size_t ranks_a_batch = 2000;
  static constexpr std::size_t bytes_a_batch = std::size_t{1} << 20U;
  /// Notes of a rank that become events; the rest is counted, and its end says how many.
  static constexpr std::uint64_t notes_a_rank = 32;
  /// A place is told when its rank has marked nothing for five of its steps, within these bounds,
  /// and again as often where it changes: a rank that steps as it did tells none.
  static constexpr Duration place_after_min = std::chrono::seconds(10);
  static constexpr Duration place_after_max = std::chrono::seconds(60);

  Delivery(std::uint64_t agent_id, const RankTable& ranks, const Rings& rings, const Spool& spool)
      : agent_id_(agent_id), ranks_(ranks), rings_(rings), spool_(spool) {}

  /// `protocol`: of vettad; where it knows no places, none are sent.
  void connected(std::uint16_t protocol = model::protocol_version);
  /// Everything that is not acknowledged goes back.
  void disconnected();

  /// The next batch, if there is something to say and room in flight. Without `with_marks` only
  /// ranks that are new, changed or ended are looked at (no ring of the others is read).
  [[nodiscard]] std::optional<model::Batch> next(Duration monotonic, bool with_marks);
  void acknowledge(const model::Ack& ack, Duration monotonic);

  struct Encoded {
    std::string bytes;
    bool is_given_up = false;
  };

  /// The frame of a batch of next(). One that vettad would refuse for its size (which no batch
  /// should have) becomes an empty one of its number: what it held is given up and counted.
  [[nodiscard]] Encoded encode(const model::Batch& batch,
                               std::size_t bytes_max = model::frame_bytes_max);

  /// More waited than one batch holds.
  [[nodiscard]] bool has_backlog() const { return has_backlog_; }

  /// The rank's end and all before it are acknowledged.
  [[nodiscard]] bool is_done(std::uint64_t rank_id) const;
  [[nodiscard]] std::uint64_t marks_acknowledged(std::uint64_t rank_id) const;

  [[nodiscard]] std::uint64_t spool_acknowledged() const { return spool_acknowledged_; }

  /// Ranks whose job vettad does not know yet.
  [[nodiscard]] std::size_t unplaced() const;

  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

  [[nodiscard]] std::uint64_t last_sequence() const { return sequence_; }

  void forget(std::uint64_t rank_id) { cursors_.erase(rank_id); }

 private:
  struct Cursor {
    std::uint64_t revision_sent = 0;
    std::uint64_t revision_done = 0;  ///< of the acknowledged end
    std::uint64_t marks_sent = 0, marks_acknowledged = 0;
    std::uint64_t notes_sent = 0, notes_acknowledged = 0;  ///< with those that are only counted
    std::uint64_t overwritten = 0, overwritten_acknowledged = 0;
    bool is_end_sent = false, is_end_acknowledged = false;
    int times_unplaced = 0;
    Duration not_before{};
    std::uint64_t written = 0;  ///< by the ring's writer, and since when it has written no more
    Duration quiet_since{};
    std::array<Duration, 2> last_steps{};
    std::optional<model::RankNow> place_sent, place_acknowledged;
    Duration place_sent_at{};
  };

  struct Part {
    std::uint64_t rank_id = 0;
    std::uint64_t revision = 0;
    std::uint64_t marks_to = 0;
    std::uint64_t notes_to = 0;
    std::uint64_t overwritten_to = 0;
    bool has_end = false;
    std::optional<model::RankNow> place{};
  };

  struct InFlight {
    std::uint64_t sequence = 0;
    std::vector<Part> parts;
    std::uint64_t item = 0;  ///< of the spool; 0: none
  };

  Cursor& cursor(std::uint64_t rank_id);
  [[nodiscard]] std::optional<model::Batch> next_item();
  [[nodiscard]] std::optional<model::Batch> next_of_ranks(Duration monotonic, bool with_marks);
  void add_notes(const RankState& state, Cursor& cursor, const sys::RingContent& content,
                 model::Batch& batch);
  void add_rank(const RankState& state, Duration monotonic, bool with_marks, model::Batch& batch,
                InFlight& flight);
  bool add_marks(const RankState& state, Cursor& cursor, Duration monotonic, model::Batch& batch,
                 Part& part);
  void add_place(const RankState& state, Cursor& cursor, const sys::RingContent& content,
                 Duration monotonic, model::Batch& batch, Part& part);
  void settle(const Part& part, bool is_unplaced, Duration monotonic);

  std::uint64_t agent_id_;
  const RankTable& ranks_;
  const Rings& rings_;
  const Spool& spool_;
  std::unordered_map<std::uint64_t, Cursor> cursors_;
  std::deque<InFlight> in_flight_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> again_;  ///< sequence and item to send again
  std::uint64_t sequence_ = 0;
  std::uint64_t next_item_ = 1, spool_acknowledged_ = 0;
  std::uint64_t dropped_ = 0, given_up_ = 0;
  std::size_t slots_left_ = 0;
  std::size_t bytes_ = 0;        ///< of the batch in the making, about
  std::uint64_t next_rank_ = 0;  ///< the first for which the batch before had no room; 0: none
  bool has_backlog_ = false;
  bool takes_places_ = true;
};

/// A note of a ring as the event that vettad keeps.
[[nodiscard]] std::optional<model::Event> event_of(const RankState& state,
                                                   const sys::RingNote& note);
/// How many notes of a rank were held back.
[[nodiscard]] model::Event event_of_held_notes(const RankState& state, std::uint64_t count,
                                               Time time);
/// A step of a ring as a mark; nothing where its figures cannot be.
[[nodiscard]] std::optional<model::Mark> mark_of(const sys::RingStep& step);
/// Where the ring's writer says that it is; nothing where that cannot be.
[[nodiscard]] std::optional<model::RankNow> place_of(const RankState& state,
                                                     const sys::RingContent& content);

}  // namespace vetta::collect
