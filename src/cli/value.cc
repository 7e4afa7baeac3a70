// SPDX-License-Identifier: Apache-2.0
#include "cli/value.h"

#include <array>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "core/units.h"
#include "http/message.h"
#include "model/job.h"

namespace vetta::cli {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 20> letters = {{
    {"PENDING", "PD"},   {"CONFIGURING", "CF"},    {"RUNNING", "R"},    {"SUSPENDED", "S"},
    {"STOPPED", "ST"},   {"COMPLETING", "CG"},     {"RESIZING", "RS"},  {"SIGNALING", "SI"},
    {"STAGE_OUT", "SO"}, {"COMPLETED", "CD"},      {"CANCELLED", "CA"}, {"FAILED", "F"},
    {"TIMEOUT", "TO"},   {"NODE_FAIL", "NF"},      {"PREEMPTED", "PR"}, {"BOOT_FAIL", "BF"},
    {"DEADLINE", "DL"},  {"OUT_OF_MEMORY", "OOM"}, {"REQUEUED", "RQ"},  {"REVOKED", "RV"},
}};

const Json null_value = nullptr;

}  // namespace

const Json& part_of(const Json& object, std::string_view key) {
  if (!object.is_object()) return null_value;
  const auto found = object.find(std::string(key));
  return found == object.end() ? null_value : *found;
}

std::string text_of(const Json& object, std::string_view key) {
  const Json& value = part_of(object, key);
  return value.is_string() ? to_utf8(value.get_ref<const std::string&>()) : std::string();
}

std::optional<double> number_of(const Json& object, std::string_view key) {
  const Json& value = part_of(object, key);
  if (!value.is_number()) return std::nullopt;
  return value.get<double>();
}

bool is_true(const Json& object, std::string_view key) {
  const Json& value = part_of(object, key);
  return value.is_boolean() && value.get<bool>();
}

std::optional<Time> time_of(const Json& object, std::string_view key) {
  const auto value = number_of(object, key);
  if (!value || !(std::abs(*value) < 9e9)) return std::nullopt;
  return Time(from_seconds(*value));
}

std::string integer_text(const Json& object, std::string_view key) {
  const Json& value = part_of(object, key);
  if (value.is_number_unsigned()) return std::to_string(value.get<std::uint64_t>());
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  return {};
}

std::string when(const Json& object, std::string_view key) {
  const auto time = time_of(object, key);
  return time ? local_short(*time) : std::string();
}

std::string span(std::optional<double> seconds) {
  if (!seconds || !std::isfinite(*seconds)) return {};
  return human(from_seconds(*seconds));
}

std::string percent(double ratio) {
  const double value = ratio * 100;
  return value < 9.95 && value > 0 ? fmt::format("{:.1f} %", value)
                                   : fmt::format("{:.0f} %", value);
}

std::string bytes_text(std::optional<double> bytes) {
  if (!bytes || *bytes < 0) return {};
  return human_bytes(static_cast<std::uint64_t>(*bytes));
}

std::string_view state_letters(std::string_view state) {
  for (const auto& [word, short_word] : letters)
    if (word == state) return short_word;
  return state;
}

bool is_over(std::string_view state) {
  return model::is_final(model::parse_job_state(state));
}

std::optional<double> run_seconds(const Json& job, Time now) {
  const auto start = time_of(job, "start");
  if (!start) return std::nullopt;
  const auto end = time_of(job, "end");
  if (!end && is_over(text_of(job, "state"))) return std::nullopt;
  return std::max(0.0, seconds(end.value_or(now) - *start));
}

std::string exit_text(const Json& object) {
  if (const auto signal = number_of(object, "exit_signal"); signal && *signal > 0) {
    const int number = static_cast<int>(*signal);
    const char* word = sigdescr_np(number);
    return fmt::format("signal {}{}", number,
                       word == nullptr ? "" : " (" + std::string(word) + ")");
  }
  if (const auto code = number_of(object, "exit_code"); code && *code != 0)
    return fmt::format("exit code {}", static_cast<int>(*code));
  return {};
}

std::string job_path(std::string_view id, std::string_view rest) {
  return "/api/v1/jobs/" + http::percent_encode(id) + std::string(rest);
}

}  // namespace vetta::cli
