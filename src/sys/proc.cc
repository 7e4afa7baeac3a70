// SPDX-License-Identifier: Apache-2.0
#include "sys/proc.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <dirent.h>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>
#include <unordered_map>

#include "core/text.h"
#include "sys/files.h"

namespace vetta::sys {
namespace {

constexpr std::size_t small_file_max = std::size_t{64} << 10U;
constexpr std::size_t large_file_max = std::size_t{4} << 20U;
/// A block of environment that is longer (the kernel allows megabytes) is not looked at.
constexpr std::size_t environment_max = std::size_t{1} << 20U;

/// Takes the next word of a line of blank-separated fields.
std::string_view next_word(std::string_view& line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return line = {};
  const std::size_t end = std::min(line.find_first_of(" \t", begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Calls `on_line` for each line without its newline.
template <typename OnLine>
void each_line(std::string_view text, const OnLine& on_line) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    on_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// "Name:   123 kB" → 123
std::optional<std::uint64_t> field_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':')
    return std::nullopt;
  line.remove_prefix(name.size() + 1);
  return number<std::uint64_t>(next_word(line));
}

std::uint64_t ticks_per_second() {
  static const long ticks = ::sysconf(_SC_CLK_TCK);
  return ticks > 0 ? static_cast<std::uint64_t>(ticks) : 100;
}

}  // namespace

Duration from_ticks(std::uint64_t ticks) {
  return Duration(static_cast<Duration::rep>(ticks * (1'000'000'000ULL / ticks_per_second())));
}

Result<ProcessStat> parse_stat(std::string_view text) {
  ProcessStat out;
  // The name may hold blanks and parentheses: it ends at the last one.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return fail(Code::invalid, "no process name in a stat line");
  out.pid = number<std::int32_t>(trim(text.substr(0, open))).value_or(0);
  out.comm = text.substr(open + 1, close - open - 1);
  std::string_view rest = trim(text.substr(close + 1));
  std::array<std::string_view, 22> fields;  // field 3 (state) to field 24 (rss) of proc(5)
  for (std::string_view& field : fields) field = next_word(rest);
  if (fields.back().empty() || fields[0].size() != 1 || out.pid <= 0)
    return fail(Code::invalid, "a stat line has too few fields");
  const auto at = [&fields](std::size_t proc_field) {
    return number<std::uint64_t>(fields.at(proc_field - 3)).value_or(0);
  };
  out.state = fields[0][0];
  out.parent = static_cast<std::int32_t>(at(4));
  out.minor_faults = at(10);
  out.child_minor_faults = at(11);
  out.major_faults = at(12);
  out.child_major_faults = at(13);
  out.user_ticks = at(14);
  out.system_ticks = at(15);
  out.child_user_ticks = at(16);
  out.child_system_ticks = at(17);
  out.threads = static_cast<std::uint32_t>(at(20));
  out.start_ticks = at(22);
  out.rss_pages = at(24);
  return out;
}

ProcessStatus parse_status(std::string_view text) {
  ProcessStatus out;
  each_line(text, [&out](std::string_view line) {
    if (const auto value = field_of(line, "Uid")) out.uid = static_cast<std::uint32_t>(*value);
    if (const auto value = field_of(line, "VmRSS")) out.rss_bytes = *value * 1024;
    if (const auto value = field_of(line, "voluntary_ctxt_switches"))
      out.voluntary_switches = value;
    if (const auto value = field_of(line, "nonvoluntary_ctxt_switches"))
      out.involuntary_switches = value;
  });
  return out;
}

std::optional<std::string_view> ProcessEnvironment::get(std::string_view name) const {
  std::string_view rest = block_;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    const std::string_view entry = rest.substr(0, end);
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
      return entry.substr(name.size() + 1);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

std::string Procfs::path(std::int32_t pid, std::string_view file) const {
  return fmt::format("{}/{}/{}", root_, pid, file);
}

Result<std::vector<std::int32_t>> Procfs::pids() const {
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };

  const std::unique_ptr<DIR, Close> folder(::opendir(root_.c_str()));
  if (!folder) return fail_errno(fmt::format("list {}", root_), errno);
  std::vector<std::int32_t> out;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = &entry->d_name[0];
    if (name[0] < '1' || name[0] > '9') continue;
    if (const auto pid = number<std::int32_t>(name)) out.push_back(*pid);
  }
  std::ranges::sort(out);
  return out;
}

Result<ProcessStat> Procfs::stat(std::int32_t pid) const {
  return parse_stat(VETTA_TRY(read_file(path(pid, "stat"), small_file_max)));
}

Result<ProcessStatus> Procfs::status(std::int32_t pid) const {
  return parse_status(VETTA_TRY(read_file(path(pid, "status"), small_file_max)));
}

Result<ProcessIo> Procfs::io(std::int32_t pid) const {
  const std::string text = VETTA_TRY(read_file(path(pid, "io"), small_file_max));
  ProcessIo out;
  each_line(text, [&out](std::string_view line) {
    if (const auto value = field_of(line, "read_bytes")) out.read_bytes = *value;
    if (const auto value = field_of(line, "write_bytes")) out.write_bytes = *value;
  });
  return out;
}

Result<ProcessEnvironment> Procfs::environment(std::int32_t pid) const {
  return ProcessEnvironment(VETTA_TRY(read_file(path(pid, "environ"), environment_max)));
}

Result<std::string> Procfs::title(std::int32_t pid) const {
  std::string text = VETTA_TRY(read_file(path(pid, "cmdline"), environment_max));
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

Result<std::vector<CgroupPath>> Procfs::cgroups(std::int32_t pid) const {
  const std::string text = VETTA_TRY(read_file(path(pid, "cgroup"), small_file_max));
  std::vector<CgroupPath> out;
  each_line(text, [&out](std::string_view line) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) return;
    const auto hierarchy = number<int>(line.substr(0, first));
    if (!hierarchy) return;
    out.push_back({*hierarchy, std::string(line.substr(first + 1, second - first - 1)),
                   std::string(line.substr(second + 1))});
  });
  return out;
}

Result<std::vector<std::int32_t>> Procfs::children(std::int32_t pid) const {
  const std::string tasks = path(pid, "task");
  std::vector<std::int32_t> out;
  for (const std::string& thread : VETTA_TRY(list_folder(tasks))) {
    const auto text = read_file(fmt::format("{}/{}/children", tasks, thread), small_file_max);
    if (!text) continue;  // this thread has ended
    std::string_view rest = *text;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest))
      if (const auto child = number<std::int32_t>(word)) out.push_back(*child);
  }
  return out;
}

Result<std::vector<std::int32_t>> Procfs::tree(std::int32_t pid) const {
  std::unordered_multimap<std::int32_t, std::int32_t> below;
  bool is_there = false;
  for (const std::int32_t each : VETTA_TRY(pids())) {
    const auto stat_of = stat(each);
    if (!stat_of) continue;
    is_there = is_there || each == pid;
    below.emplace(stat_of->parent, each);
  }
  std::vector<std::int32_t> out;
  if (!is_there) return out;
  out.push_back(pid);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto [begin, end] = below.equal_range(out[i]);
    for (auto it = begin; it != end; ++it)
      if (it->second != out[i]) out.push_back(it->second);
    below.erase(begin, end);  // a process moved during the scan must not make a circle
  }
  return out;
}

Result<NodeCpu> Procfs::cpu() const {
  const std::string text = VETTA_TRY(read_file(root_ + "/stat", large_file_max));
  std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  if (next_word(line) != "cpu") return fail(Code::invalid, root_ + "/stat has no cpu line");
  NodeCpu out;
  for (int field = 0; field < 8; ++field) {  // user nice system idle iowait irq softirq steal
    const std::uint64_t ticks = number<std::uint64_t>(next_word(line)).value_or(0);
    out.total_ticks += ticks;
    if (field != 3 && field != 4) out.busy_ticks += ticks;
  }
  return out;
}

Result<double> Procfs::load_1m() const {
  const std::string text = VETTA_TRY(read_file(root_ + "/loadavg", small_file_max));
  std::string_view rest = text;
  const auto value = number<double>(next_word(rest));
  if (!value) return fail(Code::invalid, root_ + "/loadavg does not start with a number");
  return *value;
}

Result<NodeMemory> Procfs::memory() const {
  const std::string text = VETTA_TRY(read_file(root_ + "/meminfo", small_file_max));
  std::optional<std::uint64_t> total;
  std::optional<std::uint64_t> available;
  each_line(text, [&](std::string_view line) {
    if (const auto value = field_of(line, "MemTotal")) total = *value * 1024;
    if (const auto value = field_of(line, "MemAvailable")) available = *value * 1024;
  });
  if (!total || !available)
    return fail(Code::invalid, root_ + "/meminfo has no MemTotal or MemAvailable");
  return NodeMemory{*total, *available};
}

Result<NodeNetwork> Procfs::network() const {
  const std::string text = VETTA_TRY(read_file(root_ + "/net/dev", large_file_max));
  NodeNetwork out;
  each_line(text, [&out](std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || trim(line.substr(0, colon)) == "lo") return;
    line.remove_prefix(colon + 1);
    std::array<std::uint64_t, 9> fields{};
    for (std::uint64_t& field : fields) field = number<std::uint64_t>(next_word(line)).value_or(0);
    out.receive_bytes += fields[0];
    out.transmit_bytes += fields[8];
  });
  return out;
}

Result<double> Procfs::pressure(std::string_view resource) const {
  const std::string file = fmt::format("{}/pressure/{}", root_, resource);
  const std::string text = VETTA_TRY(read_file(file, small_file_max));
  const std::size_t begin = text.find("some avg10=");
  if (begin == std::string::npos) return fail(Code::invalid, file + " has no 'some avg10'");
  std::string_view rest = std::string_view(text).substr(begin + 11);
  const auto percent = number<double>(next_word(rest));
  if (!percent) return fail(Code::invalid, file + " has no number after 'some avg10='");
  return *percent / 100;
}

Result<Time> Procfs::boot_time() const {
  const std::string text = VETTA_TRY(read_file(root_ + "/stat", large_file_max));
  std::optional<std::int64_t> seconds_of;
  each_line(text, [&seconds_of](std::string_view line) {
    if (next_word(line) == "btime") seconds_of = number<std::int64_t>(next_word(line));
  });
  if (!seconds_of) return fail(Code::invalid, root_ + "/stat has no btime");
  return from_epoch_seconds(*seconds_of);
}

Result<std::string> Procfs::boot_id() const {
  const std::string text =
      VETTA_TRY(read_file(root_ + "/sys/kernel/random/boot_id", small_file_max));
  return std::string(trim(text));
}

}  // namespace vetta::sys
