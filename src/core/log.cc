// SPDX-License-Identifier: Apache-2.0
#include "core/log.h"

#include <array>
#include <atomic>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <unistd.h>

#include "core/environment.h"
#include "core/text.h"
#include "core/time.h"

namespace vetta::log {
namespace {

constexpr int repeats_per_minute = 20;
constexpr std::size_t events_max = 1000;
constexpr std::array level_names = {"debug", "info", "warn", "error"};

std::atomic<Level> threshold{Level::info};

struct Repeat {
  Duration minute_start{};
  int written = 0;
  int held_back = 0;
};

/// How many lines of this event were held back before this one; nullopt if this one is to be held
/// back too.
std::optional<int> admit(std::string_view event) {
  static std::mutex mutex;
  static std::map<std::string, Repeat, std::less<>> repeats;
  const std::lock_guard lock(mutex);
  if (repeats.size() > events_max) repeats.clear();
  auto it = repeats.find(event);
  if (it == repeats.end()) it = repeats.emplace(std::string(event), Repeat{}).first;
  Repeat& repeat = it->second;
  const Duration t = monotonic_now();
  if (repeat.written == 0 || t - repeat.minute_start > std::chrono::minutes(1)) {
    const int held_back = repeat.held_back;
    repeat = {t, 1, 0};
    return held_back;
  }
  if (repeat.written < repeats_per_minute) {
    ++repeat.written;
    return 0;
  }
  ++repeat.held_back;
  return std::nullopt;
}

bool wants_json() {
  static const bool json = [] { return environment_variable("VETTA_LOG") == "json"; }();
  return json;
}

}  // namespace

void set_level(Level level) {
  threshold = level;
}

void write(Level level, std::string_view event, std::string_view message,
           std::initializer_list<Field> fields) {
  if (level < threshold) return;
  const std::optional<int> held_back = admit(event);
  if (!held_back) return;
  const char* level_name = level_names.at(static_cast<std::size_t>(level));
  std::string line;
  if (wants_json()) {
    nlohmann::ordered_json out{{"time", iso(now(), 3)},
                               {"level", level_name},
                               {"event", event},
                               {"message", to_utf8(message)}};
    for (const Field& field : fields) out[std::string(field.key)] = to_utf8(field.value);
    if (*held_back > 0) out["held_back"] = *held_back;
    line = out.dump();
  } else {
    line = fmt::format("{} {:5} {}: {}", iso(now(), 3), level_name, event, one_line(message, 1000));
    for (const Field& field : fields)
      line += fmt::format(" {}={}", field.key, one_line(field.value, 400));
    if (*held_back > 0) line += fmt::format(" held_back={}", *held_back);
  }
  line += '\n';
  // One write a line keeps lines whole between threads and processes; a full or closed stderr must
  // not stop a daemon.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace vetta::log
