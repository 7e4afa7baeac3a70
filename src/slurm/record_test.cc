// SPDX-License-Identifier: Apache-2.0
#include "slurm/record.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace vetta::slurm {
namespace {

using Rows = std::vector<std::vector<std::string>>;

struct Got {
  Rows rows;
  std::vector<Refusal> refused;
};

Got read(std::string_view text, const RecordFormat& format) {
  Got got;
  got.refused = read_records(text, format, [&](int, auto fields) {
    got.rows.emplace_back(fields.begin(), fields.end());
    return std::optional<std::string>();
  });
  return got;
}

RecordFormat of(std::size_t fields, std::optional<std::size_t> free_text = {},
                bool trailing = false) {
  RecordFormat format;
  format.fields = fields;
  format.free_text = free_text;
  format.trailing_separator = trailing;
  return format;
}

TEST(Record, SplitsAndKeepsEmptyFields) {
  EXPECT_EQ(read("a|b|c\n||\n", of(3)).rows, (Rows{{"a", "b", "c"}, {"", "", ""}}));
  EXPECT_EQ(read("a|b|\nc|d|", of(2, {}, true)).rows, (Rows{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(read("\n\na|b\n\n", of(2)).rows, (Rows{{"a", "b"}}));
  EXPECT_TRUE(read("", of(2)).rows.empty());
}

TEST(Record, JoinsLinesUntilTheFieldCountIsReached) {
  const auto got = read("1|x|na\nme|\n2|y|plain|\n", of(3, {}, true));
  EXPECT_EQ(got.rows, (Rows{{"1", "x", "na\nme"}, {"2", "y", "plain"}}));
  EXPECT_TRUE(got.refused.empty());
  // A name of newlines only, and one that ends in a newline.
  EXPECT_EQ(read("1|\n\n\n|\n2|b\n|\n", of(2, {}, true)).rows,
            (Rows{{"1", "\n\n\n"}, {"2", "b\n"}}));
}

TEST(Record, GivesSurplusSeparatorsToTheFreeText) {
  EXPECT_EQ(read("1|a|b|c|x\n", of(3, 1)).rows, (Rows{{"1", "a|b|c", "x"}}));
  EXPECT_EQ(read("1|x|a|b|c\n", of(3, 2)).rows, (Rows{{"1", "x", "a|b|c"}}));
  EXPECT_EQ(read("1|x|a|b|\n", of(3, 2, true)).rows, (Rows{{"1", "x", "a|b"}}));
  const auto got = read("1|a|b|x\n1|a|x\n", of(3));
  EXPECT_EQ(got.rows, (Rows{{"1", "a", "x"}}));
  ASSERT_EQ(got.refused.size(), 1U);
  EXPECT_EQ(got.refused[0].line, 1);
  EXPECT_EQ(got.refused[0].reason, "3 separators where 2 are due");
}

TEST(Record, ABadRecordDoesNotTakeTheNextOneWithIt) {
  const auto got = read("1|a|b\n2|short\n3|c|d\n4|e", of(3));
  EXPECT_EQ(got.rows, (Rows{{"1", "a", "b"}, {"3", "c", "d"}}));
  ASSERT_EQ(got.refused.size(), 2U);
  EXPECT_EQ(got.refused[0].line, 2);
  EXPECT_EQ(got.refused[1].line, 4);
  EXPECT_EQ(got.refused[1].reason, "1 separators where 2 are due, the text ends");
}

TEST(Record, KeepsTheLineNumbersBehindJoinedLines) {
  std::vector<int> lines;
  (void)read_records("1|a\nb|\n2|c|\n", of(2, {}, true), [&](int line, auto) {
    lines.push_back(line);
    return line == 3 ? std::optional<std::string>("no") : std::nullopt;
  });
  EXPECT_EQ(lines, (std::vector<int>{1, 3}));
}

TEST(Record, LimitsRecordsAndReasons) {
  RecordFormat format = of(2);
  format.records_max = 2;
  EXPECT_EQ(read("1|a\n2|b\n3|c\n4|d\n", format).rows.size(), 2U);
  std::string bad;
  for (int i = 0; i < 500; ++i) bad += "x\n";
  const auto got = read(bad, of(9));
  EXPECT_EQ(got.refused.size(), 101U);
  EXPECT_EQ(got.refused.back().reason, "and 400 more records were refused");
}

TEST(Record, ReadsATableByItsHeader) {
  const auto table = read_table("A|#B|#C\n1|#x|#2\n", "|#");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->value.header, (std::vector<std::string>{"A", "B", "C"}));
  EXPECT_EQ(table->value.column("B"), 1U);
  EXPECT_EQ(table->value.rows, (Rows{{"1", "x", "2"}}));
  EXPECT_EQ(read_table("A|B|\n1|2|\n", "|")->value.rows, (Rows{{"1", "2"}}));
  EXPECT_EQ(read_table("A|B\n1\n", "|")->refused.at(0).line, 2);
  EXPECT_FALSE(read_table("", "|"));
}

TEST(Record, WithASeparatorThatNoFieldHoldsEveryRecordComesBack) {
  rc::check([] {
    const auto text =
        rc::gen::container<std::string>(rc::gen::element('a', '\n', '|', '\xff', ' '));
    const auto rows =
        *rc::gen::container<Rows>(rc::gen::container<std::vector<std::string>>(3, text));
    auto expected = rows;
    for (auto& row : expected) row[0] = "4711";  // a record begins with an id, which is one line
    std::string printed;
    for (const auto& row : expected) {
      for (const auto& field : row) printed += field + "~S~";
      printed += "\n";
    }
    RecordFormat format = of(3, {}, true);
    format.separator = "~S~";
    const auto got = read(printed, format);
    RC_ASSERT(got.refused.empty());
    RC_ASSERT(got.rows == expected);
  });
}

}  // namespace
}  // namespace vetta::slurm
