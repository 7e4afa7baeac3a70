// SPDX-License-Identifier: Apache-2.0
// The log front: libraries return, programs log. A line on stderr: time, level, event, message,
// key=value; JSON lines where stderr is not a terminal and VETTA_LOG=json (systemd units set it).
// Repeats of one event are limited to 20 a minute; the next line that passes says how many were
// held back. Thread-safety: all functions may be called from any thread.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace vetta::log {

/// Who must act: error = operator now, warn = operator soon, info = changes of state, debug =
/// developer.
enum class Level { debug, info, warn, error };

struct Field {
  std::string_view key;
  std::string value;
};

void set_level(Level level);
void write(Level level, std::string_view event, std::string_view message,
           std::initializer_list<Field> fields = {});

inline void debug(std::string_view event, std::string_view message,
                  std::initializer_list<Field> fields = {}) {
  write(Level::debug, event, message, fields);
}

inline void info(std::string_view event, std::string_view message,
                 std::initializer_list<Field> fields = {}) {
  write(Level::info, event, message, fields);
}

inline void warn(std::string_view event, std::string_view message,
                 std::initializer_list<Field> fields = {}) {
  write(Level::warn, event, message, fields);
}

inline void error(std::string_view event, std::string_view message,
                  std::initializer_list<Field> fields = {}) {
  write(Level::error, event, message, fields);
}

}  // namespace vetta::log
