// SPDX-License-Identifier: Apache-2.0
// Job ids as people type them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace vetta::query {

/// `4711`, `4711_3` (array task), `4711+1` (het component), each with `cluster:` in front and `/2`
/// behind (the second attempt) if wanted.
struct JobId {
  std::string cluster{};
  std::uint64_t job_id = 0;
  std::optional<std::uint32_t> array_task{}, het_offset{};
  std::optional<std::uint32_t> attempt{};  ///< counts from 1; empty: the latest
  bool operator==(const JobId&) const = default;
};

[[nodiscard]] Result<JobId> parse_job_id(std::string_view text);
[[nodiscard]] std::string print(const JobId& id);

}  // namespace vetta::query
