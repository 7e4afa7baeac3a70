// SPDX-License-Identifier: Apache-2.0
// A day of a small cluster, told in any order, twice, across restarts: the records, marks and
// samples must be those of the day told once and in order.
#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <rapidcheck.h>
#include <set>
#include <variant>

#include "ingest/ingest.h"
#include "ingest/stand_detail.h"

namespace vetta::ingest {
namespace {

using model::Attempt;
using model::JobState;
using model::Knowledge;

struct Delivery {
  std::string node;
  model::Batch batch;
};

using Told = std::variant<slurm::Snapshot, slurm::Accounting, Delivery>;

struct Life {
  Attempt ended;  ///< as accounting has it
  std::int64_t submit = 0, start = 0, end = 0;
  std::uint32_t restart = 0;
};

struct Day {
  std::vector<Life> lives;
  std::vector<Told> told;  ///< in order of time
};

Life life(std::uint64_t id, std::int64_t submit, std::uint32_t restart, JobState end) {
  Life l;
  l.submit = submit;
  l.start = submit + *rc::gen::inRange(1, 2000);
  l.end = l.start + *rc::gen::inRange(600, 5000);
  l.restart = restart;
  l.ended.key = {"alps", id, at(submit)};
  l.ended.state = end;
  l.ended.start = at(l.start);
  l.ended.end = at(l.end);
  l.ended.nodes = "n[1-2]";
  l.ended.user = id % 2 == 0 ? "ada" : "bob";
  l.ended.name = "train\xff";
  l.ended.exit_code = end == JobState::failed ? 1 : 0;
  return l;
}

/// What the controller says of a life at a time; nothing if it does not list it.
std::optional<Attempt> seen_at(const Life& l, std::int64_t time, bool is_replaced) {
  if (time < l.submit || time > l.end + 300 || is_replaced) return std::nullopt;
  Attempt a = l.ended;
  a.restart = l.restart;
  a.std_out = "/out";
  if (time >= l.end) return a;
  a.end.reset();
  a.exit_code.reset();
  a.state = time < l.start ? JobState::pending : JobState::running;
  if (time < l.start) {
    a.start.reset();
    a.nodes.clear();
    a.reason = "Priority";
  }
  return a;
}

slurm::Snapshot snapshot_at(const Day& day, std::int64_t time) {
  slurm::Snapshot s;
  s.cluster = "alps";
  s.at = at(time);
  s.jobs.knowledge = Knowledge::known;
  s.allocations.knowledge = Knowledge::known;
  for (const auto& l : day.lives) {
    const bool is_replaced = std::ranges::any_of(day.lives, [&](const Life& other) {
      return other.ended.key.job_id == l.ended.key.job_id && other.submit > l.submit &&
             other.submit <= time;
    });
    auto attempt = seen_at(l, time, is_replaced);
    if (!attempt) continue;
    if (attempt->state == JobState::running) {
      auto& held = s.allocations.value.emplace_back();
      held.key = attempt->key;
      for (const char* node : {"n1", "n2"}) {
        auto& a = held.allocations.emplace_back();
        a.node = node;
        a.span = {*attempt->start, {}};
        a.cpus = 4;
      }
    }
    s.jobs.value.push_back(std::move(*attempt));
  }
  return s;
}

slurm::Accounting accounting_until(const Day& day, std::int64_t until) {
  slurm::Accounting a;
  a.cluster = "alps";
  a.until = at(until);
  a.attempts.knowledge = Knowledge::known;
  for (const auto& l : day.lives) {
    if (l.end > until) continue;
    model::Step step;
    step.step_id = "0";
    step.state = l.ended.state;
    step.end = l.ended.end;
    a.attempts.value.push_back({l.ended, {step}});
  }
  return a;
}

model::Mark mark(const Life& l, std::uint64_t sequence) {
  model::Mark m;
  m.sequence = sequence;
  m.step = static_cast<std::int64_t>(sequence);
  m.start = at(l.start + 10) + std::chrono::milliseconds(100 * sequence);
  m.duration = std::chrono::milliseconds(90);
  return m;
}

/// All that the agent of one node says of one rank, in parts.
void tell_rank(Day& day, const Life& l, std::uint64_t rank_id, std::int32_t number,
               std::map<std::string, std::uint64_t>& sequences) {
  const std::string node = number % 2 == 0 ? "n1" : "n2";
  const auto next = [&](std::int64_t) {
    Delivery d;
    d.node = node;
    d.batch.agent_id = node == "n1" ? 1 : 2;
    d.batch.sequence = ++sequences[node];
    return d;
  };
  auto first = next(l.start);
  model::Rank rank;
  rank.rank_id = rank_id;
  rank.job_id = l.ended.key.job_id;
  rank.step_id = "0";
  rank.slurm_restart = l.restart;
  rank.rank = number;
  rank.node = node;
  rank.is_probed = true;
  rank.start = at(l.start + 5);
  first.batch.ranks = {rank};
  day.told.emplace_back(first);
  std::uint64_t sequence = 0;
  for (int part = *rc::gen::inRange(1, 4); part > 0; --part) {
    auto d = next(l.start);
    model::RankMarks marks{rank_id, 0, {}};
    for (int i = *rc::gen::inRange(1, 20); i > 0; --i) marks.marks.push_back(mark(l, ++sequence));
    d.batch.marks = {marks};
    model::RankSample sample;
    sample.time = at(l.start + static_cast<std::int64_t>(sequence));
    sample.rss_bytes = sequence;
    d.batch.rank_samples = {{rank_id, {sample}}};
    model::NodeSample load;
    load.time = at(l.start + static_cast<std::int64_t>(sequence));
    load.load_1m = static_cast<double>(sequence);
    d.batch.node_samples = {load};
    day.told.emplace_back(d);
  }
  auto last = next(l.end);
  last.batch.ends = {{rank_id, at(l.end - 1), number == 0 ? 1 : 0, {}}};
  model::Event event;
  event.kind = model::EventKind::exception;
  event.rank_id = rank_id;
  event.dedup = fmt::format("note-{}", rank_id);
  last.batch.events = {event};
  day.told.emplace_back(last);
}

Day make_day() {
  Day day;
  const int jobs = *rc::gen::inRange(1, 5);
  for (int j = 1; j <= jobs; ++j) {
    const auto id = static_cast<std::uint64_t>(100 + j);
    const bool is_requeued = *rc::gen::inRange(0, 3) == 0;
    auto first = life(id, *rc::gen::inRange(0, 20'000), 0,
                      is_requeued ? JobState::node_fail : JobState::completed);
    if (is_requeued) day.lives.push_back(life(id, first.end + 1, 1, JobState::failed));
    day.lives.push_back(first);
  }
  std::map<std::string, std::uint64_t> sequences;
  std::uint64_t rank_id = 1000;
  for (const auto& l : std::vector<Life>(day.lives))
    for (std::int32_t r = *rc::gen::inRange(0, 3); r > 0; --r)
      tell_rank(day, l, ++rank_id, r - 1, sequences);
  for (std::int64_t t = 0; t < 40'000; t += *rc::gen::inRange(500, 6000))
    day.told.emplace_back(snapshot_at(day, t));
  for (std::int64_t t = 10'000; t < 40'000; t += 10'000)
    day.told.emplace_back(accounting_until(day, t));
  day.told.emplace_back(accounting_until(day, 90'000));
  return day;
}

/// An agent sends the marks of unplaced ranks again, in a batch of its own.
std::optional<Delivery> again(const Delivery& d, const model::Ack& ack, std::uint64_t& sequence) {
  Delivery out;
  out.node = d.node;
  out.batch.agent_id = d.batch.agent_id + 100;  // not a sequence that is used already
  for (const auto& marks : d.batch.marks) {
    if (std::ranges::find(ack.unplaced, marks.rank_id) != ack.unplaced.end())
      out.batch.marks.push_back(marks);
  }
  if (out.batch.marks.empty()) return std::nullopt;
  out.batch.sequence = ++sequence;
  return out;
}

void deliver(Stand& stand, std::deque<Told> queue, const std::set<std::size_t>& restarts) {
  std::uint64_t sequence = 0;
  std::size_t count = 0;
  while (!queue.empty()) {
    RC_ASSERT(count < 5000U);
    if (restarts.contains(count++)) stand.open();
    const Told told = std::move(queue.front());
    queue.pop_front();
    if (const auto* snapshot = std::get_if<slurm::Snapshot>(&told)) {
      RC_ASSERT(stand.ingest->take(*snapshot).has_value());
    } else if (const auto* accounting = std::get_if<slurm::Accounting>(&told)) {
      RC_ASSERT(stand.ingest->take(*accounting).has_value());
    } else {
      const auto& delivery = std::get<Delivery>(told);
      model::Hello hello;
      hello.cluster = "alps";
      hello.node = delivery.node;
      const auto ack = stand.ingest->take(hello, delivery.batch);
      RC_ASSERT(ack.has_value());
      if (auto more = again(delivery, *ack, sequence)) queue.emplace_back(std::move(*more));
    }
  }
}

/// Everything that must be the same, as text; rows' ids and times of telling left out.
std::set<std::string> facts(Stand& stand) {
  std::set<std::string> out;
  auto reader = stand.records->read().value();
  records::JobFilter all;
  all.all_attempts = true;
  const auto page = reader.jobs(all, {}, 1000).value();
  for (const auto& row : page.rows) {
    const auto& a = row.attempt;
    const auto name = fmt::format("{}/{}", a.key.job_id, epoch_seconds(a.key.submit));
    out.insert(fmt::format("{} {} {} {} {} {} {} {} {} gap={} out={}", name, model::name(a.state),
                           row.number, row.is_superseded, a.restart,
                           epoch_seconds(a.start.value_or(at(-1))),
                           epoch_seconds(a.end.value_or(at(-1))), a.exit_code.value_or(-1), a.nodes,
                           row.gap, a.reason));
    for (const auto& held : value_of(reader.allocations(row.id)))
      out.insert(fmt::format("{} holds {} {} {}", name, held.node, epoch_seconds(held.span.start),
                             epoch_seconds(held.span.end.value_or(at(-1)))));
    for (const auto& step : value_of(reader.steps(row.id)))
      out.insert(fmt::format("{} step {} {}", name, step.step_id, model::name(step.state)));
    for (const auto& rank : value_of(reader.ranks(row.id)))
      out.insert(fmt::format("{} rank {} {} end={} exit={}", name, rank.rank.rank_id,
                             rank.rank.rank, epoch_seconds(rank.rank.end.value_or(at(-1))),
                             rank.rank.exit_code.value_or(-1)));
    records::EventFilter filter;
    filter.attempt = row.id;
    for (const auto& event : value_of(reader.events(filter)))
      out.insert(fmt::format("{} event {}", name, event.dedup));
    RC_ASSERT(stand.files
                  ->scan_marks(a.key, series::ScanFilter(),
                               [&](const series::RankRef& r, const model::Mark& m) {
                                 const bool is_new =
                                     out.insert(fmt::format("{} mark {} {} {}", name, r.rank_id,
                                                            m.sequence, epoch_nanoseconds(m.start)))
                                         .second;
                                 RC_ASSERT(is_new);
                                 return true;
                               })
                  .has_value());
    RC_ASSERT(stand.files
                  ->scan_samples(a.key, series::ScanFilter(),
                                 [&](const series::RankRef& r, const model::RankSample& s) {
                                   const bool is_new =
                                       out.insert(fmt::format("{} sample {} {}", name, r.rank_id,
                                                              epoch_nanoseconds(s.time)))
                                           .second;
                                   RC_ASSERT(is_new);
                                   return true;
                                 })
                  .has_value());
  }
  for (const char* node : {"n1", "n2"}) {
    std::size_t points = 0;
    const series::SeriesKey key{"alps", fmt::format("node:{}", node), "load_1m"};
    RC_ASSERT(stand.store
                  ->scan(key, at(0), at(100'000),
                         [&](const series::Point&) {
                           ++points;
                           return true;
                         })
                  .has_value());
    out.insert(fmt::format("{} has {} points", node, points));
  }
  out.insert(fmt::format("unplaced {}", reader.unplaced("alps").value().size()));
  return out;
}

TEST(Replay, AnyOrderTwiceAcrossRestartsGivesTheSame) {
  EXPECT_TRUE(rc::check("the same facts", [] {
    const Day day = make_day();
    Stand in_order("order");
    deliver(in_order, {day.told.begin(), day.told.end()}, {});
    std::vector<Told> mixed = day.told;
    mixed.insert(mixed.end(), day.told.begin(), day.told.end());
    for (std::size_t i = mixed.size(); i > 1; --i)
      std::swap(mixed[i - 1], mixed[*rc::gen::inRange<std::size_t>(0, i)]);
    std::set<std::size_t> restarts;
    for (int i = 0; i < 3; ++i) restarts.insert(*rc::gen::inRange<std::size_t>(0, mixed.size()));
    Stand any_order("mixed");
    deliver(any_order, {mixed.begin(), mixed.end()}, restarts);
    const auto expected = facts(in_order);
    const auto got = facts(any_order);
    for (const auto& fact : expected)
      if (!got.contains(fact)) RC_LOG() << "missing: " << fact << "\n";
    for (const auto& fact : got)
      if (!expected.contains(fact)) RC_LOG() << "surplus: " << fact << "\n";
    RC_ASSERT(got == expected);
  }));
}

}  // namespace
}  // namespace vetta::ingest
