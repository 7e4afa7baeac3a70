// SPDX-License-Identifier: Apache-2.0
#include "sys/journal.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>
#include <vector>

#include "sys/files.h"

namespace vetta::sys {
namespace {

class JournalFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "journal-" + std::to_string(::getpid());
    ::unlink(path_.c_str());
  }

  void TearDown() override { ::unlink(path_.c_str()); }

  Result<Journal> open() {
    seen_.clear();
    return Journal::open(path_, [this](std::string_view record) -> Result<void> {
      seen_.emplace_back(record);
      return {};
    });
  }

  std::string path_;
  std::vector<std::string> seen_;
};

TEST_F(JournalFile, GivesBackWhatWasAppended) {
  const std::vector<std::string> records = {"one", "", std::string("t\0wo", 4),
                                            std::string(100'000, 'x')};
  {
    auto journal = open();
    ASSERT_TRUE(journal);
    for (const std::string& record : records) ASSERT_TRUE(journal->append(record));
    ASSERT_TRUE(journal->sync());
    EXPECT_FALSE(open()) << "a second writer";
  }
  auto journal = open();
  ASSERT_TRUE(journal);
  EXPECT_EQ(seen_, records);
  EXPECT_EQ(journal->replayed().cut_bytes, 0U);
}

TEST_F(JournalFile, ATornTailIsCutAtEveryByte) {
  {
    auto journal = open();
    ASSERT_TRUE(journal->append("first"));
    ASSERT_TRUE(journal->append("second"));
  }
  const std::string whole = read_file(path_, 1000).value();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(write_atomically(path_, whole.substr(0, size)));
    const std::size_t good = size < 8 + 13 ? 0U : 1U;
    auto journal = open();
    ASSERT_TRUE(journal) << size;
    EXPECT_EQ(seen_.size(), good) << size;
    ASSERT_TRUE(journal->append("after"));
    journal = fail(Code::internal, "close");
    ASSERT_TRUE(open());
    EXPECT_EQ(seen_.back(), "after") << size;
    EXPECT_EQ(seen_.size(), good + 1) << size;
  }
}

TEST_F(JournalFile, AFlippedBitEndsTheGoodPart) {
  {
    auto journal = open();
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(journal->append("record " + std::to_string(i)));
  }
  std::string bytes = read_file(path_, 1000).value();
  bytes[8 + 16 * 2 + 10] ^= 4;
  ASSERT_TRUE(write_atomically(path_, bytes));
  const auto replay = replay_journal(path_, [](std::string_view) -> Result<void> { return {}; });
  ASSERT_TRUE(replay);
  EXPECT_EQ(replay->records, 2U);
  EXPECT_GT(replay->cut_bytes, 0U);
}

TEST_F(JournalFile, AForeignFileStaysUntouched) {
  ASSERT_TRUE(write_atomically(path_, "#!/bin/sh\n"));
  const auto journal = open();
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().code, Code::invalid);
  EXPECT_EQ(read_file(path_, 100).value(), "#!/bin/sh\n");
}

TEST_F(JournalFile, ClearEmptiesIt) {
  auto journal = open();
  ASSERT_TRUE(journal->append("one"));
  ASSERT_TRUE(journal->clear());
  ASSERT_TRUE(journal->append("two"));
  journal = fail(Code::internal, "close");
  ASSERT_TRUE(open());
  EXPECT_EQ(seen_, std::vector<std::string>{"two"});
}

TEST_F(JournalFile, AVisitorsErrorStops) {
  {
    auto journal = open();
    ASSERT_TRUE(journal->append("one"));
  }
  const auto journal = Journal::open(
      path_, [](std::string_view) -> Result<void> { return fail(Code::invalid, "not mine"); });
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().message, "not mine");
}

}  // namespace
}  // namespace vetta::sys
