// SPDX-License-Identifier: Apache-2.0
// squeue's records as attempts. Predictions stay predictions: the start of a pending job becomes
// expected_start, the end of a running one (its limit) is dropped. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.h"
#include "slurm/answer.h"

namespace vetta::slurm {

/// squeue -O's fields that Vetta wants, free texts last. Those that a release does not know are
/// left out by the reader.
[[nodiscard]] const std::vector<std::string>& job_fields();

/// The -O argument: each field followed by the separator.
[[nodiscard]] std::string format_argument(const std::vector<std::string>& fields,
                                          std::string_view separator);

struct JobText {
  std::vector<std::string> fields;  ///< squeue -O's names, letter case aside
  std::string separator;
  bool trailing_separator = true;
  std::optional<std::size_t> free_text{};  ///< takes surplus separators
};

/// A record without a readable job id or submit time is refused; any other field that cannot be
/// read is unknown.
[[nodiscard]] Parsed<std::vector<model::Attempt>> parse_jobs(std::string_view text,
                                                             const JobText& format,
                                                             std::string_view cluster);

}  // namespace vetta::slurm
