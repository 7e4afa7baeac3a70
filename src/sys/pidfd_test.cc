// SPDX-License-Identifier: Apache-2.0
#include "sys/pidfd.h"

#include <csignal>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/process.h"

namespace vetta::sys {
namespace {

TEST(Pidfd, TellsTheEndAndWhereTheKernelCanItsStatus) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto pidfd = open_pidfd(child);
  pollfd poll{pidfd ? pidfd->get() : -1, POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
  ::kill(child, SIGTERM);
  if (pidfd) {
    EXPECT_EQ(::poll(&poll, 1, 10'000), 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (!pidfd) GTEST_SKIP() << pidfd.error().text();
  const auto seen = wait_status_of(*pidfd);
  if (!seen) GTEST_SKIP() << "this kernel does not tell the status";
  EXPECT_EQ(exit_status_of_wait(*seen).signal, SIGTERM);
}

TEST(Pidfd, AProcessThatIsNotThereIsNotFound) {
  EXPECT_FALSE(open_pidfd(0x3fffffff));
}

}  // namespace
}  // namespace vetta::sys
