// SPDX-License-Identifier: Apache-2.0
#include "core/config.h"

#include <cerrno>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <set>
#include <toml++/toml.h>

#include "core/text.h"
#include "core/units.h"

namespace vetta {

struct Config::Impl {
  toml::table table;
  std::string path;
  std::set<std::string, std::less<>> known;

  const toml::node* find(std::string_view key) {
    known.insert(std::string(key));
    return table.at_path(key).node();
  }

  [[nodiscard]] Place place(const toml::node& node) const {
    const auto begin = node.source().begin;
    return {path, static_cast<int>(begin.line), static_cast<int>(begin.column)};
  }

  [[nodiscard]] std::unexpected<Error> refuse(const toml::node& node, std::string message,
                                              std::string hint = {}) const {
    auto error = fail(Code::invalid, std::move(message), std::move(hint));
    return std::unexpected(std::move(error.error()).at(place(node)));
  }
};

Config::Config() : impl_(std::make_unique<Impl>()) {}

Config::Config(Config&&) noexcept = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

Result<Config> Config::parse(std::string_view text, std::string path) {
  Config config;
  config.impl_->path = std::move(path);
  try {
    config.impl_->table = toml::parse(text);
  } catch (const toml::parse_error& e) {
    const auto begin = e.source().begin;
    auto error = fail(Code::invalid, std::string(e.description()));
    return std::unexpected(std::move(error.error())
                               .at({config.impl_->path, static_cast<int>(begin.line),
                                    static_cast<int>(begin.column)}));
  }
  return config;
}

Result<Config> Config::read(const std::string& path) {
  constexpr std::streamsize bytes_max = 1 << 20;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail_errno("read the configuration " + path, errno != 0 ? errno : ENOENT);
  std::string content(bytes_max + 1, '\0');
  file.read(content.data(), bytes_max + 1);
  if (file.gcount() > bytes_max)
    return fail(Code::invalid, path + " is over 1 MiB, too much for a configuration");
  content.resize(static_cast<std::size_t>(file.gcount()));
  return parse(content, path);
}

Result<std::optional<std::string>> Config::text(std::string_view key) {
  const toml::node* node = impl_->find(key);
  if (node == nullptr) return std::optional<std::string>();
  if (const auto value = node->value_exact<std::string>()) return value;
  return impl_->refuse(*node, fmt::format("{} must be a text", key), "put it in quotes");
}

Result<std::optional<std::int64_t>> Config::integer(std::string_view key, std::int64_t min,
                                                    std::int64_t max) {
  const toml::node* node = impl_->find(key);
  if (node == nullptr) return std::optional<std::int64_t>();
  const auto value = node->value_exact<std::int64_t>();
  if (!value || *value < min || *value > max)
    return impl_->refuse(*node,
                         fmt::format("{} must be a whole number from {} to {}", key, min, max));
  return value;
}

Result<std::optional<bool>> Config::boolean(std::string_view key) {
  const toml::node* node = impl_->find(key);
  if (node == nullptr) return std::optional<bool>();
  if (const auto value = node->value_exact<bool>()) return value;
  return impl_->refuse(*node, fmt::format("{} must be true or false", key));
}

Result<std::optional<Duration>> Config::span(std::string_view key) {
  const std::optional<std::string> value = VETTA_TRY(text(key));
  if (!value) return std::optional<Duration>();
  auto parsed = parse_span(*value);
  if (!parsed)
    return impl_->refuse(*impl_->find(key), fmt::format("{}: {}", key, parsed.error().message),
                         parsed.error().hint);
  return std::optional(*parsed);
}

Result<std::optional<std::uint64_t>> Config::bytes(std::string_view key) {
  const toml::node* node = impl_->find(key);
  if (node == nullptr) return std::optional<std::uint64_t>();
  if (const auto whole = node->value_exact<std::int64_t>(); whole && *whole >= 0)
    return std::optional(static_cast<std::uint64_t>(*whole));
  const auto value = node->value_exact<std::string>();
  auto parsed = value ? parse_bytes(*value) : fail(Code::invalid, "it is neither text nor number");
  if (!parsed)
    return impl_->refuse(*node, fmt::format("{}: {}", key, parsed.error().message),
                         "write it as \"64M\"");
  return std::optional(*parsed);
}

Result<std::vector<std::string>> Config::texts(std::string_view key) {
  const toml::node* node = impl_->find(key);
  std::vector<std::string> out;
  if (node == nullptr) return out;
  if (const auto one = node->value_exact<std::string>()) return std::vector{*one};
  const toml::array* list = node->as_array();
  if (list == nullptr) return impl_->refuse(*node, fmt::format("{} must be a list of texts", key));
  for (const toml::node& item : *list) {
    const auto value = item.value_exact<std::string>();
    if (!value) return impl_->refuse(item, fmt::format("{} must hold only texts", key));
    out.push_back(*value);
  }
  return out;
}

namespace {

void unknown_keys(const toml::table& table, const std::string& prefix,
                  const std::set<std::string, std::less<>>& known,
                  std::vector<std::pair<std::string, int>>& out) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (known.contains(key)) continue;
    if (const toml::table* inner = node.as_table())
      unknown_keys(*inner, key + ".", known, out);
    else
      out.emplace_back(key, static_cast<int>(name.source().begin.line));
  }
}

}  // namespace

Result<void> Config::refuse_unknown() const {
  std::vector<std::pair<std::string, int>> unknown;
  unknown_keys(impl_->table, "", impl_->known, unknown);
  if (unknown.empty()) return {};
  std::string list;
  for (const auto& [key, line] : unknown)
    list += fmt::format("{}{} (line {})", list.empty() ? "" : ", ", one_line(key, 80), line);
  std::string names;
  for (const std::string& key : impl_->known) names += (names.empty() ? "" : ", ") + key;
  auto error = fail(Code::invalid, "unknown key " + list, "the known ones are " + names);
  return std::unexpected(std::move(error.error()).at({impl_->path, unknown.front().second, 0}));
}

std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out.append(1, '\\').append(1, c);
    else if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f')
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace vetta
