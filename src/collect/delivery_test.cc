// SPDX-License-Identifier: Apache-2.0
#include "collect/delivery.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <set>
#include <unistd.h>

namespace vetta::collect {
namespace {

using namespace std::chrono_literals;

class Deliver : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "delivery-" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
    rings_.emplace(Rings::open(folder_).value());
    delivery_.emplace(99, table_, *rings_, spool_);
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::uint64_t add_rank(bool with_ring = true) {
    Registration registration;
    registration.job_id = 1;
    registration.step_id = "0";
    registration.task = static_cast<std::int32_t>(table_.all().size());
    registration.tasks = 8;
    registration.pid = 100 + registration.task;
    const std::uint64_t id = table_.take(registration).rank.rank_id;
    if (with_ring) {
      sys::RingHeader header;
      header.rank_id = id;
      header.uid = ::geteuid();
      EXPECT_TRUE(rings_->make(header));
    }
    return id;
  }

  void write(std::uint64_t id, int steps) {
    auto writer = sys::RingWriter::open(rings_->path(id)).value();
    for (int i = 0; i < steps; ++i) {
      sys::RingStep step;
      step.step = static_cast<std::int64_t>(writer.written());
      step.duration_ns = 5;
      ASSERT_TRUE(writer.write(step));
    }
  }

  void write_notes(std::uint64_t id, int count, const std::string& text) {
    auto writer = sys::RingWriter::open(rings_->path(id)).value();
    for (int i = 0; i < count; ++i)
      ASSERT_TRUE(writer.write(sys::RingNote{0, sys::RingNoteKind::exception, 77, text}));
  }

  void place(std::uint64_t id, std::int64_t step, std::uint32_t phase, std::int64_t wall_ns = 9) {
    auto writer = sys::RingWriter::open(rings_->path(id)).value();
    ASSERT_TRUE(writer.write(sys::RingNow{step, phase, wall_ns}));
  }

  /// The places of the next batch, which is acknowledged.
  std::vector<model::RankNow> places(Duration monotonic) {
    std::vector<model::RankNow> out;
    const auto batch = delivery_->next(monotonic, true);
    if (!batch) return out;
    for (const model::RankPlace& place : batch->places) out.push_back(place.now);
    delivery_->acknowledge({batch->sequence, {}}, monotonic);
    return out;
  }

  void put_item() {
    SpoolItem item;
    item.node_samples.emplace_back();
    spool_.put(std::move(item));
  }

  static std::vector<std::uint64_t> sequences(const model::Batch& batch) {
    std::vector<std::uint64_t> out;
    for (const model::RankMarks& marks : batch.marks)
      for (const model::Mark& mark : marks.marks) out.push_back(mark.sequence);
    return out;
  }

  std::string folder_;
  std::uint64_t last_id_ = 0;
  RankTable table_{"n001", [this] { return ++last_id_; }};
  std::optional<Rings> rings_;
  Spool spool_{1'000'000};
  std::optional<Delivery> delivery_;
};

TEST_F(Deliver, RegistrationThenMarksThenEnd) {
  const std::uint64_t id = add_rank();
  write(id, 3);
  const auto first = delivery_->next(0s, false);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->ranks.size(), 1U);
  EXPECT_TRUE(first->marks.empty());
  EXPECT_EQ(first->agent_id, 99U);
  EXPECT_EQ(first->sequence, 1U);
  EXPECT_FALSE(delivery_->next(0s, false)) << "nothing new";
  const auto second = delivery_->next(0s, true);
  ASSERT_TRUE(second);
  EXPECT_EQ(sequences(*second), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_FALSE(delivery_->next(0s, true));
  write(id, 2);
  table_.end(*table_.find(id), from_epoch_seconds(5), 0, {});
  const auto last = delivery_->next(0s, false);
  ASSERT_TRUE(last);
  EXPECT_EQ(sequences(*last), (std::vector<std::uint64_t>{4, 5}));
  ASSERT_EQ(last->ends.size(), 1U);
  EXPECT_EQ(last->ends[0].exit_code, 0);
  EXPECT_FALSE(delivery_->is_done(id));
  delivery_->acknowledge({3, {}}, 0s);
  EXPECT_TRUE(delivery_->is_done(id));
  EXPECT_EQ(delivery_->marks_acknowledged(id), 5U);
}

TEST_F(Deliver, WhatABreakTookIsSentAgainAndNothingElse) {
  const std::uint64_t id = add_rank();
  write(id, 3);
  put_item();
  const auto item_first = [&] {
    std::optional<model::Batch> batch;
    while ((batch = delivery_->next(0s, true)))
      if (!batch->node_samples.empty()) return batch;
    return batch;
  }();
  ASSERT_TRUE(item_first);
  delivery_->acknowledge({1, {}}, 0s);  // the registration with its marks
  write(id, 2);
  EXPECT_TRUE(delivery_->next(0s, true));
  const std::uint64_t highest = delivery_->last_sequence();
  delivery_->disconnected();
  delivery_->connected();
  const auto again = delivery_->next(0s, true);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->sequence, item_first->sequence) << "a spool item keeps its number";
  EXPECT_EQ(again->node_samples.size(), 1U);
  const auto marks = delivery_->next(0s, true);
  ASSERT_TRUE(marks);
  EXPECT_GT(marks->sequence, highest) << "marks get a new number";
  EXPECT_EQ(sequences(*marks), (std::vector<std::uint64_t>{4, 5}));
  EXPECT_EQ(marks->ranks.size(), 1U) << "registrations are repeated after a break";
  EXPECT_FALSE(delivery_->next(0s, true));
}

TEST_F(Deliver, LostMarksCountOnceHoweverOftenTheyAreTold) {
  const std::uint64_t id = add_rank(false);
  sys::RingHeader header;
  header.rank_id = id;
  header.slots = 8;
  header.uid = ::geteuid();
  ASSERT_TRUE(rings_->make(header));
  write(id, 20);
  const auto overwritten = [&]() -> std::uint64_t {
    const auto batch = delivery_->next(0s, true);
    return batch && batch->marks.size() == 1 ? batch->marks[0].overwritten : 0;
  };
  EXPECT_EQ(overwritten(), 12U);
  delivery_->disconnected();
  delivery_->connected();
  EXPECT_EQ(overwritten(), 12U) << "after a break";
  delivery_->acknowledge({delivery_->last_sequence(), {id}}, 0s);
  delivery_->connected();
  EXPECT_EQ(overwritten(), 12U) << "after the rank was not placed";
  delivery_->acknowledge({delivery_->last_sequence(), {}}, 0s);
  write(id, 10);
  EXPECT_EQ(overwritten(), 14U);
}

TEST_F(Deliver, AnUnplacedRankIsOfferedAgainLater) {
  const std::uint64_t id = add_rank();
  write(id, 200);
  table_.end(*table_.find(id), from_epoch_seconds(5), 0, {});
  ASSERT_TRUE(delivery_->next(0s, true));
  delivery_->acknowledge({1, {id}}, 0s);
  EXPECT_EQ(delivery_->marks_acknowledged(id), 0U);
  EXPECT_EQ(delivery_->unplaced(), 1U);
  EXPECT_FALSE(delivery_->next(999ms, true));
  const auto again = delivery_->next(1s, true);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->ranks.size(), 1U);
  EXPECT_EQ(sequences(*again).size(), 64U) << "a few until it is placed";
  EXPECT_TRUE(again->ends.empty()) << "the end comes behind all marks";
  delivery_->acknowledge({again->sequence, {id}}, 1s);
  EXPECT_FALSE(delivery_->next(2999ms, true));
  const auto third = delivery_->next(3s, true);
  ASSERT_TRUE(third);
  delivery_->acknowledge({third->sequence, {}}, 3s);
  std::set<std::uint64_t> got;
  for (const std::uint64_t each : sequences(*third)) got.insert(each);
  while (const auto batch = delivery_->next(3s, true)) {
    for (const std::uint64_t each : sequences(*batch)) got.insert(each);
    delivery_->acknowledge({batch->sequence, {}}, 3s);
  }
  EXPECT_EQ(got.size(), 200U);
  EXPECT_TRUE(delivery_->is_done(id));
}

TEST_F(Deliver, InFlightAndBatchSizesAreBounded) {
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 8; ++i) {
    ids.push_back(add_rank());
    write(ids.back(), 1500);
  }
  std::size_t marks = 0;
  std::size_t batches = 0;
  while (const auto batch = delivery_->next(0s, true)) {
    const std::size_t size = sequences(*batch).size();
    EXPECT_LE(size, Delivery::slots_a_batch);
    marks += size;
    ++batches;
  }
  EXPECT_TRUE(delivery_->has_backlog() || marks == 12'000);
  EXPECT_LE(batches, Delivery::in_flight_max);
  delivery_->acknowledge({batches, {}}, 0s);
  while (const auto batch = delivery_->next(0s, true)) {
    marks += sequences(*batch).size();
    delivery_->acknowledge({batch->sequence, {}}, 0s);
  }
  EXPECT_EQ(marks, 12'000U);
}

TEST_F(Deliver, ThousandsOfNewRanksAreSeveralBatches) {
  for (int i = 0; i < 4500; ++i) add_rank(false);
  std::vector<std::size_t> sizes;
  std::set<std::uint64_t> told;
  while (const auto batch = delivery_->next(0s, false)) {
    sizes.push_back(batch->ranks.size());
    for (const model::Rank& rank : batch->ranks) told.insert(rank.rank_id);
    EXPECT_FALSE(delivery_->encode(*batch).is_given_up);
    EXPECT_EQ(delivery_->has_backlog(), told.size() < 4500);
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{2000, 2000, 500}));
  EXPECT_EQ(told.size(), 4500U);
}

TEST_F(Deliver, LongNotesOfManyRanksStayBelowWhatVettadTakes) {
  // Each byte becomes three (it is no text), and one line is both message and detail.
  for (int i = 0; i < 10; ++i)
    write_notes(add_rank(), 15, std::string(sys::ring_note_bytes_max, '\xff'));
  std::size_t notes = 0;
  while (const auto batch = delivery_->next(0s, true)) {
    EXPECT_LT(delivery_->encode(*batch).bytes.size(), 2U << 20U);
    notes += batch->events.size();
    delivery_->acknowledge({batch->sequence, {}}, 0s);
  }
  EXPECT_GE(notes, 140U) << "all that do not wait for their end";
}

TEST_F(Deliver, NotesOfARankAreBoundedAndTheRestIsCounted) {
  const std::uint64_t id = add_rank();
  write_notes(id, 50, "x");
  const auto lost = delivery_->next(0s, true);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->events.size(), 32U);
  delivery_->disconnected();
  delivery_->connected();
  const auto again = delivery_->next(0s, true);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->events.size(), 32U) << "what a break took does not count twice";
  delivery_->acknowledge({again->sequence, {}}, 0s);
  write_notes(id, 5, "y");
  table_.end(*table_.find(id), from_epoch_seconds(5), 0, {});
  const auto last = delivery_->next(0s, true);
  ASSERT_TRUE(last);
  ASSERT_EQ(last->events.size(), 1U);
  EXPECT_EQ(last->events[0].kind, model::EventKind::gap);
  EXPECT_EQ(last->events[0].message, "23 more notes of this rank were not kept: 32 are");
}

TEST_F(Deliver, RanksWithMuchToSayTakeTurns) {
  for (int i = 0; i < 6; ++i) write(add_rank(), 3000);
  std::set<std::uint64_t> served;
  for (int i = 0; i < 2; ++i) {
    const auto batch = delivery_->next(0s, true);
    ASSERT_TRUE(batch);
    for (const model::RankMarks& marks : batch->marks) served.insert(marks.rank_id);
  }
  EXPECT_EQ(served.size(), 6U);
}

TEST_F(Deliver, ABatchThatVettadWouldRefuseIsGivenUp) {
  const std::uint64_t id = add_rank();
  write(id, 100);
  const auto batch = delivery_->next(0s, true);
  ASSERT_TRUE(batch);
  const auto fits = delivery_->encode(*batch);
  EXPECT_FALSE(fits.is_given_up);
  EXPECT_FALSE(delivery_->encode(*batch, fits.bytes.size()).is_given_up);
  const auto given_up = delivery_->encode(*batch, fits.bytes.size() - 1);
  EXPECT_TRUE(given_up.is_given_up);
  const auto frame = model::decode(std::string_view(given_up.bytes).substr(4));
  ASSERT_TRUE(frame);
  const auto& empty = std::get<model::Batch>(*frame);
  EXPECT_EQ(empty.sequence, batch->sequence) << "vettad acknowledges it, and all goes on";
  EXPECT_EQ(empty.dropped_batches, 1U);
  EXPECT_TRUE(empty.marks.empty() && empty.ranks.empty());
  delivery_->acknowledge({batch->sequence, {}}, 0s);
  EXPECT_EQ(delivery_->marks_acknowledged(id), 100U);
}

TEST_F(Deliver, DroppedItemsAreCountedForThisReader) {
  Spool small(2000);
  Delivery delivery(1, table_, *rings_, small);
  for (int i = 0; i < 50; ++i) {
    SpoolItem item;
    item.node_samples.emplace_back();
    small.put(std::move(item));
  }
  ASSERT_LT(small.last() - small.first() + 1, 10U);
  const auto batch = delivery.next(0s, false);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->dropped_batches, small.first() - 1);
  EXPECT_EQ(batch->sequence, 1U);
}

TEST_F(Deliver, AStatusThatComesLateIsToldAfterTheEnd) {
  const std::uint64_t id = add_rank(false);
  table_.end(*table_.find(id), from_epoch_seconds(5), {}, {});
  const auto first = delivery_->next(0s, false);
  ASSERT_TRUE(first && first->ends.size() == 1U);
  delivery_->acknowledge({first->sequence, {}}, 0s);
  EXPECT_FALSE(delivery_->next(0s, false));
  table_.end(*table_.find(id), from_epoch_seconds(5), 1, {});
  const auto second = delivery_->next(0s, false);
  ASSERT_TRUE(second && second->ends.size() == 1U);
  EXPECT_EQ(second->ends[0].exit_code, 1);
}

TEST_F(Deliver, StartsFromWhatTheRingHasAcknowledged) {
  const std::uint64_t id = add_rank();
  write(id, 5);
  rings_->acknowledge(id, 3);
  const auto batch = delivery_->next(0s, true);
  ASSERT_TRUE(batch);
  EXPECT_EQ(sequences(*batch), (std::vector<std::uint64_t>{4, 5}));
}

TEST_F(Deliver, APlaceIsToldOnceItsRankStaysThere) {
  const std::uint64_t id = add_rank();
  write(id, 3);
  place(id, 3, 5, 1'000);
  EXPECT_TRUE(places(100s).empty()) << "it has just marked a step";
  EXPECT_TRUE(places(105s).empty());
  const auto told = places(110s);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0],
            (model::RankNow{3, model::Phase::allreduce, from_epoch_nanoseconds(1'000), 3}));
  EXPECT_FALSE(delivery_->next(200s, true)) << "nothing new";
  place(id, -1, 0);
  const auto moved = places(210s);
  ASSERT_EQ(moved.size(), 1U) << "what was told is true no longer, and no mark says so";
  EXPECT_FALSE(moved[0].step || moved[0].phase);
  place(id, 4, 2);
  EXPECT_TRUE(places(215s).empty()) << "not again so soon";
  EXPECT_EQ(places(220s).size(), 1U);
  write(id, 1);
  place(id, 5, 1);
  EXPECT_TRUE(places(300s).empty()) << "a mark makes the place before it old";
  EXPECT_EQ(places(310s).size(), 1U);
}

TEST_F(Deliver, ARankThatStepsTellsNoPlace) {
  const std::uint64_t id = add_rank();
  for (int second = 0; second < 100; second += 5) {
    write(id, 1);
    place(id, second, 2);
    EXPECT_TRUE(places(std::chrono::seconds(second)).empty());
  }
}

TEST_F(Deliver, LongStepsMakeLateNews) {
  const std::uint64_t id = add_rank();
  auto writer = sys::RingWriter::open(rings_->path(id)).value();
  for (const std::int64_t seconds : {20, 3, 4000}) {  // the last one was a checkpoint
    sys::RingStep step;
    step.duration_ns = seconds * 1'000'000'000;
    ASSERT_TRUE(writer.write(step));
  }
  place(id, 3, 1);
  EXPECT_TRUE(places(0s).empty());
  EXPECT_TRUE(places(14s).empty());
  EXPECT_EQ(places(15s).size(), 1U);
  sys::RingStep step;
  step.duration_ns = std::int64_t{4000} * 1'000'000'000;
  ASSERT_TRUE(writer.write(step));
  place(id, 4, 1);
  EXPECT_TRUE(places(100s).empty());
  EXPECT_TRUE(places(159s).empty());
  EXPECT_EQ(places(160s).size(), 1U) << "a minute is the longest";
}

TEST_F(Deliver, TheEndTellsWhereItEnded) {
  const std::uint64_t id = add_rank();
  const std::uint64_t between = add_rank();
  write(id, 1);
  place(id, 1, 3);
  place(between, -1, 0);
  for (const std::uint64_t each : {id, between})
    table_.end(*table_.find(each), from_epoch_seconds(5), {}, 9);
  const auto batch = delivery_->next(0s, false);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->ends.size(), 2U);
  ASSERT_EQ(batch->places.size(), 1U) << "between steps is where a rank ends in peace";
  EXPECT_EQ(batch->places[0].rank_id, id);
  EXPECT_EQ(batch->places[0].now.phase, model::Phase::backward);
}

TEST_F(Deliver, APlaceThatABreakTookIsToldAgain) {
  const std::uint64_t id = add_rank();
  place(id, 0, 5);
  EXPECT_TRUE(places(0s).empty());
  const auto lost = delivery_->next(10s, true);
  ASSERT_TRUE(lost && lost->places.size() == 1U);
  delivery_->disconnected();
  delivery_->connected();
  const auto again = delivery_->next(11s, true);
  ASSERT_TRUE(again && again->places.size() == 1U);
  delivery_->acknowledge({again->sequence, {id}}, 11s);  // its job is not known yet
  const auto third = delivery_->next(13s, true);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->places.size(), 1U);
}

TEST_F(Deliver, AnOlderVettadGetsNoPlaces) {
  const std::uint64_t id = add_rank();
  place(id, 0, 5);
  delivery_->connected(1);
  EXPECT_TRUE(places(0s).empty());
  EXPECT_TRUE(places(100s).empty());
  table_.end(*table_.find(id), from_epoch_seconds(5), 1, {});
  EXPECT_TRUE(places(101s).empty());
}

TEST(PlaceOf, RefusesWhatCannotBe) {
  RankState state;
  state.rank.start = from_epoch_seconds(1'000);
  sys::RingContent content;
  EXPECT_FALSE(place_of(state, content)) << "an older probe's";
  content.now = sys::RingNow{3, 1, std::int64_t{1'000} * 1'000'000'000};
  ASSERT_TRUE(place_of(state, content));
  EXPECT_EQ(place_of(state, content)->phase, model::Phase::data);
  content.now->wall_ns = std::int64_t{900} * 1'000'000'000;
  EXPECT_FALSE(place_of(state, content)) << "before the rank began";
}

TEST(MarkOf, RefusesWhatCannotBe) {
  sys::RingStep step;
  step.duration_ns = -5;
  EXPECT_FALSE(mark_of(step));
  step.duration_ns = std::int64_t{1} << 62;
  EXPECT_FALSE(mark_of(step));
  step.duration_ns = 7;
  step.phases_ns = {1, -1, -5, std::int64_t{1} << 62, 2};
  step.source = 77;
  const auto mark = mark_of(step);
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->phases[0], Duration(1));
  EXPECT_EQ(mark->phases[2], model::missing_duration);
  EXPECT_EQ(mark->phases[3], model::missing_duration);
  EXPECT_EQ(mark->source, model::MarkSource::hand);
}

TEST(EventOf, ANotesFirstLineIsTheMessage) {
  RankState state;
  state.rank.rank_id = 0xab;
  state.rank.rank = 3;
  const auto event = event_of(
      state, {9, sys::RingNoteKind::exception, 77, "ValueError: x\xff\nTraceback\n  line 1\n"});
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, model::EventKind::exception);
  EXPECT_EQ(event->message, "ValueError: x\xef\xbf\xbd");
  EXPECT_EQ(event->dedup, "note-00000000000000ab-9");
  EXPECT_EQ(event->rank, 3);
  EXPECT_FALSE(event_of(state, {9, sys::RingNoteKind::loop_ended, 77, ""}));
}

}  // namespace
}  // namespace vetta::collect
