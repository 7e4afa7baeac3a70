// SPDX-License-Identifier: Apache-2.0
#include "core/time.h"

#include <gtest/gtest.h>

#ifndef VETTA_NO_RAPIDCHECK
#include <rapidcheck.h>
#endif

namespace vetta {
namespace {

using namespace std::chrono_literals;

TEST(SlurmSpan, ReadsEveryFormOfTheManual) {
  const auto span = [](std::string_view text) { return parse_slurm_span(text).value().value(); };
  EXPECT_EQ(span("90"), 90min);
  EXPECT_EQ(span("90:30"), 90min + 30s);
  EXPECT_EQ(span("01:02:03"), 1h + 2min + 3s);
  EXPECT_EQ(span("2-03"), 51h);
  EXPECT_EQ(span("2-03:04"), 51h + 4min);
  EXPECT_EQ(span("1-02:03:04"), 26h + 3min + 4s);
  EXPECT_EQ(span("00:01.500"), 1500ms);
  EXPECT_FALSE(parse_slurm_span("UNLIMITED").value().has_value());
}

TEST(SlurmSpan, RefusesWhatIsNone) {
  for (const char* text : {"", "N/A", "INVALID", "NOT_SET", "1:2:3:4", "-5", "1-", "nan", "1e300"})
    EXPECT_FALSE(parse_slurm_span(text)) << text;
}

TEST(Span, ReadsUnits) {
  EXPECT_EQ(parse_span("1h30m").value(), 90min);
  EXPECT_EQ(parse_span("500ms").value(), 500ms);
  EXPECT_EQ(parse_span("2").value(), 2s);
  EXPECT_FALSE(parse_span("2 weeks"));
  EXPECT_FALSE(parse_span(""));
}

TEST(Time, PrintsSpansAsItReadsThem) {
  EXPECT_EQ(print_span(24h * 90), "90d");
  EXPECT_EQ(print_span(25h), "25h");
  EXPECT_EQ(print_span(90min), "90m");
  EXPECT_EQ(print_span(10s), "10s");
  EXPECT_EQ(print_span(1500ms), "1500ms");
  EXPECT_EQ(print_span(0s), "0s");
#ifndef VETTA_NO_RAPIDCHECK
  EXPECT_TRUE(rc::check("parse_span(print_span(x)) == x", [] {
    const Duration unit = *rc::gen::element<Duration>(1ns, 1us, 1ms, 1s, 1min, 1h, 24h);
    const Duration span = *rc::gen::inRange(0, 3000) * unit;
    RC_ASSERT(parse_span(print_span(span)).value() == span);
  }));
#endif
}

TEST(Time, PrintsForMachinesAndPeople) {
  EXPECT_EQ(iso(from_epoch_nanoseconds(1'700'000'000'120'000'000), 3), "2023-11-14T22:13:20.120Z");
  EXPECT_EQ(human(12345us), "12.3 ms");
  EXPECT_EQ(human(999'600us), "1.00 s");
  EXPECT_EQ(human(192s), "3m12s");
  EXPECT_EQ(human(-192s), "-3m12s");
  EXPECT_EQ(human(26h), "1d02h");
}

}  // namespace
}  // namespace vetta
