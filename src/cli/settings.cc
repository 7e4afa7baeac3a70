// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#include <cstdlib>
#include <unistd.h>

#include "core/config.h"

namespace vetta::cli {
namespace {

constexpr std::string_view system_socket = "/run/vettad/vettad.sock";

/// Where a vettad listens that nobody told where to: the system's, then those that this user
/// started herself, with and without XDG_RUNTIME_DIR.
std::vector<std::string> default_sockets(const Environment& environment) {
  std::vector<std::string> paths{std::string(system_socket)};
  const auto add = [&](std::string_view variable, std::string_view rest) {
    const auto folder = environment(variable);
    if (!folder || !folder->starts_with('/')) return false;
    paths.push_back(*folder + std::string(rest));
    return true;
  };
  add("XDG_RUNTIME_DIR", "/vetta/vettad.sock");
  if (!add("XDG_STATE_HOME", "/vetta/vettad.sock")) add("HOME", "/.local/state/vetta/vettad.sock");
  return paths;
}

/// The first that is there, else the system's.
std::string default_server(const Environment& environment) {
  for (const std::string& path : default_sockets(environment))
    if (access(path.c_str(), F_OK) == 0) return "unix:" + path;
  return "unix:" + std::string(system_socket);
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
