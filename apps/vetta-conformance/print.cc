// SPDX-License-Identifier: Apache-2.0
#include "print.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "model/json.h"

namespace vetta::conformance {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : to_utf8(text)) {
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else
      out += c;
  }
  return out + "\"";
}

std::string json_list(const std::vector<std::string>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string json_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> values;
  values.reserve(texts.size());
  for (const std::string& text : texts) values.push_back(json_text(text));
  return json_list(values);
}

std::string json(const std::vector<slurm::Refusal>& refused) {
  std::vector<std::string> values;
  for (const slurm::Refusal& refusal : refused)
    values.push_back(
        fmt::format(R"({{"line": {}, "reason": {}}})", refusal.line, json_text(refusal.reason)));
  return json_list(values);
}

std::string json(const model::Attempt& attempt) {
  return model::dump(model::to_json(attempt));
}

std::string json(const model::Node& node) {
  return model::dump(model::to_json(node));
}

std::string json(const model::Partition& partition) {
  return model::dump(model::to_json(partition));
}

std::string json(const slurm::HeldJob& job) {
  std::vector<std::string> values;
  for (const model::Allocation& allocation : job.allocations)
    values.push_back(model::dump(model::to_json(allocation)));
  return fmt::format(R"({{"job_id": {}, "allocations": {}}})", job.job_id, json_list(values));
}

std::string json(const slurm::AccountedAttempt& attempt) {
  std::vector<std::string> steps;
  for (const model::Step& step : attempt.steps) steps.push_back(model::dump(model::to_json(step)));
  return fmt::format(R"({{"attempt": {}, "steps": {}}})",
                     model::dump(model::to_json(attempt.attempt)), json_list(steps));
}

std::string json(const std::vector<slurm::GresEntry>& entries) {
  std::vector<std::string> values;
  for (const slurm::GresEntry& entry : entries)
    values.push_back(fmt::format(R"({{"name": {}, "type": {}, "count": {}, "indices": [{}]}})",
                                 json_text(entry.name), json_text(entry.type), entry.count,
                                 fmt::join(entry.indices, ", ")));
  const slurm::GpuCount gpus = slurm::count_gpus(entries);
  return fmt::format(R"({{"entries": {}, "gpus": {}, "mig": {}}})", json_list(values), gpus.all,
                     gpus.mig);
}

std::string json(const slurm::Sdiag& sdiag) {
  std::vector<std::string> types;
  for (const slurm::RpcCount& rpc : sdiag.by_type)
    types.push_back(fmt::format("{}: {}", json_text(rpc.name), rpc.count));
  std::vector<std::string> users;
  for (const slurm::RpcCount& rpc : sdiag.by_user)
    users.push_back(fmt::format("{}: {}", json_text(rpc.name), rpc.count));
  return fmt::format(
      R"({{"server_threads": {}, "jobs_submitted": {}, "by_type": {{{}}}, "by_user": {{{}}}}})",
      sdiag.server_threads ? std::to_string(*sdiag.server_threads) : "null",
      sdiag.jobs_submitted ? std::to_string(*sdiag.jobs_submitted) : "null", fmt::join(types, ", "),
      fmt::join(users, ", "));
}

std::string json(const Error& error) {
  return fmt::format(R"({{"error": {}}})", json_text(error.text()));
}

}  // namespace vetta::conformance
