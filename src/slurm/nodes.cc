// SPDX-License-Identifier: Apache-2.0
#include "slurm/nodes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

#include "core/text.h"
#include "slurm/fields.h"
#include "slurm/gres.h"
#include "slurm/keyvalue.h"

namespace vetta::slurm {
namespace {

struct Suffix {
  char letter;
  std::string_view word;
};

constexpr std::array suffixes = {
    Suffix{'*', "NOT_RESPONDING"}, Suffix{'~', "POWERED_DOWN"},  Suffix{'#', "POWERING_UP"},
    Suffix{'!', "POWER_DOWN"},     Suffix{'%', "POWERING_DOWN"}, Suffix{'$', "MAINTENANCE"},
    Suffix{'@', "REBOOT"},         Suffix{'^', "REBOOT_ISSUED"}, Suffix{'-', "PLANNED"},
};

/// sinfo's short words and the full ones.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> full_words = {{
    {"ALLOC", "ALLOCATED"},
    {"MIX", "MIXED"},
    {"DRNG", "DRAINING"},
    {"COMP", "COMPLETING"},
    {"RESV", "RESERVED"},
    {"MAINT", "MAINTENANCE"},
    {"UNK", "UNKNOWN"},
    {"FUTR", "FUTURE"},
    {"POW_DN", "POWERING_DOWN"},
    {"POW_UP", "POWERING_UP"},
    {"PLND", "PLANNED"},
    {"BOOT", "REBOOT_ISSUED"},
}};

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

std::optional<double> read_double(std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || status != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// "planned maintenance [root@1796047451]" in its three parts. The reason itself may look like
/// anything, so the last bracket counts.
void read_reason(std::string_view record, model::Node& node) {
  constexpr std::string_view key = " Reason=";
  const std::size_t at = record.find(key);
  if (at == std::string_view::npos) return;
  const std::string_view rest = record.substr(at + key.size());
  const std::size_t close = rest.rfind(']');
  const std::size_t open = close == std::string_view::npos ? close : rest.rfind(" [", close);
  if (open == std::string_view::npos) {
    node.reason = known(rest.substr(0, rest.find('\n')));
    return;
  }
  node.reason = trim(rest.substr(0, open));
  const std::string_view who = rest.substr(open + 2, close - open - 2);
  const std::size_t sign = who.rfind('@');
  node.reason_user = who.substr(0, sign);
  if (sign != std::string_view::npos) node.reason_since = read_time(who.substr(sign + 1));
}

void read_gres(const KeyValues& record, model::Node& node) {
  const auto total = parse_gres(record.get("Gres"));
  if (!total) return;
  std::optional<std::vector<GresEntry>> used;
  if (record.has("GresUsed"))
    if (auto entries = parse_gres(record.get("GresUsed"))) used = std::move(*entries);
  node.gres = join_gres(*total, used);
}

std::optional<std::string> read_node(const KeyValues& record, model::Node& node) {
  node.name = record.get("NodeName");
  node.states = parse_node_states(record.get("State"));
  if (node.name.empty()) return "a node without a name";
  if (node.states.empty()) return fmt::format("node {} has no state", one_line(node.name, 60));
  node.address = known(record.get("NodeAddr"));
  node.host_name = known(record.get("NodeHostName"));
  const std::string_view partitions = known(record.get("Partitions"));
  if (!partitions.empty())
    for (const std::string_view name : split(partitions, ",")) node.partitions.emplace_back(name);
  node.cpus = read_count(record.get("CPUTot"));
  node.cpus_allocated = read_count(record.get("CPUAlloc"));
  node.memory_bytes = read_memory(record.get("RealMemory"));
  node.memory_allocated_bytes = read_memory(record.get("AllocMem"));
  node.memory_free_bytes = read_memory(record.get("FreeMem"));
  node.load = read_double(record.get("CPULoad"));
  node.boot = read_time(record.get("BootTime"));
  node.last_busy = read_time(record.get("LastBusyTime"));
  node.features = known(record.get("ActiveFeatures"));
  node.version = known(record.get("Version"));
  node.architecture = known(record.get("Arch"));
  node.operating_system = known(record.get("OS"));
  read_reason(record.text(), node);
  read_gres(record, node);
  return std::nullopt;
}

}  // namespace

std::vector<std::string> parse_node_states(std::string_view text) {
  std::vector<std::string> states;
  const auto add = [&states](std::string_view word) {
    if (!word.empty() && std::ranges::find(states, word) == states.end()) states.emplace_back(word);
  };
  for (std::string_view part : split(trim(text), "+")) {
    std::vector<std::string_view> flags;
    while (!part.empty()) {
      const auto suffix = std::ranges::find(suffixes, part.back(), &Suffix::letter);
      if (suffix == suffixes.end()) break;
      flags.insert(flags.begin(), suffix->word);
      part.remove_suffix(1);
    }
    const std::string word = upper(trim(part));
    const auto full = std::ranges::find(full_words, word, [](const auto& p) { return p.first; });
    add(full == full_words.end() ? std::string_view(word) : full->second);
    for (const std::string_view flag : flags) add(flag);
  }
  return states;
}

Parsed<std::vector<model::Node>> parse_nodes(std::string_view text) {
  Parsed<std::vector<model::Node>> parsed;
  auto records = read_key_values(text, "NodeName=");
  parsed.refused = std::move(records.refused);
  for (const KeyValues& record : records.value) {
    model::Node node;
    if (auto reason = read_node(record, node))
      parsed.refused.push_back({record.line(), std::move(*reason)});
    else
      parsed.value.push_back(std::move(node));
  }
  return parsed;
}

}  // namespace vetta::slurm
