// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>

namespace vetta::cli {
namespace {

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = "/tmp/vetta-settings-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    environment_["XDG_CONFIG_HOME"] = folder_;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write_config(const std::string& text) {
    std::filesystem::create_directories(folder_ + "/vetta");
    std::ofstream(folder_ + "/vetta/config.toml") << text;
  }

  [[nodiscard]] Environment environment() const {
    return [this](std::string_view name) -> std::optional<std::string> {
      const auto found = environment_.find(std::string(name));
      return found == environment_.end() ? std::nullopt : std::optional(found->second);
    };
  }

  std::string folder_;
  std::map<std::string, std::string> environment_;
};

TEST_F(SettingsTest, AFlagGoesBeforeTheEnvironmentBeforeTheFile) {
  write_config("server = \"unix:/from/file\"\ntoken_file = \"/t\"\n");
  auto settings = settle({}, environment()).value();
  EXPECT_EQ(settings.server.value, "unix:/from/file");
  EXPECT_EQ(settings.server.origin, folder_ + "/vetta/config.toml");
  environment_["VETTA_SERVER"] = "unix:/from/env";
  settings = settle({}, environment()).value();
  EXPECT_EQ(settings.server.value, "unix:/from/env");
  EXPECT_EQ(settings.server.origin, "VETTA_SERVER");
  settings = settle({.server = "unix:/from/flag", .token_file = ""}, environment()).value();
  EXPECT_EQ(settings.server.origin, "--server");
  EXPECT_EQ(settings.token_file.value, "/t");
}

TEST_F(SettingsTest, WithoutAnythingThereIsADefault) {
  const auto settings = settle({}, environment()).value();
  EXPECT_EQ(settings.server.origin, "default");
  EXPECT_TRUE(settings.server.value.starts_with("unix:/"));
  EXPECT_TRUE(settings.token_file.value.empty());
}

TEST_F(SettingsTest, AVettadOfOnesOwnIsFoundInTheRuntimeOrTheStateFolder) {
  constexpr const char* system_one = "/run/vettad/vettad.sock";
  if (std::filesystem::exists(system_one)) GTEST_SKIP() << "a vettad of the system runs here";
  EXPECT_EQ(settle({}, environment()).value().server.value, std::string("unix:") + system_one);
  const auto listens_in = [](const std::string& folder) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/vettad.sock") << "";
    return "unix:" + folder + "/vettad.sock";
  };
  environment_["HOME"] = folder_ + "/home";
  const std::string at_home = listens_in(folder_ + "/home/.local/state/vetta");
  EXPECT_EQ(settle({}, environment()).value().server.value, at_home);
  environment_["XDG_STATE_HOME"] = folder_ + "/state";
  const std::string in_state = listens_in(folder_ + "/state/vetta");
  EXPECT_EQ(settle({}, environment()).value().server.value, in_state);
  environment_["XDG_RUNTIME_DIR"] = folder_ + "/run";
  EXPECT_EQ(settle({}, environment()).value().server.value, in_state);
  const std::string in_run = listens_in(folder_ + "/run/vetta");
  EXPECT_EQ(settle({}, environment()).value().server.value, in_run);
}

TEST_F(SettingsTest, AMisspeltKeyIsAnErrorWithItsPlace) {
  write_config("\nsevrer = \"x\"\n");
  const auto settings = settle({}, environment());
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().code, Code::invalid);
  EXPECT_NE(settings.error().text().find("config.toml:2"), std::string::npos);
}

}  // namespace
}  // namespace vetta::cli
