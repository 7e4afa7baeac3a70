// SPDX-License-Identifier: Apache-2.0
#include "sys/ring.h"

#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/checksum.h"
#include "sys/files.h"

namespace vetta::sys {
namespace {

class Ring : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "ring-" + std::to_string(::getpid());
    ASSERT_TRUE(make_folders(folder_));
    path_ = folder_ + "/a.ring";
  }

  void TearDown() override {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }

  void make(std::uint64_t slots) {
    RingHeader header;
    header.slots = slots;
    header.rank_id = 0x1122334455667788;
    header.pid = 4242;
    header.rank = 5;
    header.local_rank = 1;
    header.world_size = 8;
    header.start_ticks = 987654;
    header.uid = ::geteuid();
    header.job_id = "4711";
    header.step_id = "batch";
    header.slurm_restart = 2;
    header.task = 3;
    ASSERT_TRUE(make_ring(path_, header));
  }

  static RingStep step(std::int64_t number) {
    RingStep out;
    out.step = number;
    out.start_wall_ns = 1'700'000'000'000'000'000 + number;
    out.duration_ns = 80'000'000;
    out.phases_ns = {1, 2, 3, 4, -1};
    out.samples = 32;
    out.loss = std::nan("");
    out.source = 1;
    return out;
  }

  void patch(std::uint64_t offset, std::string_view bytes) {
    const auto fd = open_file(path_, O_RDWR);
    ASSERT_TRUE(fd);
    ASSERT_TRUE(pwrite_all(fd->get(), bytes, offset));
  }

  std::string folder_, path_;
};

TEST_F(Ring, FileIsOwnedClosedToOthersAndOfTheRightSize) {
  make(16);
  struct stat info{};

  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_EQ(info.st_size, 4096 + 16 * 128);
}

TEST_F(Ring, HeaderComesBack) {
  make(16);
  auto reader = RingReader::open(path_);
  ASSERT_TRUE(reader);
  const auto header = reader->header();
  ASSERT_TRUE(header);
  EXPECT_EQ(header->rank_id, 0x1122334455667788U);
  EXPECT_EQ(header->job_id, "4711");
  EXPECT_EQ(header->step_id, "batch");
  EXPECT_EQ(header->world_size, 8);
  EXPECT_EQ(header->start_ticks, 987654U);
  EXPECT_EQ(header->slurm_restart, 2U);
  EXPECT_EQ(header->task, 3);
  EXPECT_FALSE(header->is_closed);
}

TEST_F(Ring, WhereTheWriterIsComesBack) {
  make(16);
  auto writer = RingWriter::open(path_);
  const auto reader = RingReader::open(path_);
  EXPECT_FALSE(reader->header()->now) << "an older probe writes none, and none is not step 0";
  ASSERT_TRUE(writer->write(step(1)));
  ASSERT_TRUE(writer->write(RingNow{15, 5, 1'700'000'000'000'000'000}));
  auto content = reader->read(1, 10);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->now, (RingNow{15, 5, 1'700'000'000'000'000'000}));
  EXPECT_EQ(content->written, 1U);
  ASSERT_TRUE(writer->write(RingNow{-1, 0, 7}));
  EXPECT_EQ(reader->header()->now, (RingNow{-1, 0, 7}));
  ASSERT_TRUE(writer->write(step(2)));
  EXPECT_TRUE(reader->header()->now) << "marks leave it alone";
}

TEST_F(Ring, APlaceThatMakesNoSenseIsUnknown) {
  make(16);
  auto writer = RingWriter::open(path_);
  const auto reader = RingReader::open(path_);
  for (const RingNow& bad : {RingNow{0, 6, 7}, RingNow{-2, 0, 7}, RingNow{0, 0, 0},
                             RingNow{0, 0, -7}, RingNow{0, 0xffffffff, 7}}) {
    ASSERT_TRUE(writer->write(bad));
    EXPECT_FALSE(reader->header()->now);
    EXPECT_TRUE(reader->read(0, 10)) << "the marks are good all the same";
  }
  ASSERT_TRUE(writer->write(RingNow{0, 0, 7}));
  EXPECT_TRUE(reader->header()->now);
  patch(140, "x");
  EXPECT_FALSE(reader->header()->now);
}

TEST_F(Ring, StepsComeBackInOrderFromAnyPoint) {
  make(16);
  auto writer = RingWriter::open(path_);
  ASSERT_TRUE(writer);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(writer->write(step(i)));
  auto reader = RingReader::open(path_);
  ASSERT_TRUE(reader);
  const auto all = reader->read(0, 1000);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->steps.size(), 10U);
  EXPECT_EQ(all->next, 10U);
  EXPECT_EQ(all->steps[3].step, 3);
  EXPECT_EQ(all->steps[3].sequence, 4U);
  EXPECT_EQ(all->steps[3].phases_ns[3], 4);
  EXPECT_TRUE(std::isnan(all->steps[3].loss));
  const auto part = reader->read(4, 3);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->steps.front().sequence, 5U);
  EXPECT_EQ(part->next, 7U);
  EXPECT_TRUE(part->has_more);
}

TEST_F(Ring, OverwrittenSlotsAreCounted) {
  make(8);
  auto writer = RingWriter::open(path_);
  ASSERT_TRUE(writer);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(writer->write(step(i)));
  const auto content = RingReader::open(path_)->read(2, 1000);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->overwritten, 10U);  // 3..12 are gone
  ASSERT_EQ(content->steps.size(), 8U);
  EXPECT_EQ(content->steps.front().sequence, 13U);
}

TEST_F(Ring, ReadStoresTheAcknowledgedSequence) {
  make(8);
  auto reader = RingReader::open(path_);
  ASSERT_TRUE(reader->store_read(5));
  EXPECT_EQ(RingReader::open(path_)->header()->read, 5U);
}

TEST_F(Ring, NotesOfAnyLengthComeBackBetweenSteps) {
  make(256);
  auto writer = RingWriter::open(path_);
  for (const std::size_t size : {0U, 1U, 92U, 93U, 500U, 5980U, 7000U}) {
    ASSERT_TRUE(writer->write(step(1)));
    ASSERT_TRUE(writer->write(RingNote{0, RingNoteKind::exception, 77, std::string(size, 'x')}));
  }
  ASSERT_TRUE(writer->write(step(2)));
  const auto content = RingReader::open(path_)->read(0, 1000);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->steps.size(), 8U);
  ASSERT_EQ(content->notes.size(), 7U);
  EXPECT_EQ(content->notes[3].text.size(), 93U);
  EXPECT_EQ(content->notes[3].wall_ns, 77);
  EXPECT_EQ(content->notes[6].text.size(), ring_note_bytes_max);
  EXPECT_EQ(content->damaged, 0U);
  EXPECT_EQ(content->next, writer->written());
}

TEST_F(Ring, NoteThatMayGoOnIsLeftUntilItsWriterIsGone) {
  make(64);
  auto writer = RingWriter::open(path_);
  ASSERT_TRUE(writer->write(step(1)));
  ASSERT_TRUE(writer->write(RingNote{0, RingNoteKind::exception, 7, std::string(92, 'x')}));
  const auto reader = RingReader::open(path_);
  auto content = reader->read(0, 100);
  EXPECT_TRUE(content->notes.empty());
  EXPECT_EQ(content->next, 1U);
  content = reader->read(0, 100, true);
  EXPECT_EQ(content->notes.size(), 1U);
  EXPECT_EQ(content->next, 2U);
}

TEST_F(Ring, NoteAcrossTheReadLimitIsNotCut) {
  make(256);
  auto writer = RingWriter::open(path_);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(writer->write(step(i)));
  ASSERT_TRUE(writer->write(RingNote{0, RingNoteKind::exception, 7, std::string(900, 'x')}));
  const auto reader = RingReader::open(path_);
  const auto first = reader->read(0, 8);
  EXPECT_EQ(first->steps.size(), 5U);
  EXPECT_TRUE(first->notes.empty());
  EXPECT_EQ(first->next, 5U);
  const auto second = reader->read(first->next, 100);
  ASSERT_EQ(second->notes.size(), 1U);
  EXPECT_EQ(second->notes[0].text.size(), 900U);
}

TEST_F(Ring, SlotInTheMakingIsReadAgainAnOldDamagedOneIsCounted) {
  make(16);
  auto writer = RingWriter::open(path_);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(writer->write(step(i)));
  patch(4096 + 9 * 128 + 60, "boom");  // the newest
  const auto reader = RingReader::open(path_);
  auto content = reader->read(0, 100);
  EXPECT_EQ(content->next, 9U);
  EXPECT_EQ(content->damaged, 0U);
  content = reader->read(0, 100, true);
  EXPECT_EQ(content->next, 10U);
  EXPECT_EQ(content->damaged, 1U);
  patch(4096 + 2 * 128 + 60, "boom");
  content = reader->read(0, 100);
  EXPECT_EQ(content->damaged, 1U);
  EXPECT_EQ(content->steps.size(), 8U);
}

TEST_F(Ring, AFileThatItsOwnerCutIsAnErrorOrDamageNeverACrash) {
  make(16);
  auto writer = RingWriter::open(path_);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(writer->write(step(i)));
  const auto reader = RingReader::open(path_);
  ASSERT_EQ(::truncate(path_.c_str(), 4096 + 3 * 128), 0);
  const auto content = reader->read(0, 100, true);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->steps.size(), 3U);
  EXPECT_EQ(content->damaged, 7U);
  ASSERT_EQ(::truncate(path_.c_str(), 100), 0);
  EXPECT_FALSE(reader->read(0, 100));
  EXPECT_FALSE(RingReader::open(path_));
}

TEST_F(Ring, AFileThatItsOwnerMadeLargerIsCutBack) {
  make(16);
  auto writer = RingWriter::open(path_);
  ASSERT_TRUE(writer->write(step(1)));
  const auto reader = RingReader::open(path_);
  EXPECT_TRUE(reader->trim());
  const auto owner = open_file(path_, O_RDWR);
  ASSERT_EQ(::posix_fallocate(owner->get(), 0, 8 << 20), 0);
  const auto read = reader->read(0, 100);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("8388608"), std::string::npos) << read.error().message;
  struct stat info{};

  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 4096 + 16 * 128);
  EXPECT_LE(info.st_blocks * 512, 2 << 20);
  EXPECT_EQ(reader->read(0, 100)->steps.size(), 1U) << "what lay in it is still there";
}

TEST_F(Ring, SpaceBehindTheEndIsTakenBack) {
  make(16);
  const auto reader = RingReader::open(path_);
  const auto owner = open_file(path_, O_RDWR);
  if (::fallocate(owner->get(), FALLOC_FL_KEEP_SIZE, 0, 8 << 20) != 0)
    GTEST_SKIP() << "this file system cannot";
  struct stat info{};

  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  if (info.st_blocks * 512 < 8 << 20) GTEST_SKIP() << "this file system does not count it";
  EXPECT_FALSE(reader->trim());
  EXPECT_TRUE(reader->trim());
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_LE(info.st_blocks * 512, 2 << 20);
}

TEST_F(Ring, ChangedFixedFieldsAreRefused) {
  make(16);
  const auto reader = RingReader::open(path_);
  patch(24, "otherid!");
  EXPECT_FALSE(reader->header());
  patch(16, std::string(8, '\xff'));
  EXPECT_FALSE(reader->read(0, 10));
  patch(0, "nonsense");
  EXPECT_FALSE(RingReader::open(path_));
}

TEST_F(Ring, AHugeWrittenIsBounded) {
  make(16);
  auto writer = RingWriter::open(path_);
  ASSERT_TRUE(writer->write(step(1)));
  patch(32, std::string(8, '\xff'));
  EXPECT_FALSE(RingReader::open(path_));
  patch(32, std::string(7, '\xff') + '\0');
  const auto content = RingReader::open(path_)->read(1, 1'000'000, true);
  ASSERT_TRUE(content);
  EXPECT_TRUE(content->steps.empty());
  EXPECT_EQ(content->damaged, 16U);
  EXPECT_GT(content->overwritten, 1'000'000U);
}

TEST_F(Ring, RandomBytesNeverCrashTheReader) {
  make(64);
  std::mt19937 random(7);
  const auto reader = RingReader::open(path_);
  for (int round = 0; round < 200; ++round) {
    std::string noise(64 * 128, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    for (std::uint64_t slot = 0; slot < 64; slot += 1 + random() % 3) {
      // Good checksums and sequences around nonsense.
      const std::uint64_t sequence = slot + 1;
      std::memcpy(&noise[slot * 128], &sequence, 8);
      std::memcpy(&noise[slot * 128 + 16], &sequence, 8);
      noise[slot * 128 + 8] = static_cast<char>(random() % 5);
      std::memset(&noise[slot * 128 + 9], 0, 3);
      noise[slot * 128 + 24] = static_cast<char>(random() % 4);
      noise[slot * 128 + 25] = 0;
      const std::uint32_t crc = crc32(std::string_view(noise).substr(slot * 128 + 16, 112));
      std::memcpy(&noise[slot * 128 + 12], &crc, 4);
    }
    patch(4096, noise);
    const std::uint64_t written = random() % 80;
    patch(32, std::string_view(reinterpret_cast<const char*>(&written), 8));
    std::uint64_t at = 0;
    for (int i = 0; i < 100; ++i) {
      const auto content = reader->read(at, 1 + random() % 20, i > 50);
      ASSERT_TRUE(content);
      ASSERT_GE(content->next, at);
      at = content->next;
      if (at >= written) break;
    }
  }
}

TEST_F(Ring, AnothersRingIsOpenToOurGroupAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  RingHeader header;
  header.uid = 65534;
  const auto made = make_ring(path_, header);
  ASSERT_TRUE(made) << made.error().text();
  struct stat info{};
  ASSERT_EQ(::fstat(made->get(), &info), 0);
  EXPECT_EQ(info.st_uid, 65534U);
  EXPECT_EQ(info.st_gid, ::getegid());
  EXPECT_EQ(info.st_mode & 07777U, 0660U);
}

TEST_F(Ring, AFullDiskOrASillySizeIsAnErrorOfTheMaker) {
  RingHeader header;
  header.uid = ::geteuid();
  header.slots = ring_slots_max + 1;
  EXPECT_FALSE(make_ring(path_, header));
  EXPECT_FALSE(make_ring("/nowhere/at/all.ring", RingHeader{}));
}

}  // namespace
}  // namespace vetta::sys
