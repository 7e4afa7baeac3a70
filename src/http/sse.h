// SPDX-License-Identifier: Apache-2.0
// Server-sent events as text: encode one, and read them from pieces of a stream
// (WHATWG HTML, "Server-sent events"). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace vetta::http {

struct SseEvent {
  std::string id;     ///< Last-Event-ID of a later request; may be empty
  std::string event;  ///< kind; empty means "message"
  std::string data;
};

[[nodiscard]] std::string encode(const SseEvent& event);

/// Reads events from pieces cut anywhere; a line or an event over 4 MiB is an error.
class SseReader {
 public:
  [[nodiscard]] Result<std::vector<SseEvent>> append(std::string_view bytes);

 private:
  void take_line(std::string_view line, std::vector<SseEvent>& out);

  std::string buffer_;
  SseEvent current_;
  bool has_data_ = false;
};

}  // namespace vetta::http
