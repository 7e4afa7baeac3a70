// SPDX-License-Identifier: Apache-2.0
// The one reader of Slurm's separated texts (squeue -O, sacct -p, sinfo -O). No byte is safe as a
// separator and names hold newlines, so a record is complete when its field count is reached, lines
// are joined until then, surplus separators belong to the free-text field, and a record that cannot
// be completed is refused with its line and the reason while the others are read. Bytes are kept as
// they are. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/answer.h"

namespace vetta::slurm {

struct RecordFormat {
  std::string separator = "|";
  std::size_t fields = 0;
  bool trailing_separator = false;         ///< each field, the last one too, is followed by it
  std::optional<std::size_t> free_text{};  ///< takes surplus separators; without it they refuse
  std::size_t lines_max = 256;             ///< a record over more lines is refused
  std::size_t records_max = 2'000'000;     ///< what follows is refused in one refusal
};

/// Fields are views into the text; the span is good during the call only. A returned text refuses
/// the record for that reason.
using RecordSink =
    std::function<std::optional<std::string>(int line, std::span<const std::string_view> fields)>;

[[nodiscard]] std::vector<Refusal> read_records(std::string_view text, const RecordFormat& format,
                                                const RecordSink& sink);

/// A text with a header line: the names of its fields, and the records below by those names.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  [[nodiscard]] std::optional<std::size_t> column(std::string_view name) const;
};

/// `free_text` names the column that takes surplus separators ("" for none). The header decides the
/// field count and whether separators trail.
[[nodiscard]] Result<Parsed<Table>> read_table(std::string_view text, std::string_view separator,
                                               std::string_view free_text = {});

}  // namespace vetta::slurm
