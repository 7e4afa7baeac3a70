// SPDX-License-Identifier: Apache-2.0
// Result<T> and Error: how every expected failure of Vetta travels.
// An Error is a sentence for the person who can mend it: what was attempted, what stood in the way,
// where, what to try. Thread-safety: values; as safe as std::string.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vetta {

/// What kind of failure, and so who can mend it. core/error_table.h maps each to HTTP status and
/// exit code, once.
enum class Code { invalid, not_found, conflict, denied, unavailable, timeout, exhausted, internal };

/// The place in a user's file that an error speaks of; line and column count from 1, 0 means
/// unknown.
struct Place {
  std::string path;
  int line = 0;
  int column = 0;
};

struct [[nodiscard]] Error {
  Code code = Code::internal;
  std::string message;                ///< one sentence without a full stop at its end
  std::string hint;                   ///< what to try; may be empty
  Place place;                        ///< may be empty
  std::vector<std::string> attempts;  ///< what was being attempted, innermost first

  /// Adds what was being attempted, as in "read the jobs of cluster 'alps'"; returns itself.
  Error&& while_(std::string attempt) &&;
  Error&& try_(std::string advice) &&;
  Error&& at(Place where) &&;
  /// One line: place, attempts from the outermost in, message, hint.
  [[nodiscard]] std::string text() const;
};

template <typename T>
using Result = std::expected<T, Error>;

[[nodiscard]] std::unexpected<Error> fail(Code code, std::string message, std::string hint = {});
/// A failed system call: `what` is the attempt ("open /run/x"), `error` an errno value; the code
/// follows from it.
[[nodiscard]] std::unexpected<Error> fail_errno(std::string_view what, int error);
[[nodiscard]] std::string errno_text(int error);
[[nodiscard]] std::string_view name(Code code);

/// Ends the process with a searchable line; for programmers' mistakes only, never for input.
[[noreturn]] void assertion_failed(const char* condition, const char* why, const char* file,
                                   int line);

}  // namespace vetta

/// Takes the value of a Result or returns its error from the enclosing function.
#define VETTA_TRY(...)                                                             \
  __extension__({                                                                  \
    auto&& vetta_try_result = (__VA_ARGS__);                                       \
    if (!vetta_try_result) [[unlikely]]                                            \
      return std::unexpected<::vetta::Error>(std::move(vetta_try_result).error()); \
    std::move(vetta_try_result).value();                                           \
  })

/// Holds in release builds too; `why` says why the condition must hold.
#define VETTA_ASSERT(condition, why)  \
  ((condition) ? static_cast<void>(0) \
               : ::vetta::assertion_failed(#condition, why, __FILE__, __LINE__))
