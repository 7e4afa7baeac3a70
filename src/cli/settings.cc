// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#include <cstdlib>
#include <unistd.h>

#include "core/config.h"

namespace vetta::cli {
namespace {

constexpr std::string_view default_socket = "unix:/run/vetta/vettad.sock";

/// The socket of a vettad that this user started herself, if it is there.
std::string default_server(const Environment& environment) {
  const auto runtime = environment("XDG_RUNTIME_DIR");
  if (access("/run/vetta/vettad.sock", F_OK) != 0 && runtime && !runtime->empty()) {
    const std::string own = *runtime + "/vetta/vettad.sock";
    if (access(own.c_str(), F_OK) == 0) return "unix:" + own;
  }
  return std::string(default_socket);
}

struct Layer {
  std::string path;
  std::optional<std::string> server, token_file;
};

Result<std::optional<Layer>> read_layer(const std::string& path) {
  auto config = Config::read(path);
  if (!config) {
    if (config.error().code == Code::not_found) return std::nullopt;
    return std::unexpected(config.error());
  }
  Layer layer{.path = path, .server = {}, .token_file = {}};
  layer.server = VETTA_TRY(config->text("server"));
  layer.token_file = VETTA_TRY(config->text("token_file"));
  VETTA_TRY(config->refuse_unknown());
  return layer;
}

void take(Setting& setting, const std::optional<std::string>& value, std::string origin) {
  if (!setting.origin.empty() || !value || value->empty()) return;
  setting.value = *value;
  setting.origin = std::move(origin);
}

std::optional<std::string> if_given(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::vector<std::string> config_paths(const Environment& environment) {
  std::vector<std::string> paths;
  const auto xdg = environment("XDG_CONFIG_HOME");
  const auto home = environment("HOME");
  if (xdg && xdg->starts_with('/'))
    paths.push_back(*xdg + "/vetta/config.toml");
  else if (home && home->starts_with('/'))
    paths.push_back(*home + "/.config/vetta/config.toml");
  paths.emplace_back("/etc/vetta/vetta.toml");
  return paths;
}

Result<Settings> settle(const Flags& flags, const Environment& environment) {
  Settings settings;
  settings.server.name = "server";
  settings.token_file.name = "token_file";
  take(settings.server, if_given(flags.server), "--server");
  take(settings.token_file, if_given(flags.token_file), "--token-file");
  take(settings.server, environment("VETTA_SERVER"), "VETTA_SERVER");
  take(settings.token_file, environment("VETTA_TOKEN_FILE"), "VETTA_TOKEN_FILE");
  for (const std::string& path : config_paths(environment)) {
    const auto layer = VETTA_TRY(read_layer(path));
    if (!layer) continue;
    take(settings.server, layer->server, path);
    take(settings.token_file, layer->token_file, path);
  }
  take(settings.server, default_server(environment), "default");
  if (settings.token_file.origin.empty()) settings.token_file.origin = "default";
  return settings;
}

}  // namespace vetta::cli
