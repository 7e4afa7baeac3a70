// SPDX-License-Identifier: Apache-2.0
#include "cli/tree.h"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>
#include <map>

namespace vetta::cli {
namespace {

std::vector<CommandText> commands() {
  Plan plan;
  return describe(*make_tree(plan));
}

TEST(Tree, EveryCommandHasTwoExamplesAndItsWordsExplained) {
  for (const CommandText& command : commands()) {
    const std::string& name = command.usage;
    EXPECT_FALSE(command.about.empty()) << name;
    EXPECT_FALSE(command.about.ends_with('.')) << name;
    EXPECT_NE(command.examples.find('\n'), std::string::npos) << name << " has too few examples";
    for (const auto& option : command.options) EXPECT_FALSE(option.about.empty()) << name;
    for (const auto& option : command.positionals) EXPECT_FALSE(option.about.empty()) << name;
  }
}

TEST(Tree, LettersMeanWhatTheyMeanInSlurm) {
  const std::map<std::string, std::string> slurm = {{"-p", "--partition"}, {"-A", "--account"},
                                                    {"-u", "--user"},      {"-t", "--state"},
                                                    {"-n", "--name"},      {"-h", "--help"}};
  for (const CommandText& command : commands())
    for (const auto& option : command.options)
      for (const std::string& word : option.words) {
        const auto known = slurm.find(word);
        if (known == slurm.end()) continue;
        EXPECT_NE(option.names.find(known->second), std::string::npos) << command.usage << word;
      }
}

TEST(Tree, CompletionKnowsEveryCommandInEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion(commands(), shell).value();
    for (const CommandText& command : commands())
      EXPECT_NE(script.find(command.path.back()), std::string::npos) << shell;
    EXPECT_NE(script.find("no-header"), std::string::npos) << shell;
  }
  EXPECT_EQ(completion(commands(), "tcsh").error().code, Code::invalid);
}

TEST(Tree, TheReferenceHasASectionForEachCommand) {
  const std::string text = markdown(commands());
  EXPECT_TRUE(text.starts_with("# "));
  EXPECT_NE(text.find("\n## vetta job watch\n"), std::string::npos);
  EXPECT_NE(text.find("\n## vetta probe exec\n"), std::string::npos);
}

TEST(Tree, TheManualPageEscapesWhatRoffWouldTake) {
  const std::string text = man_page(commands());
  EXPECT_EQ(text.find(" --json"), std::string::npos);
  EXPECT_NE(text.find("\\-\\-json"), std::string::npos);
}

}  // namespace
}  // namespace vetta::cli
