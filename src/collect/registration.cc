// SPDX-License-Identifier: Apache-2.0
#include "collect/registration.h"

#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace vetta::collect {
namespace {

using Values = std::map<std::string_view, std::string_view>;

/// The number at `key`, or `otherwise` if the key is absent.
template <typename Number>
Result<Number> number(const Values& values, std::string_view key,
                      std::optional<Number> otherwise = {}) {
  const auto it = values.find(key);
  if (it == values.end()) {
    if (otherwise) return *otherwise;
    return fail(Code::invalid, fmt::format("a registration without '{}'", key));
  }
  const auto value = parse_int(it->second);
  if (!value || !std::in_range<Number>(*value))
    return fail(Code::invalid, fmt::format("a registration with {}={}", key, one_line(it->second)));
  return static_cast<Number>(*value);
}

bool is_word(std::string_view text, std::size_t size_max) {
  if (text.empty() || text.size() > size_max) return false;
  return text.find_first_not_of(
             "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._,:()+-") ==
         std::string_view::npos;
}

std::int32_t int_of(const nlohmann::json& object, const char* key, std::int32_t otherwise) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_integer()) return otherwise;
  const auto value = it->get<std::int64_t>();
  return std::in_range<std::int32_t>(value) ? static_cast<std::int32_t>(value) : otherwise;
}

}  // namespace

Result<Registration> parse_registration(std::string_view text) {
  Values values;
  for (const std::string_view line : split(text, "\n")) {
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      values.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  if (VETTA_TRY(number<int>(values, "vetta")) != 1)
    return fail(Code::invalid, "a registration of another version than 1",
                "install agent and plugin of one release");
  Registration out;
  const std::string_view kind = values["kind"];
  if (kind != "start" && kind != "exit")
    return fail(Code::invalid, fmt::format("a registration of kind '{}'", one_line(kind, 40)));
  out.is_exit = kind == "exit";
  out.job_id = static_cast<std::uint64_t>(VETTA_TRY(number<std::uint32_t>(values, "job")));
  const std::string_view step = values["step"];
  if (!is_word(step, 15))
    return fail(Code::invalid, fmt::format("a registration of step '{}'", one_line(step, 40)));
  out.step_id = step;
  out.restart = VETTA_TRY(number<std::uint32_t>(values, "restart", 0));
  out.task = VETTA_TRY(number<std::int32_t>(values, "task"));
  out.local_task = VETTA_TRY(number<std::int32_t>(values, "local_task", -1));
  out.tasks = VETTA_TRY(number<std::int32_t>(values, "tasks", -1));
  out.uid = VETTA_TRY(number<std::uint32_t>(values, "uid"));
  out.pid = VETTA_TRY(number<std::int32_t>(values, "pid"));
  if (out.job_id == 0 || out.task < 0 || out.pid <= 0)
    return fail(Code::invalid, "a registration without a job, a task or a process");
  out.start_ticks =
      static_cast<std::uint64_t>(VETTA_TRY(number<std::int64_t>(values, "start_ticks", 0)));
  if (const std::string_view devices = values["devices"]; is_word(devices, 256))
    out.devices = devices;
  if (out.is_exit) out.wait_status = VETTA_TRY(number<int>(values, "status"));
  out.time = from_epoch_nanoseconds(VETTA_TRY(number<std::int64_t>(values, "time_ns")));
  return out;
}

Result<ProbeHello> parse_probe_hello(std::string_view json) {
  const auto object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object()) return fail(Code::invalid, "the hello is not a JSON object");
  if (int_of(object, "vetta", 0) != 1)
    return fail(Code::invalid, "the hello is of another version than 1",
                "install agent and vetta_probe of one release");
  ProbeHello out;
  out.pid = int_of(object, "pid", 0);
  out.rank = int_of(object, "rank", -1);
  out.local_rank = int_of(object, "local_rank", -1);
  out.world_size = int_of(object, "world_size", -1);
  out.elastic_restart =
      static_cast<std::uint32_t>(std::max(0, int_of(object, "elastic_restart", 0)));
  if (out.rank < -1 || out.local_rank < -1 || out.world_size < -1)
    return fail(Code::invalid, "the hello has a negative rank");
  const auto source = object.find("source");
  if (source != object.end() && source->is_string()) out.source = source->get<std::string>();
  return out;
}

std::string probe_reply(std::string_view ring_path, std::uint64_t bytes) {
  return nlohmann::ordered_json{{"vetta", 1}, {"ring", to_utf8(ring_path)}, {"bytes", bytes}}
      .dump();
}

std::string probe_refusal(std::string_view sentence) {
  return nlohmann::ordered_json{{"vetta", 1}, {"error", one_line(sentence, 400)}}.dump();
}

}  // namespace vetta::collect
