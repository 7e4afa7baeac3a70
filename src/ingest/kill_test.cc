// SPDX-License-Identifier: Apache-2.0
// kill -9 at random moments: what was acknowledged is there, once.
#include <csignal>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

#include "ingest/ingest.h"
#include "ingest/stand_detail.h"

namespace vetta::ingest {
namespace {

constexpr std::uint64_t marks_per_batch = 7;
constexpr std::uint64_t ranks = 3;

model::AttemptKey key() {
  return {"alps", 1, at(0)};
}

model::Batch rank_batch(std::uint64_t sequence) {
  model::Batch b;
  b.agent_id = 1;
  b.sequence = sequence;
  for (std::uint64_t r = 1; r <= ranks; ++r) {
    model::Rank rank;
    rank.rank_id = r;
    rank.job_id = 1;
    rank.step_id = "0";
    rank.rank = static_cast<std::int32_t>(r);
    rank.node = "n1";
    rank.is_probed = true;
    rank.start = at(20);
    b.ranks.push_back(rank);
    model::RankMarks marks{r, 0, {}};
    for (std::uint64_t i = 1; i <= marks_per_batch; ++i) {
      model::Mark m;
      m.sequence = (sequence - 1) * marks_per_batch + i;
      m.step = static_cast<std::int64_t>(m.sequence);
      m.start = at(30) + std::chrono::milliseconds(m.sequence);
      m.duration = std::chrono::milliseconds(1);
      marks.marks.push_back(m);
    }
    b.marks.push_back(marks);
    model::RankSample sample;
    sample.time = at(static_cast<std::int64_t>(30 + sequence));
    sample.rss_bytes = sequence;
    b.rank_samples.push_back({r, {sample}});
  }
  model::Event event;
  event.kind = model::EventKind::gap;
  event.message = fmt::format("event of batch {}", sequence);
  b.events = {event};
  return b;
}

void show_job(Ingest& ingest) {
  slurm::Snapshot s;
  s.cluster = "alps";
  s.at = at(15);
  s.jobs.knowledge = model::Knowledge::known;
  model::Attempt a;
  a.key = key();
  a.state = model::JobState::running;
  a.start = at(10);
  s.jobs.value = {a};
  ASSERT_TRUE(ingest.take(s));
}

/// The child: takes batches from `next` on and tells each acknowledgement, until it is killed.
[[noreturn]] void take_batches(Stand& stand, std::uint64_t next, int pipe_end) {
  stand.open();
  model::Hello hello;
  hello.cluster = "alps";
  hello.node = "n1";
  for (;; ++next) {
    const auto ack = stand.ingest->take(hello, rank_batch(next));
    if (!ack || !ack->unplaced.empty()) _exit(1);
    if (::write(pipe_end, &ack->sequence, sizeof ack->sequence) < 0) _exit(2);
  }
}

TEST(Kill, AcknowledgedMarksAreThereOnce) {
  Stand stand("kill", true);
  show_job(*stand.ingest);
  std::mt19937_64 random(20'231'130);
  std::uint64_t acknowledged = 0;
  for (int round = 0; round < 12; ++round) {
    stand.close();
    int ends[2] = {-1, -1};
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      take_batches(stand, acknowledged + 1, ends[1]);
    }
    ::close(ends[1]);
    // Killed some batches later, at any instant within one.
    const auto target = acknowledged + 1 + random() % 5;
    std::uint64_t sequence = 0;
    while (acknowledged < target && ::read(ends[0], &sequence, sizeof sequence) > 0)
      acknowledged = sequence;
    const auto spin_until = monotonic_now() + std::chrono::microseconds(random() % 20'000);
    while (monotonic_now() < spin_until) continue;
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
    while (::read(ends[0], &sequence, sizeof sequence) > 0) acknowledged = sequence;
    ::close(ends[0]);
    stand.open();
    std::map<std::uint64_t, std::map<std::uint64_t, int>> seen;
    std::map<std::pair<std::uint64_t, Time>, int> samples;
    const auto take = [&](const series::RankRef& rank, const model::Mark& mark) {
      ++seen[rank.rank_id][mark.sequence];
      return true;
    };
    const auto take_sample = [&](const series::RankRef& rank, const model::RankSample& sample) {
      ++samples[{rank.rank_id, sample.time}];
      return true;
    };
    ASSERT_TRUE(stand.files->scan_marks(key(), series::ScanFilter(), take));
    ASSERT_TRUE(stand.files->scan_samples(key(), series::ScanFilter(), take_sample));
    for (std::uint64_t r = 1; r <= ranks; ++r) {
      for (std::uint64_t s = 1; s <= acknowledged * marks_per_batch; ++s)
        ASSERT_EQ(seen[r][s], 1) << "rank " << r << " mark " << s << " round " << round;
      for (const auto& [s, times] : seen[r]) ASSERT_EQ(times, 1) << s;
    }
    for (const auto& [what, times] : samples) ASSERT_EQ(times, 1);
    ASSERT_GE(samples.size(), acknowledged * ranks);
    // Events without a dedup of their own rest on the batch's sequence: once each as well.
    records::EventFilter filter;
    filter.kinds = {model::EventKind::gap};
    std::map<std::string, int> messages;
    for (const auto& event : value_of(stand.records->read()->events(filter)))
      ASSERT_EQ(++messages[event.message], 1) << event.message << " round " << round;
    ASSERT_GE(messages.size(), acknowledged);
  }
  EXPECT_GE(acknowledged, 12U);
}

}  // namespace
}  // namespace vetta::ingest
