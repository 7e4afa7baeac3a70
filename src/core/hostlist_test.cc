// SPDX-License-Identifier: Apache-2.0
#include "core/hostlist.h"

#include <gtest/gtest.h>
#ifndef VETTA_NO_RAPIDCHECK
#include <rapidcheck.h>
#endif

namespace vetta {
namespace {

using Names = std::vector<std::string>;

Names expand(std::string_view text) {
  auto names = expand_hostlist(text);
  EXPECT_TRUE(names) << text << ": " << names.error().text();
  return names.value_or(Names{});
}

TEST(Hostlist, ExpandsEveryFormInItsOrder) {
  EXPECT_EQ(expand(""), Names{});
  EXPECT_EQ(expand("n1"), Names{"n1"});
  EXPECT_EQ(expand("c457-[011-012]"), (Names{"c457-011", "c457-012"}));
  EXPECT_EQ(expand("foo-[10-11]-[01-02]"),
            (Names{"foo-10-01", "foo-10-02", "foo-11-01", "foo-11-02"}));
  EXPECT_EQ(expand("ml-16-node-[001-002,004],ml-17-node-[001-003]"),
            (Names{"ml-16-node-001", "ml-16-node-002", "ml-16-node-004", "ml-17-node-001",
                   "ml-17-node-002", "ml-17-node-003"}));
  EXPECT_EQ(expand("nodeA,nodeB[001,003],nodeC"),
            (Names{"nodeA", "nodeB001", "nodeB003", "nodeC"}));
  EXPECT_EQ(expand("gpu[9-11].site.org"),
            (Names{"gpu9.site.org", "gpu10.site.org", "gpu11.site.org"}));
  EXPECT_EQ(expand("n[3,1]"), (Names{"n3", "n1"}));
  EXPECT_EQ(expand("n[08-010]"), (Names{"n08", "n09", "n10"}));
  EXPECT_EQ(expand("n[98-0101]").size(), 4U);
  EXPECT_EQ(expand("[1-2]"), (Names{"1", "2"}));
}

TEST(Hostlist, RefusesWithThePlaceAndTheReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"n[1-[2]]", "'n[1-[2]]' is not a hostlist: a bracket within brackets at character 5"},
      {"n[[1]]", "a bracket within brackets at character 3"},
      {"n[1-2", "a '[' without its ']' at character 2"},
      {"n[", "a '[' without its ']' at character 2"},
      {"n1]", "a ']' without its '[' at character 3"},
      {"n[]", "something else than a number in brackets at character 3"},
      {"n[a-b]", "something else than a number in brackets at character 3"},
      {"n[1x3]", "something else than a number in brackets at character 4"},
      {"n[1-]", "something else than a number in brackets at character 5"},
      {"n[5-1]", "a range that descends at character 5"},
      {"a,,b", "an empty name at character 3"},
      {",a", "an empty name at character 1"},
      {"a,", "an empty name at character 3"},
      {"a b", "a blank or control character at character 2"},
      {"None assigned", "a blank or control character at character 5"},
      {"n[1234567890123456789]", "a number over 18 digits"},
      {"n[1][1][1][1][1][1][1][1][1]", "too many brackets"},
  };
  for (const auto& [text, reason] : cases) {
    const auto names = expand_hostlist(text);
    ASSERT_FALSE(names) << text;
    EXPECT_EQ(names.error().code, Code::invalid);
    EXPECT_TRUE(names.error().message.contains(reason)) << text << ": " << names.error().message;
    EXPECT_FALSE(count_hostlist(text)) << text;
  }
  EXPECT_FALSE(expand_hostlist(std::string(256, 'n')));
}

TEST(Hostlist, RefusesBombsBeforeTakingMemory) {
  for (const char* text : {"host[000000001-999999999]", "h[1-999999][1-999999]",
                           "h[0-99999999999][0-99999999999][0-99999999999]"}) {
    const auto names = expand_hostlist(text);
    ASSERT_FALSE(names) << text;
    EXPECT_EQ(names.error().code, Code::exhausted);
    EXPECT_TRUE(names.error().message.contains("too large")) << names.error().message;
  }
  EXPECT_EQ(count_hostlist("host[000000001-999999999]").value(), 999'999'999U);
  EXPECT_EQ(count_hostlist("h[0-99999999999][0-99999999999]").value(), UINT64_MAX);  // saturates
  EXPECT_TRUE(expand_hostlist("n[1-10]", 10));
  EXPECT_FALSE(expand_hostlist("n[1-10]", 9));
}

TEST(Hostlist, CompressesNeighboursAndKeepsOrderAndPadding) {
  const auto compress = [](const Names& names) { return compress_hostlist(names); };
  EXPECT_EQ(compress({}), "");
  EXPECT_EQ(compress({"n1"}), "n1");
  EXPECT_EQ(compress({"n001", "n002", "n004"}), "n[001-002,004]");
  EXPECT_EQ(compress({"n9", "n10", "n11"}), "n[9-11]");
  EXPECT_EQ(compress({"n09", "n10", "n99", "n100"}), "n[09-10,99-100]");
  EXPECT_EQ(compress({"n099", "n100"}), "n[099-100]");
  EXPECT_EQ(compress({"n3", "n1"}), "n[3,1]");
  EXPECT_EQ(compress({"n1", "n1"}), "n[1,1]");
  EXPECT_EQ(compress({"login", "gpu1.x", "gpu2.x", "gpu2.y"}), "login,gpu[1-2].x,gpu2.y");
}

TEST(Hostlist, SortsAsPeopleDo) {
  Names names = {"n10", "n2", "n02", "m1", "n2", "n"};
  sort_hosts(names);
  EXPECT_EQ(names, (Names{"m1", "n", "n02", "n2", "n10"}));
}

#ifndef VETTA_NO_RAPIDCHECK
TEST(Hostlist, ExpandUndoesCompress) {
  rc::check([] {
    const auto name =
        rc::gen::map(rc::gen::tuple(rc::gen::element<std::string>("n", "c1-", "x0y", ""),
                                    rc::gen::inRange(0, 120), rc::gen::inRange(1, 5),
                                    rc::gen::element<std::string>("", ".site", "-b")),
                     [](const auto& t) {
                       std::string digits = std::to_string(std::get<1>(t));
                       const auto width = static_cast<std::size_t>(std::get<2>(t));
                       if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
                       return std::get<0>(t) + digits + std::get<3>(t);
                     });
    const auto names = *rc::gen::container<Names>(name);
    const std::string text = compress_hostlist(names);
    RC_ASSERT(expand_hostlist(text).value() == names);
    RC_ASSERT(count_hostlist(text).value() == names.size());
  });
}

TEST(Hostlist, AnyTextIsExpandedOrRefused) {
  rc::check([] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::element('a', '0', '1', '9', '[', ']', '-', ','));
    const auto names = expand_hostlist(text, 1000);
    const auto count = count_hostlist(text);
    if (names) {
      RC_ASSERT(count.value() == names->size());
      RC_ASSERT(expand_hostlist(compress_hostlist(*names)).value() == *names);
    } else if (names.error().code == Code::invalid) {
      RC_ASSERT(!count);
    } else {
      RC_ASSERT(count.value() > 1000U);
    }
  });
}
#endif

}  // namespace
}  // namespace vetta
