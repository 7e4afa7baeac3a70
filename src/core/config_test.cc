// SPDX-License-Identifier: Apache-2.0
#include "core/config.h"

#include <gtest/gtest.h>

namespace vetta {
namespace {

using namespace std::chrono_literals;

Config config_of(std::string_view text) {
  return Config::parse(text, "vettad.toml").value();
}

TEST(Config, ReadsTypedValues) {
  Config config = config_of(
      "state = \"/var/lib/vetta\"\n[poll]\nperiod = \"10s\"\nmax = 5\nfast = true\nspool = "
      "\"64M\"\n"
      "listen = [\"a\", \"b\"]\n");
  EXPECT_EQ(config.text("state").value(), "/var/lib/vetta");
  EXPECT_EQ(config.span("poll.period").value(), 10s);
  EXPECT_EQ(config.integer("poll.max", 0, 10).value(), 5);
  EXPECT_EQ(config.boolean("poll.fast").value(), true);
  EXPECT_EQ(config.bytes("poll.spool").value(), 64U << 20U);
  EXPECT_EQ(config.texts("poll.listen").value().size(), 2U);
  EXPECT_FALSE(config.text("absent.key").value().has_value());
  EXPECT_TRUE(config.refuse_unknown());
}

TEST(Config, ErrorsNameThePlace) {
  Config config = config_of("[poll]\nperiod = 10\nmax = 99\nspan = \"soon\"\n");
  EXPECT_EQ(config.text("poll.period").error().text(),
            "vettad.toml:2:10: poll.period must be a text; put it in quotes");
  EXPECT_EQ(config.integer("poll.max", 0, 10).error().place.line, 3);
  EXPECT_EQ(config.span("poll.span").error().place.line, 4);
  EXPECT_EQ(Config::parse("a = \n", "x.toml").error().place.line, 1);
  EXPECT_EQ(Config::read("/nonexistent/vettad.toml").error().code, Code::not_found);
}

TEST(Config, ATextReadsAsItWasWritten) {
  for (const std::string text : {"", "plain", R"(C:\new "folder")", "a\tb\nc\x01\x7f", "näher"})
    EXPECT_EQ(config_of("key = " + toml_text(text) + "\n").text("key").value(), text);
}

TEST(Config, RefusesKeysThatNobodyKnows) {
  Config config = config_of("[poll]\nperiod = \"1s\"\nperoid = \"2s\"\n");
  EXPECT_TRUE(config.span("poll.period"));
  EXPECT_TRUE(config.text("state"));
  EXPECT_EQ(
      config.refuse_unknown().error().text(),
      "vettad.toml:3: unknown key poll.peroid (line 3); the known ones are poll.period, state");
}

}  // namespace
}  // namespace vetta
