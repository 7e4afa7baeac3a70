// SPDX-License-Identifier: Apache-2.0
#include "sys/files.h"

#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vetta::sys {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "files-" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(make_folders(folder_));
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(Files, WritesReplacesAndLeavesNoTemporary) {
  const std::string path = folder_ + "/x";
  ASSERT_TRUE(write_atomically(path, "one"));
  ASSERT_TRUE(write_atomically(path, std::string("t\0wo", 4), 0600));
  EXPECT_EQ(read_file(path, 100).value(), std::string("t\0wo", 4));
  EXPECT_EQ(list_folder(folder_).value(), std::vector<std::string>{"x"});
  struct stat info{};

  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(Files, AFailedWriteNamesThePathAndKeepsTheOld) {
  const auto error = write_atomically(folder_ + "/no/x", "one");
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().code, Code::not_found);
  EXPECT_NE(error.error().text().find(folder_ + "/no/x"), std::string::npos);
}

TEST_F(Files, ReadHasALimit) {
  const std::string path = folder_ + "/x";
  ASSERT_TRUE(write_atomically(path, std::string(10'000, 'a')));
  EXPECT_EQ(read_file(path, 10'000)->size(), 10'000U);
  EXPECT_EQ(read_file(path, 9'999).error().code, Code::exhausted);
  EXPECT_EQ(read_file(folder_ + "/none", 10).error().code, Code::not_found);
}

TEST_F(Files, MakesFoldersAndRefusesAFileInTheWay) {
  ASSERT_TRUE(make_folders(folder_ + "/a/b/c"));
  ASSERT_TRUE(make_folders(folder_ + "/a/b/c"));
  ASSERT_TRUE(write_atomically(folder_ + "/f", ""));
  EXPECT_FALSE(make_folders(folder_ + "/f"));
  EXPECT_FALSE(make_folders(folder_ + "/f/g"));
}

TEST_F(Files, ALockIsHeldOnceAndNamesItsHolder) {
  const std::string path = folder_ + "/lock";
  {
    const auto first = FileLock::acquire(path);
    ASSERT_TRUE(first);
    const auto second = FileLock::acquire(path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::conflict);
    EXPECT_NE(second.error().message.find(std::to_string(::getpid())), std::string::npos);
  }
  EXPECT_TRUE(FileLock::acquire(path));
}

TEST_F(Files, FolderOf) {
  EXPECT_EQ(folder_of("/a/b"), "/a");
  EXPECT_EQ(folder_of("/a"), "/");
  EXPECT_EQ(folder_of("a"), ".");
}

}  // namespace
}  // namespace vetta::sys
