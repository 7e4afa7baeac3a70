// SPDX-License-Identifier: Apache-2.0
#include "http/sse.h"

#include "core/text.h"

namespace vetta::http {
namespace {

constexpr std::size_t event_bytes_max = 4U << 20U;

std::string without_newlines(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != '\n' && c != '\r' && c != '\0') out += c;
  return out;
}

}  // namespace

std::string encode(const SseEvent& event) {
  std::string out;
  if (!event.id.empty()) out += "id: " + without_newlines(event.id) + "\n";
  if (!event.event.empty()) out += "event: " + without_newlines(event.event) + "\n";
  std::string data = event.data;
  for (char& c : data)
    if (c == '\r') c = '\n';
  for (const std::string_view line : split(data, "\n")) {
    out += "data: ";
    out += line;
    out += '\n';
  }
  return out + "\n";
}

Result<std::vector<SseEvent>> SseReader::append(std::string_view bytes) {
  buffer_ += bytes;
  std::vector<SseEvent> out;
  std::size_t begin = 0;
  for (std::size_t end = buffer_.find('\n'); end != std::string::npos;
       end = buffer_.find('\n', begin)) {
    std::string_view line = std::string_view(buffer_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take_line(line, out);
    begin = end + 1;
  }
  buffer_.erase(0, begin);
  if (buffer_.size() > event_bytes_max || current_.data.size() > event_bytes_max)
    return fail(Code::exhausted, "an event of the server is longer than 4 MiB");
  return out;
}

void SseReader::take_line(std::string_view line, std::vector<SseEvent>& out) {
  if (line.empty()) {
    if (has_data_) out.push_back(current_);
    current_ = {.id = current_.id, .event = "", .data = ""};
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == 0) return;
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "id") {
    current_.id = value;
  } else if (field == "event") {
    current_.event = value;
  } else if (field == "data") {
    if (has_data_) current_.data += '\n';
    current_.data += value;
    has_data_ = true;
  }
}

}  // namespace vetta::http
