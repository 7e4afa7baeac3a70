// SPDX-License-Identifier: Apache-2.0
#include "cli/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <gtest/gtest.h>

#include "cli/tree.h"

namespace vetta::cli {
namespace {

std::string refusal(std::vector<std::string> words) {
  Plan plan;
  const auto root = make_tree(plan);
  std::ranges::reverse(words);
  try {
    root->parse(words);
  } catch (const CLI::ParseError& error) {
    return explain_usage(error, *root).text();
  }
  return "understood";
}

TEST(Usage, NamesWhatWasProbablyMeant) {
  EXPECT_EQ(refusal({"jobs"}),
            "there is no command 'jobs'; did you mean 'job'?; `vetta --help` shows what it takes");
  EXPECT_EQ(refusal({"job", "listt"}),
            "there is no command 'listt'; did you mean 'list'?; `vetta job --help` shows what it "
            "takes");
  EXPECT_TRUE(refusal({"job", "list", "--jsno"}).contains("did you mean '--json'?"));
  EXPECT_TRUE(refusal({"job", "list", "--sinec=1d"}).contains("'--sinec'; did you mean '--since'"));
  EXPECT_TRUE(refusal({"job", "list", "--part", "gpu"}).contains("did you mean '--partition'?"));
  EXPECT_TRUE(refusal({"squeue"}).starts_with("there is no command 'squeue'; `vetta --help`"));
  EXPECT_TRUE(refusal({"job", "list", "more"}).starts_with("'more' is one word too many"));
}

TEST(Usage, SaysWhatIsMissingAndHowItIsWritten) {
  EXPECT_EQ(refusal({"why"}), "which job?; vetta why 4711 (vetta job list --me)");
  EXPECT_EQ(refusal({"job", "show"}), "which job?; vetta job show 4711 (vetta job list --me)");
  EXPECT_EQ(refusal({"node", "show"}), "which node?; vetta node show n001 (vetta node list)");
  EXPECT_EQ(refusal({"job", "list", "--since"}), "--since needs a value; --since 1h (for example)");
  EXPECT_EQ(refusal({"job", "list", "-o"}),
            "--columns needs a value; --columns NAME (for example)");
  EXPECT_TRUE(refusal({"job", "list", "--limit", "many"}).contains("many"));
}

TEST(Usage, TheNearestIsNearOrNone) {
  const std::vector<std::string> words = {"job", "why", "diagnose", "node", "--json"};
  EXPECT_EQ(nearest("jbo", words), "job");
  EXPECT_EQ(nearest("diag", words), "diagnose");
  EXPECT_EQ(nearest("nodes", words), "node");
  EXPECT_EQ(nearest("n", words), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest("-", words), "");
  EXPECT_EQ(nearest("xyz", words), "");
  EXPECT_EQ(nearest(std::string(100000, 'j'), words), "");
}

}  // namespace
}  // namespace vetta::cli
