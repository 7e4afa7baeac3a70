// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "core/text.h"

namespace vetta::cli {
namespace {

Table two_rows() {
  Table table({{.name = "id"},
               {.name = "name", .width_min = 4},
               {.name = "n", .is_right = true},
               {.name = "extra", .is_default = false}});
  table.add({"1", "a job with blanks", "7", "x"});
  table.add({"22", "", "123", ""});
  return table;
}

TEST(Table, HasNoBlankInACellAndADashForNothing) {
  const auto text = two_rows().text({}, Terminal(), true);
  EXPECT_EQ(text.value(),
            "ID  NAME                 N\n"
            "1   a_job_with_blanks    7\n"
            "22  -                  123\n");
}

TEST(Table, ShowsTheChosenColumnsInTheirOrder) {
  EXPECT_EQ(two_rows().text({"extra", "id"}, Terminal(), false).value(), "x  1\n-  22\n");
}

TEST(Table, AnUnknownColumnListsThoseThereAre) {
  const auto text = two_rows().text({"nothing"}, Terminal(), true);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::invalid);
  EXPECT_NE(text.error().hint.find("id,name,n,extra"), std::string::npos);
}

TEST(Table, ShrinksLongTextsToTheTerminalAndThenDropsTheLastColumns) {
  Terminal terminal;
  terminal.columns = 20;
  const auto narrow = two_rows().text({}, terminal, true).value();
  for (const std::string_view line : split(narrow, "\n")) EXPECT_LE(width(line), 20U);
  EXPECT_NE(narrow.find("…"), std::string::npos);
  terminal.columns = 9;
  const auto tiny = two_rows().text({}, terminal, true).value();
  EXPECT_EQ(tiny.find("123"), std::string::npos);
  EXPECT_NE(tiny.find("22"), std::string::npos);
}

TEST(Table, NamesCannotForgeLines) {
  Table table({{.name = "name"}});
  table.add({"a\nb\x1b[31m\tc"});
  const auto text = table.text({}, Terminal(), false).value();
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Bar, FillsItsCellsWhateverComes) {
  for (const double full : {-1.0, 0.0, 0.013, 0.5, 1.0, 7.0, std::nan("")})
    for (const double rest : {0.0, 0.4, 9.0, std::nan("")})
      EXPECT_EQ(width(bar(full, rest, 10)), 10U) << full << " " << rest;
  EXPECT_EQ(bar(0.5, 0.25, 4), "██░ ");
}

TEST(Wrap, KeepsEveryWord) {
  EXPECT_EQ(wrap("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrap("unbreakable", 4, 2), "unbreakable");
}

TEST(Pad, CountsColumnsNotBytes) {
  EXPECT_EQ(pad("é", 3), "é  ");
  EXPECT_EQ(pad_left("é", 3), "  é");
  EXPECT_EQ(width(pad("abcdef", 4)), 4U);
}

}  // namespace
}  // namespace vetta::cli
