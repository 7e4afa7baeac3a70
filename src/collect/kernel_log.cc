// SPDX-License-Identifier: Apache-2.0
#include "collect/kernel_log.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <unistd.h>

#include "core/text.h"
#include "sys/files.h"

namespace vetta::collect {

std::optional<OomKill> parse_kernel_line(std::string_view record) {
  const std::size_t semicolon = record.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  std::string_view text = record.substr(semicolon + 1);
  text = text.substr(0, text.find('\n'));
  // "Out of memory: Killed process 4711 (python3) …", "Memory cgroup out of memory: Killed …";
  // before Linux 5.0 "Killed process" stood in a line of its own.
  constexpr std::string_view words = "Killed process ";
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> head = split(record.substr(0, semicolon), ",");
  if (head.size() < 3) return std::nullopt;
  const auto priority = parse_uint(head[0]);
  if (!priority || *priority >= 8)
    return std::nullopt;  // facility 0 is the kernel; others are users
  OomKill out;
  const std::string_view rest = text.substr(at + words.size());
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), out.pid);
  if (error != std::errc() || out.pid <= 0) return std::nullopt;
  const std::size_t open = rest.find('(');
  const std::size_t close = rest.find(')', open);
  if (open != std::string_view::npos && close != std::string_view::npos)
    out.comm = rest.substr(open + 1, close - open - 1);
  out.is_cgroup = text.find("emory cgroup") != std::string_view::npos;
  out.sequence = parse_uint(head[1]).value_or(0);
  out.since_boot = std::chrono::microseconds(parse_uint(head[2]).value_or(0));
  out.line = one_line(text, 500);
  return out;
}

Time time_of(const OomKill& kill, Time wall_now, Duration raw_now) {
  return wall_now - (raw_now - kill.since_boot);
}

Result<KernelLog> KernelLog::open(const std::string& path) {
  return KernelLog(VETTA_TRY(sys::open_file(path, O_RDONLY | O_NONBLOCK)));
}

std::vector<OomKill> KernelLog::read(std::size_t records_max) {
  std::vector<OomKill> out;
  std::array<char, 8192> record;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t i = 0; i < records_max; ++i) {
    const ssize_t n = ::read(fd_.get(), record.data(), record.size());
    if (n < 0 && (errno == EPIPE || errno == EINTR || errno == EINVAL)) continue;  // overwritten
    if (n <= 0) break;
    if (auto kill = parse_kernel_line({record.data(), static_cast<std::size_t>(n)}))
      out.push_back(std::move(*kill));
  }
  return out;
}

}  // namespace vetta::collect
