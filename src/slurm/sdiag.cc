// SPDX-License-Identifier: Apache-2.0
#include "slurm/sdiag.h"

#include <array>
#include <fmt/format.h>

#include "core/text.h"
#include "slurm/fields.h"

namespace vetta::slurm {
namespace {

/// "… (1796047401)" at the end of a line.
std::optional<Time> bracketed_time(std::string_view line) {
  const std::size_t open = line.rfind('(');
  if (open == std::string_view::npos || !line.ends_with(')')) return std::nullopt;
  return read_time(line.substr(open + 1, line.size() - open - 2));
}

std::optional<std::uint64_t> after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = trim(line.substr(at + key.size()));
  rest = rest.substr(0, rest.find_first_not_of("0123456789"));
  const auto value = parse_uint(rest);
  return value ? std::optional(*value) : std::nullopt;
}

/// "REQUEST_JOB_INFO  ( 2003) count:11  ave_time:114  total_time:1257"
std::optional<RpcCount> read_rpc(std::string_view line) {
  const std::size_t open = line.find('(');
  const auto count = after(line, "count:");
  if (open == std::string_view::npos || !count) return std::nullopt;
  RpcCount rpc;
  rpc.name = trim(line.substr(0, open));
  rpc.id = after(line, "(").value_or(0);
  rpc.count = *count;
  rpc.average_us = after(line, "ave_time:").value_or(0);
  rpc.total_us = after(line, "total_time:").value_or(0);
  return rpc;
}

void read_figure(std::string_view line, Sdiag& sdiag) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view key = line.substr(0, colon);
  const auto value = parse_uint(trim(line.substr(colon + 1)));
  if (!value) return;

  struct Small {
    std::string_view key;
    std::optional<std::uint32_t>& target;
  };

  struct Large {
    std::string_view key;
    std::optional<std::uint64_t>& target;
  };

  const std::array small = {Small{"Server thread count", sdiag.server_threads},
                            Small{"Agent count", sdiag.agents},
                            Small{"Agent queue size", sdiag.agent_queue},
                            Small{"DBD Agent queue size", sdiag.dbd_agent_queue}};
  const std::array large = {
      Large{"Jobs submitted", sdiag.jobs_submitted}, Large{"Jobs started", sdiag.jobs_started},
      Large{"Jobs completed", sdiag.jobs_completed}, Large{"Jobs canceled", sdiag.jobs_canceled},
      Large{"Jobs failed", sdiag.jobs_failed},       Large{"Jobs pending", sdiag.jobs_pending},
      Large{"Jobs running", sdiag.jobs_running}};
  for (const Small& row : small)
    if (row.key == key && *value <= 0xFFFF'FFFFU) row.target = static_cast<std::uint32_t>(*value);
  for (const Large& row : large)
    if (row.key == key) row.target = *value;
}

}  // namespace

std::uint64_t Sdiag::rpcs() const {
  std::uint64_t sum = 0;
  for (const RpcCount& rpc : by_type) sum += rpc.count;
  return sum;
}

Result<Sdiag> parse_sdiag(std::string_view text) {
  Sdiag sdiag;
  bool seen = false;
  std::vector<RpcCount>* list = nullptr;
  for (std::string_view raw : split(text, "\n")) {
    const std::string_view line = trim(raw);
    if (line.starts_with("sdiag output at")) {
      sdiag.at = bracketed_time(line);
      seen = true;
    } else if (line.starts_with("Data since")) {
      sdiag.since = bracketed_time(line);
    } else if (line.contains("statistics by message type")) {
      list = &sdiag.by_type;
    } else if (line.contains("statistics by user")) {
      list = &sdiag.by_user;
    } else if (line.starts_with("Pending RPC")) {
      list = nullptr;
    } else if (list != nullptr) {
      if (auto rpc = read_rpc(line)) list->push_back(std::move(*rpc));
    } else {
      read_figure(line, sdiag);
    }
  }
  if (!seen)
    return fail(Code::invalid, fmt::format("'{}' is not the output of sdiag", one_line(text, 60)));
  return sdiag;
}

}  // namespace vetta::slurm
