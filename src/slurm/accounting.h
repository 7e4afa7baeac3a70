// SPDX-License-Identifier: Apache-2.0
// sacct's records as attempts with their steps. With -D a requeued job has a row for each attempt;
// a step belongs to the attempt of its DBIndex where a release tells it, else to the last row of
// its job. sacct replaces bytes in names ('"' by '`', what is not ASCII by '?'): squeue's are the
// true ones. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/answer.h"
#include "slurm/snapshot.h"

namespace vetta::slurm {

/// sacct's fields that Vetta wants, free texts last; `sacct -e` tells which of them there are.
[[nodiscard]] const std::vector<std::string>& accounting_fields();

struct AccountingText {
  std::vector<std::string> fields;
  std::string separator;
  bool trailing_separator = true;
  std::optional<std::size_t> free_text{};
};

/// A row without a readable id (JobIDRaw, else JobID), a job row without a submit time, and a step
/// without its job are refused. Attempts come in the order of their rows.
[[nodiscard]] Parsed<std::vector<AccountedAttempt>> parse_accounting(std::string_view text,
                                                                     const AccountingText& format,
                                                                     std::string_view cluster);

}  // namespace vetta::slurm
