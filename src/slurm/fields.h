// SPDX-License-Identifier: Apache-2.0
// Single values as Slurm writes them. What Slurm writes for "there is none" ("(null)", "N/A",
// "Unknown", NO_VAL) is an empty optional or an empty text. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "model/job.h"

namespace vetta::slurm {

/// The text, or "" for "(null)", "N/A", "None", "NONE", "Unknown", "None assigned".
[[nodiscard]] std::string_view known(std::string_view text);
/// Seconds since the epoch, or 2026-03-10T12:34:28 (taken as UTC); 0, NO_VAL, a time without a
/// date and words are none.
[[nodiscard]] std::optional<Time> read_time(std::string_view text);
/// Whole numbers; NO_VAL and INFINITE (2^32-2, 2^32-1) are none.
[[nodiscard]] std::optional<std::uint32_t> read_count(std::string_view text);
/// "4G", "500M", "4000" (MB), "4Gn", "250Mc" (the letter says per node or per CPU and is dropped).
[[nodiscard]] std::optional<std::uint64_t> read_memory(std::string_view text);
/// Spans; a bare number counts minutes.
[[nodiscard]] std::optional<Duration> read_span(std::string_view text);

struct ExitCode {
  std::optional<int> code, signal;
};

/// "3:0", or the raw wait status that squeue prints (768).
[[nodiscard]] ExitCode read_exit(std::string_view text);

/// An id in any of the forms 123, 123_4, 123_[7-8%1], 15+1, each with ".step" or without.
struct JobId {
  std::uint64_t id = 0;  ///< the number in front: the array's or the het leader's id in those forms
  std::optional<std::uint32_t> task;
  std::string tasks;  ///< what stands in brackets
  std::optional<std::uint32_t> het_offset;
  std::string step;  ///< "0", "batch", "extern", "interactive"
};

[[nodiscard]] Result<JobId> parse_job_id(std::string_view text);

/// Columns of a record by name, letter case aside; a column that is not there reads as "".
class Columns {
 public:
  explicit Columns(std::span<const std::string> names);
  [[nodiscard]] std::optional<std::size_t> at(std::string_view name) const;

 private:
  std::vector<std::string> lowered_;
};

/// One field of a record.
[[nodiscard]] inline std::string_view field(std::span<const std::string_view> record,
                                            std::optional<std::size_t> column) {
  return column && *column < record.size() ? record[*column] : std::string_view();
}

}  // namespace vetta::slurm
