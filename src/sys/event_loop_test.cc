// SPDX-License-Identifier: Apache-2.0
#include "sys/event_loop.h"

#include <array>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace vetta::sys {
namespace {

using namespace std::chrono_literals;

TEST(EventLoop, RunsTimersInOrderAndHonoursCancel) {
  auto loop = EventLoop::make().value();
  std::string order;
  EventLoop::TimerId never = 0;
  loop->after(0ms, [&] {
    order += 'a';
    loop->cancel(never);  // due as well by now
  });
  never = loop->after(0ms, [&] { order += 'x'; });
  loop->after(1ms, [&] {
    order += 'b';
    loop->stop();
  });
  loop->run();
  EXPECT_EQ(order, "ab");
}

TEST(EventLoop, CallsWatchersAndNotAfterUnwatch) {
  auto loop = EventLoop::make().value();
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  int calls = 0;
  ASSERT_TRUE(loop->watch(ends[0], EventLoop::readable, [&](std::uint32_t events) {
    EXPECT_TRUE((events & EventLoop::readable) != 0);
    ++calls;
    loop->unwatch(ends[0]);  // the byte stays unread: level-triggered, it would come again
    loop->after(5ms, [&] { loop->stop(); });
  }));
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  loop->run();
  EXPECT_EQ(calls, 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(EventLoop, TakesCallsFromOtherThreads) {
  auto loop = EventLoop::make().value();
  int sum = 0;
  std::jthread other([&] {
    for (int i = 1; i <= 100; ++i) loop->post([&sum, i] { sum += i; });
    loop->stop();
  });
  loop->run();
  EXPECT_EQ(sum, 5050);
}

}  // namespace
}  // namespace vetta::sys
