// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <gtest/gtest.h>

#include "core/error_table.h"

namespace vetta {
namespace {

Result<int> inner(bool good) {
  if (good) return 7;
  return fail(Code::not_found, "partition 'gpu2' does not exist", "sinfo lists partitions");
}

Result<int> outer(bool good) {
  return VETTA_TRY(inner(good)) + 1;
}

TEST(Error, ReadsAsOneSentence) {
  EXPECT_EQ(outer(true).value(), 8);
  Error error = std::move(outer(false).error()).while_("read the job").at({"job.sh", 3, 9});
  EXPECT_EQ(error.text(),
            "job.sh:3:9: read the job: partition 'gpu2' does not exist; sinfo lists partitions");
}

TEST(Error, MapsOnce) {
  EXPECT_EQ(http_status(Code::not_found), 404);
  EXPECT_EQ(exit_code(Code::denied), 4);
  EXPECT_EQ(exit_code(Code::unavailable), 5);
  EXPECT_EQ(code_of_status(503), Code::unavailable);
  EXPECT_EQ(code_of_name("exhausted"), Code::exhausted);
  EXPECT_EQ(fail_errno("open /x", EACCES).error().code, Code::denied);
}

}  // namespace
}  // namespace vetta
