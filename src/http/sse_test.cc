// SPDX-License-Identifier: Apache-2.0
#include "http/sse.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "http/stream.h"

namespace vetta::http {
namespace {

TEST(Sse, ReadsWhatItWritesHoweverItIsCut) {
  const std::string text =
      encode({"7", "event", "{\"a\":1}\nsecond"}) + ": still here\n\n" + encode({"8", "", "x"});
  EXPECT_TRUE(rc::check("cut anywhere", [&] {
    SseReader reader;
    std::vector<SseEvent> got;
    std::size_t at = 0;
    while (at < text.size()) {
      const auto piece = *rc::gen::inRange<std::size_t>(1, 20);
      const auto events = reader.append(std::string_view(text).substr(at, piece)).value();
      got.insert(got.end(), events.begin(), events.end());
      at += piece;
    }
    RC_ASSERT(got.size() == 2U);
    RC_ASSERT(got[0].id == "7" && got[0].event == "event");
    RC_ASSERT(got[0].data == "{\"a\":1}\nsecond");
    RC_ASSERT(got[1].id == "8" && got[1].event.empty() && got[1].data == "x");
  }));
}

TEST(Sse, NewlinesCannotForgeAField) {
  SseReader reader;
  const auto got = reader.append(encode({"1\nevent: x", "a\r\nid: 9", "d\rid: 9"})).value();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].id, "1event: x");
  EXPECT_EQ(got[0].data, "d\nid: 9");
}

TEST(Sse, ReaderTakesCarriageReturnsAndBareFields) {
  SseReader reader;
  const auto got = reader.append("data\r\ndata:  two\r\n\r\nid: 3\n\n").value();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].data, "\n two");
}

TEST(Sse, ReaderHasALimit) {
  SseReader reader;
  EXPECT_EQ(reader.append(std::string((4U << 20U) + 1, 'x')).error().code, Code::exhausted);
}

TEST(ByteQueue, AFullQueueCutsItselfOff) {
  ByteQueue queue(10);
  int woken = 0;
  queue.on_ready([&] { ++woken; });
  EXPECT_TRUE(queue.push("12345"));
  EXPECT_FALSE(queue.push("1234567"));
  EXPECT_FALSE(queue.is_open());
  EXPECT_TRUE(queue.was_cut());
  EXPECT_FALSE(queue.push(""));
  EXPECT_EQ(woken, 2);
}

TEST(ByteQueue, WhatWasQueuedBeforeCloseIsStillTaken) {
  ByteQueue queue(10);
  EXPECT_TRUE(queue.push("abc"));
  queue.close();
  EXPECT_FALSE(queue.was_cut());
  EXPECT_EQ(queue.take(), "abc");
  EXPECT_EQ(queue.take(), "");
}

TEST(EventStream, TellsItsEnd) {
  bool ended = false;
  {
    EventStream stream;
    stream.on_end([&] { ended = true; });
    stream.close();
    EXPECT_FALSE(stream.push({}));
    EXPECT_FALSE(ended);
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace vetta::http
