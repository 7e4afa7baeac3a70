// SPDX-License-Identifier: Apache-2.0
#include "series/attempt_file.h"

#include <cmath>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <rapidcheck.h>
#include <set>
#include <unistd.h>

#include "series/block_detail.h"

namespace vetta::series {
namespace {

using model::Mark;

Time at_ns(std::int64_t ns) {
  return from_epoch_nanoseconds(1'700'000'000'000'000'000 + ns);
}

Mark mark(std::uint64_t sequence) {
  Mark m;
  m.sequence = sequence;
  m.step = static_cast<std::int64_t>(sequence) - 1;
  const auto s = static_cast<std::int64_t>(sequence);
  m.duration = Duration(250'000'000 + (s * 7919) % 9'000'000);
  m.start = at_ns(s * 260'000'000 + (s * 104'729) % 5'000'000);
  m.phases = {Duration(1'000'000 + (s * 31) % 400'000),
              Duration(80'000'000 + (s * 977) % 3'000'000),
              Duration(120'000'000 + (s * 613) % 3'000'000), model::missing_duration,
              Duration(30'000'000 + (s * 409) % 3'000'000)};
  m.samples = 32;
  m.loss = static_cast<double>(static_cast<float>(3.0 / (1.0 + static_cast<double>(s))));
  return m;
}

std::vector<Mark> marks(std::uint64_t first, std::uint64_t last) {
  std::vector<Mark> out;
  for (auto s = first; s <= last; ++s) out.push_back(mark(s));
  return out;
}

bool is_same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool is_same(const Mark& a, const Mark& b) {
  return a.sequence == b.sequence && a.step == b.step && a.start == b.start &&
         a.duration == b.duration && a.phases == b.phases && is_same(a.samples, b.samples) &&
         is_same(a.loss, b.loss) && a.source == b.source;
}

class AttemptFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(testing::TempDir()) /
           fmt::format("marks-{}-{}", getpid(), counter_++);
    open({});
  }

  void TearDown() override {
    files_.reset();
    std::filesystem::remove_all(dir_);
  }

  void open(AttemptFileOptions options) {
    files_.reset();
    options.dir = dir_;
    options.is_synced = false;
    files_ = AttemptFiles::open(options).value();
  }

  Appended append(const RankRef& rank, const std::vector<Mark>& what) {
    const MarkAppend part{rank, what};
    auto done = files_->append(key_, std::span(&part, 1), {});
    EXPECT_TRUE(done) << done.error().text();
    return done.value_or(Appended());
  }

  std::vector<Mark> read(const ScanFilter& filter = {}) {
    std::vector<Mark> out;
    const auto done = files_->scan_marks(key_, filter, [&](const RankRef&, const Mark& m) {
      out.push_back(m);
      return true;
    });
    EXPECT_TRUE(done) << done.error().text();
    return out;
  }

  model::AttemptKey key_{"al/ps", 4711, from_epoch_seconds(1'700'000'000)};
  std::filesystem::path dir_;
  std::unique_ptr<AttemptFiles> files_;
  static inline int counter_ = 0;
};

constexpr RankRef rank0{.rank_id = 77, .incarnation = 0, .rank = 0};
constexpr RankRef rank1{.rank_id = ~0ULL, .incarnation = 0, .rank = 1};

TEST_F(AttemptFilesTest, GivesBackWhatItTookAndDropsWhatComesAgain) {
  EXPECT_EQ(append(rank0, marks(1, 100)).marks, 100U);
  const auto again = append(rank0, marks(51, 150));
  EXPECT_EQ(again.marks, 50U);
  EXPECT_EQ(again.duplicates, 50U);
  open({});
  EXPECT_EQ(append(rank0, marks(1, 150)).marks, 0U);
  const auto all = read();
  ASSERT_EQ(all.size(), 150U);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(is_same(all[i], mark(i + 1)));
  EXPECT_EQ(files_->info(key_).value()->marks, 150U);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "al%2Fps" / "4" / "4711-1700000000.marks"));
}

TEST_F(AttemptFilesTest, IsCompact) {
  const auto done = append(rank0, marks(1, 1000));
  EXPECT_LE(done.bytes, 32'000U);
}

TEST_F(AttemptFilesTest, FiltersOpenAndSealedAlike) {
  append(rank0, marks(1, 3000));
  append(rank1, marks(1, 10));
  append({.rank_id = 5, .incarnation = 1, .rank = 0}, marks(1, 20));
  for (const bool is_sealed : {false, true}) {
    if (is_sealed) {
      ASSERT_TRUE(files_->seal(key_));
    }
    EXPECT_EQ(files_->info(key_).value()->is_sealed, is_sealed);
    EXPECT_EQ(files_->info(key_).value()->marks, 3030U);
    EXPECT_EQ(read({.incarnation = 1}).size(), 20U);
    EXPECT_EQ(read({.rank = 0}).size(), 3020U);
    EXPECT_EQ(read({.rank_id = ~0ULL}).size(), 10U);
    EXPECT_EQ(read({.incarnation = 0, .rank = 0, .step_from = 100, .step_to = 200}).size(), 100U);
    EXPECT_EQ(read({.to = mark(5).start}).size(), 3U * 4U);
    EXPECT_EQ(read({.from = mark(2990).start}).size(), 11U);
  }
}

TEST_F(AttemptFilesTest, LateMarksOpenASealedFileAgain) {
  append(rank0, marks(1, 10));
  ASSERT_TRUE(files_->seal(key_));
  EXPECT_EQ(append(rank0, marks(5, 12)).marks, 2U);
  EXPECT_FALSE(files_->info(key_).value()->is_sealed);
  EXPECT_EQ(read().size(), 12U);
  ASSERT_TRUE(files_->seal(key_));
  EXPECT_EQ(read().size(), 12U);
  EXPECT_EQ(files_->info(key_).value()->marks, 12U);
}

TEST_F(AttemptFilesTest, LastMarksOfEveryRank) {
  for (std::uint64_t s = 1; s <= 500; s += 10) append(rank0, marks(s, s + 9));
  append(rank1, marks(1, 3));
  for (const bool is_sealed : {false, true}) {
    if (is_sealed) {
      ASSERT_TRUE(files_->seal(key_));
    }
    const auto last = files_->last_marks(key_, 0, 25).value();
    ASSERT_EQ(last.size(), 2U);
    ASSERT_EQ(last[0].marks.size(), 25U);
    EXPECT_EQ(last[0].marks.front().sequence, 476U);
    EXPECT_EQ(last[0].marks.back().sequence, 500U);
    EXPECT_EQ(last[1].marks.size(), 3U);
    EXPECT_TRUE(files_->last_marks(key_, 7, 25).value().empty());
  }
}

TEST_F(AttemptFilesTest, ATornTailIsCutAtEveryByte) {
  append(rank0, marks(1, 20));
  const auto whole = std::filesystem::file_size(files_->path(key_));
  append(rank0, marks(21, 40));
  const auto full = std::filesystem::file_size(files_->path(key_));
  const auto copy = dir_ / "copy";
  std::filesystem::copy_file(files_->path(key_), copy);
  for (auto bytes = whole; bytes < full; ++bytes) {
    std::filesystem::copy_file(copy, files_->path(key_),
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(files_->path(key_), bytes);
    open({});
    EXPECT_EQ(read().size(), 20U) << bytes;
    EXPECT_EQ(files_->last_marks(key_, 0, 5).value()[0].marks.back().sequence, 20U);
    EXPECT_EQ(append(rank0, marks(21, 40)).marks, 20U);
    EXPECT_EQ(read().size(), 40U) << bytes;
  }
}

TEST_F(AttemptFilesTest, ADamagedBlockEndsTheFile) {
  append(rank0, marks(1, 20));
  const auto first_end = std::filesystem::file_size(files_->path(key_));
  append(rank0, marks(21, 40));
  const int fd = ::open(files_->path(key_).c_str(), O_RDWR);
  ASSERT_EQ(::pwrite(fd, "x", 1, static_cast<off_t>(first_end + 30)), 1);
  ::close(fd);
  open({});
  EXPECT_EQ(read().size(), 20U);
}

TEST_F(AttemptFilesTest, WhatIsNoFileOfMarksIsSetAside) {
  const auto path = files_->path(key_);
  std::filesystem::create_directories(path.parent_path());
  int number = 0;
  for (const std::string content : {"", "VETTA", "no marks at all", "VETTAAT9 and more"}) {
    open({});
    std::ofstream(path) << content;
    EXPECT_TRUE(read().empty());
    EXPECT_TRUE(files_->last_marks(key_, 0, 5).value().empty());
    EXPECT_FALSE(files_->info(key_).value());
    EXPECT_EQ(files_->seal(key_).error().code, Code::conflict);
    const auto done = append(rank0, marks(1, 20));
    EXPECT_EQ(done.marks, 20U);
    EXPECT_EQ(done.set_aside, fmt::format("{}.damaged-{}", path.native(), ++number));
    EXPECT_EQ(std::filesystem::file_size(done.set_aside), content.size());
    EXPECT_EQ(read().size(), 20U);
    EXPECT_EQ(append(rank0, marks(21, 22)).set_aside, "");
  }
  ASSERT_TRUE(files_->remove(key_));
  EXPECT_TRUE(std::filesystem::is_empty(path.parent_path()));
}

TEST_F(AttemptFilesTest, TheCapIsCountedNotSilent) {
  open({.bytes_max = 20'000});
  std::uint64_t kept = 0, refused = 0;
  for (std::uint64_t s = 1; s <= 2000; s += 50) {
    const auto done = append(rank0, marks(s, s + 49));
    kept += done.marks;
    refused += done.refused;
  }
  EXPECT_EQ(kept + refused, 2000U);
  EXPECT_GT(kept, 500U);
  EXPECT_EQ(append(rank0, marks(1, 2000)).duplicates, 2000U) << "counted once";
  EXPECT_EQ(files_->info(key_).value()->refused, refused);
  EXPECT_LE(files_->info(key_).value()->bytes, 20'000U + 8192U);
  open({.bytes_max = 20'000});
  EXPECT_EQ(files_->info(key_).value()->refused, refused);
  ASSERT_TRUE(files_->seal(key_));
  EXPECT_EQ(files_->info(key_).value()->refused, refused);
  EXPECT_EQ(read().size(), kept);
}

TEST_F(AttemptFilesTest, OpenFilesAreBounded) {
  open({.open_max = 4});
  for (std::uint64_t job = 1; job <= 20; ++job) {
    key_.job_id = job;
    append(rank0, marks(1, 5));
  }
  EXPECT_LE(files_->open_files(), 4U);
  key_.job_id = 1;
  EXPECT_EQ(append(rank0, marks(1, 6)).marks, 1U);
  ASSERT_TRUE(files_->remove(key_));
  EXPECT_FALSE(files_->info(key_).value());
  EXPECT_TRUE(read().empty());
}

TEST_F(AttemptFilesTest, SamplesComeOncePerBatch) {
  model::RankSample full;
  full.time = at_ns(0);
  full.cpu_seconds = 12.5;
  full.rss_bytes = 1ULL << 40U;
  full.threads = 7;
  full.minor_faults = 0;
  model::RankSample gap;
  gap.time = at_ns(10);
  gap.gap = "permission denied: /proc/4/io";
  gap.rss_bytes = 5;
  const std::array both{full, gap};
  const SampleAppend part{rank0, {.agent_id = 9, .sequence = 3}, both};
  EXPECT_EQ(files_->append(key_, {}, std::span(&part, 1)).value().samples, 2U);
  open({});
  EXPECT_EQ(files_->append(key_, {}, std::span(&part, 1)).value().duplicates, 2U);
  std::vector<model::RankSample> out;
  const auto take = [&](const RankRef& ref, const model::RankSample& sample) {
    EXPECT_EQ(ref, rank0);
    out.push_back(sample);
    return true;
  };
  ASSERT_TRUE(files_->scan_samples(key_, {}, take));
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].cpu_seconds, 12.5);
  EXPECT_EQ(out[0].rss_bytes, 1ULL << 40U);
  EXPECT_EQ(out[0].minor_faults, 0U);
  EXPECT_FALSE(out[0].major_faults);
  EXPECT_EQ(out[1].gap, gap.gap);
  EXPECT_EQ(out[1].rss_bytes, 5U);
  EXPECT_FALSE(out[1].threads);
}

Mark any_mark() {
  Mark m;
  m.sequence = *rc::gen::arbitrary<std::uint64_t>();
  m.step = *rc::gen::arbitrary<std::int64_t>();
  m.start = from_epoch_nanoseconds(*rc::gen::arbitrary<std::int64_t>());
  m.duration = Duration(*rc::gen::arbitrary<std::int64_t>());
  for (auto& phase : m.phases)
    if (*rc::gen::arbitrary<bool>()) phase = Duration(*rc::gen::arbitrary<std::int64_t>());
  if (*rc::gen::arbitrary<bool>()) m.samples = *rc::gen::arbitrary<double>();
  if (*rc::gen::arbitrary<bool>()) m.loss = *rc::gen::arbitrary<double>();
  if (*rc::gen::arbitrary<bool>()) m.loss = std::numeric_limits<double>::infinity();
  if (*rc::gen::arbitrary<bool>()) m.source = model::MarkSource::injected;
  return m;
}

TEST(MarkCodec, AnyMarksComeBackExactly) {
  EXPECT_TRUE(rc::check("decode(encode(marks)) == marks", [] {
    std::vector<Mark> in;
    for (int i = *rc::gen::inRange(1, 10); i > 0; --i) in.push_back(any_mark());
    const auto payload = encode_marks(rank1, in);
    TakeBytes take(payload);
    const auto head = decode_head(take);
    RC_ASSERT(head.has_value());
    RC_ASSERT(head->rank == rank1);
    const auto out = decode_marks(*head, take);
    RC_ASSERT(out.size() == in.size());
    for (std::size_t i = 0; i < in.size(); ++i) RC_ASSERT(is_same(in[i], out[i]));
    RC_ASSERT(take.is_at_end());
  }));
}

TEST(MarkCodec, ShortenedInputNeverOverreads) {
  const auto payload = encode_marks(rank0, marks(1, 20));
  for (std::size_t size = 0; size < payload.size(); ++size) {
    const std::string part = payload.substr(0, size);
    TakeBytes take(part);
    if (const auto head = decode_head(take)) {
      EXPECT_LT(decode_marks(*head, take).size(), 20U);
    }
  }
}

TEST_F(AttemptFilesTest, AnyOrderOfAnyPartsIsKeptOnce) {
  EXPECT_TRUE(rc::check("a set of sequences", [&] {
    ++key_.job_id;
    std::map<std::uint64_t, std::set<std::uint64_t>> truth;
    for (int i = *rc::gen::inRange(1, 12); i > 0; --i) {
      const RankRef rank = *rc::gen::element(rank0, rank1);
      const auto first = *rc::gen::inRange<std::uint64_t>(1, 50);
      const auto what = marks(first, first + *rc::gen::inRange<std::uint64_t>(0, 20));
      const auto before = truth[rank.rank_id].size();
      for (const auto& m : what) truth[rank.rank_id].insert(m.sequence);
      RC_ASSERT(append(rank, what).marks == truth[rank.rank_id].size() - before);
      if (*rc::gen::inRange(0, 4) == 0) RC_ASSERT(files_->seal(key_).has_value());
      if (*rc::gen::inRange(0, 4) == 0) open({});
    }
    std::map<std::uint64_t, std::multiset<std::uint64_t>> seen;
    RC_ASSERT(files_
                  ->scan_marks(key_, {},
                               [&](const RankRef& r, const Mark& m) {
                                 seen[r.rank_id].insert(m.sequence);
                                 return true;
                               })
                  .has_value());
    for (const auto& [rank, sequences] : truth)
      RC_ASSERT(
          std::equal(sequences.begin(), sequences.end(), seen[rank].begin(), seen[rank].end()));
  }));
}

}  // namespace
}  // namespace vetta::series
