// SPDX-License-Identifier: Apache-2.0
// scontrol's "Key=Value Key=Value" records of nodes and partitions, one record a line (-o) or over
// several indented lines. Values may hold blanks ("OS=Linux 6.1 #1 SMP", "Reason=bad disk
// [root@…]"): a value reaches up to the next blank that is followed by Key=. The first of two equal
// keys counts, so that a free text at the end cannot replace what stands before it. Pure.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "slurm/answer.h"

namespace vetta::slurm {

class KeyValues {
 public:
  KeyValues(std::string_view record, int line);
  /// The value of the first such key, "" if there is none.
  [[nodiscard]] std::string_view get(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const;

  [[nodiscard]] std::string_view text() const { return text_; }

  [[nodiscard]] int line() const { return line_; }

 private:
  std::string_view text_;
  int line_;
  std::vector<std::pair<std::string_view, std::string_view>> pairs_;
};

/// Cuts a text into records that begin with `first_key` ("NodeName=") at the start of a line; what
/// stands before the first one is refused. "No nodes in the system" and the like are no records.
[[nodiscard]] Parsed<std::vector<KeyValues>> read_key_values(std::string_view text,
                                                             std::string_view first_key);

}  // namespace vetta::slurm
