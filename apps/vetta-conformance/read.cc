// SPDX-License-Identifier: Apache-2.0
#include "read.h"

#include <fmt/format.h>
#include <functional>

#include "core/hostlist.h"
#include "core/text.h"
#include "print.h"
#include "slurm/accounting.h"
#include "slurm/fields.h"
#include "slurm/jobs.h"
#include "slurm/keyvalue.h"
#include "slurm/nodes.h"
#include "slurm/partitions.h"
#include "slurm/record.h"

namespace vetta::conformance {
namespace {

using Args = std::vector<std::string>;

std::string object(std::string_view key, const std::vector<std::string>& values,
                   const std::vector<slurm::Refusal>& refused) {
  return fmt::format(R"({{"{}": {}, "refused": {}}})", key, json_list(values), json(refused));
}

template <typename T, typename Show>
std::string show(std::string_view key, const slurm::Parsed<std::vector<T>>& parsed, Show one) {
  std::vector<std::string> values;
  for (const T& value : parsed.value) values.push_back(one(value));
  return object(key, values, parsed.refused);
}

std::string each_line(std::string_view text,
                      const std::function<std::string(std::string_view)>& f) {
  std::vector<std::string> values;
  for (const std::string_view line : split(text, "\n"))
    if (!line.empty()) values.push_back(f(line));
  return json_list(values);
}

std::string rows(std::string_view text, const Args& args, bool has_header) {
  slurm::Parsed<slurm::Table> table;
  if (has_header) {
    auto read = slurm::read_table(text, args.at(0), args.size() > 1 ? args[1] : "");
    if (!read) return json(read.error());
    table = std::move(*read);
  } else {
    slurm::RecordFormat format;
    format.separator = args.at(0);
    format.fields = parse_uint(args.at(1)).value_or(1);
    table.refused = slurm::read_records(text, format, [&](int, auto fields) {
      table.value.rows.emplace_back(fields.begin(), fields.end());
      return std::optional<std::string>();
    });
  }
  std::vector<std::string> values = {json_texts(table.value.header)};
  for (const auto& row : table.value.rows) values.push_back(json_texts(row));
  return object("rows", values, table.refused);
}

slurm::Parsed<std::vector<model::Attempt>> jobs(std::string_view text, const Args& args) {
  slurm::JobText format;
  format.separator = args.at(0);
  for (const std::string_view name : split(args.at(1), ",")) format.fields.emplace_back(name);
  format.free_text = parse_uint(args.at(2)).value_or(0);
  format.trailing_separator = text.substr(0, text.find('\n')).ends_with(format.separator);
  return slurm::parse_jobs(text.substr(text.find('\n') + 1), format, "c");
}

std::string accounting(std::string_view text, const Args& args) {
  slurm::AccountingText format;
  format.separator = args.at(0);
  format.trailing_separator = false;
  for (const std::string_view name : split(text.substr(0, text.find('\n')), args.at(0)))
    format.fields.emplace_back(name);
  return show("attempts", slurm::parse_accounting(text.substr(text.find('\n') + 1), format, "c"),
              [](const auto& attempt) { return json(attempt); });
}

std::string hostlist(std::string_view line) {
  const auto names = expand_hostlist(line);
  return names ? json_texts(*names) : json(names.error());
}

std::string gres(std::string_view line) {
  const auto entries = slurm::parse_gres(line);
  return entries ? json(*entries) : json(entries.error());
}

std::string key_values(std::string_view text, const Args& args) {
  const auto read = slurm::read_key_values(text, args.at(0));
  std::vector<std::string> records;
  for (const slurm::KeyValues& record : read.value) {
    std::vector<std::string> pairs;
    for (std::size_t i = 1; i < args.size(); ++i)
      pairs.push_back(json_text(args[i]) + ": " + json_text(record.get(args[i])));
    records.push_back(fmt::format("{{{}}}", fmt::join(pairs, ", ")));
  }
  return object("records", records, read.refused);
}

std::string sdiag(std::string_view text) {
  const auto read = slurm::parse_sdiag(text);
  return read ? json(*read) : json(read.error());
}

}  // namespace

std::string read(const std::string& kind, std::string_view text, const Args& args) {
  const auto shown = [](const auto& value) { return json(value); };
  if (kind == "nodes") return show("nodes", slurm::parse_nodes(text), shown);
  if (kind == "partitions") return show("partitions", slurm::parse_partitions(text), shown);
  if (kind == "allocations") return show("jobs", slurm::parse_allocations(text, nullptr), shown);
  if (kind == "jobs") return show("jobs", jobs(text, args), shown);
  if (kind == "accounting") return accounting(text, args);
  if (kind == "table" || kind == "records") return rows(text, args, kind == "table");
  if (kind == "keys") return key_values(text, args);
  if (kind == "sdiag") return sdiag(text);
  if (kind == "gres") return each_line(text, gres);
  if (kind == "hostlist") return each_line(text, hostlist);
  if (kind == "tres")
    return each_line(text, [](std::string_view line) {
      const auto gpus = slurm::parse_tres(line).gpus;
      return gpus ? std::to_string(*gpus) : std::string("null");
    });
  if (kind == "time")
    return each_line(text, [](std::string_view line) {
      const auto time = slurm::read_time(line);
      return time ? std::to_string(epoch_seconds(*time)) : std::string("null");
    });
  if (kind == "states")
    return each_line(
        text, [](std::string_view line) { return json_texts(slurm::parse_node_states(line)); });
  return {};
}

}  // namespace vetta::conformance
