// SPDX-License-Identifier: Apache-2.0
#include "query/job_id.h"

#include <fmt/format.h>
#include <limits>

#include "core/text.h"

namespace vetta::query {
namespace {

std::unexpected<Error> refuse(std::string_view text) {
  return fail(Code::invalid, fmt::format("'{}' is no job id", one_line(text, 60)),
              "write 4711, 4711_3 (array task), 4711+1 (het component), cluster:4711, or 4711/2 "
              "(second attempt)");
}

std::optional<std::uint32_t> small_number(std::string_view text) {
  const auto value = parse_uint(text);
  if (!value || *value > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

/// Cuts what follows the last `mark` off `text` and reads it; false if it is no number.
bool cut_number(std::string_view& text, char mark, std::optional<std::uint32_t>& to) {
  const auto at = text.rfind(mark);
  if (at == std::string_view::npos) return true;
  to = small_number(text.substr(at + 1));
  text = text.substr(0, at);
  return to.has_value();
}

}  // namespace

Result<JobId> parse_job_id(std::string_view text) {
  JobId id;
  std::string_view rest = trim(text);
  if (const auto at = rest.rfind(':'); at != std::string_view::npos) {
    id.cluster = rest.substr(0, at);
    rest = rest.substr(at + 1);
    if (id.cluster.empty()) return refuse(text);
  }
  if (!cut_number(rest, '/', id.attempt) || id.attempt == 0U) return refuse(text);
  if (!cut_number(rest, '_', id.array_task)) return refuse(text);
  if (!cut_number(rest, '+', id.het_offset)) return refuse(text);
  if (id.array_task && id.het_offset) return refuse(text);
  const auto number = parse_uint(rest);
  if (!number || *number == 0 ||
      *number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return refuse(text);
  id.job_id = *number;
  return id;
}

std::string print(const JobId& id) {
  std::string out;
  if (!id.cluster.empty()) out += id.cluster + ":";
  out += fmt::format("{}", id.job_id);
  if (id.array_task) out += fmt::format("_{}", *id.array_task);
  if (id.het_offset) out += fmt::format("+{}", *id.het_offset);
  if (id.attempt) out += fmt::format("/{}", *id.attempt);
  return out;
}

}  // namespace vetta::query
