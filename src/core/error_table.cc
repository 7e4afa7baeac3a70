// SPDX-License-Identifier: Apache-2.0
#include "core/error_table.h"

#include <array>

namespace vetta {
namespace {

struct Row {
  Code code;
  int status;
  int exit;
};

constexpr std::array rows = {
    Row{Code::invalid, 400, exit_usage},           Row{Code::not_found, 404, exit_could_not},
    Row{Code::conflict, 409, exit_could_not},      Row{Code::denied, 403, exit_denied},
    Row{Code::unavailable, 503, exit_unreachable}, Row{Code::timeout, 504, exit_timed_out},
    Row{Code::exhausted, 429, exit_could_not},     Row{Code::internal, 500, exit_could_not},
};

const Row& row_of(Code code) {
  for (const Row& row : rows)
    if (row.code == code) return row;
  return rows.back();
}

}  // namespace

int http_status(Code code) {
  return row_of(code).status;
}

int exit_code(Code code) {
  return row_of(code).exit;
}

Code code_of_status(int status) {
  for (const Row& row : rows)
    if (row.status == status) return row.code;
  if (status == 401) return Code::denied;
  return status >= 400 && status < 500 ? Code::invalid : Code::internal;
}

Code code_of_name(std::string_view text) {
  for (const Row& row : rows)
    if (name(row.code) == text) return row.code;
  return Code::internal;
}

}  // namespace vetta
