// SPDX-License-Identifier: Apache-2.0
#include "core/result.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <system_error>

namespace vetta {

Error&& Error::while_(std::string attempt) && {
  attempts.push_back(std::move(attempt));
  return std::move(*this);
}

Error&& Error::try_(std::string advice) && {
  hint = std::move(advice);
  return std::move(*this);
}

Error&& Error::at(Place where) && {
  place = std::move(where);
  return std::move(*this);
}

std::string Error::text() const {
  std::string out;
  if (!place.path.empty()) {
    out += place.path;
    if (place.line > 0) out += fmt::format(":{}", place.line);
    if (place.line > 0 && place.column > 0) out += fmt::format(":{}", place.column);
    out += ": ";
  }
  for (auto it = attempts.rbegin(); it != attempts.rend(); ++it) out += *it + ": ";
  out += message;
  if (!hint.empty()) out += "; " + hint;
  return out;
}

std::unexpected<Error> fail(Code code, std::string message, std::string hint) {
  Error error;
  error.code = code;
  error.message = std::move(message);
  error.hint = std::move(hint);
  return std::unexpected(std::move(error));
}

std::string errno_text(int error) {
  return std::generic_category().message(error);
}

std::unexpected<Error> fail_errno(std::string_view what, int error) {
  Code code = Code::internal;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH: code = Code::not_found; break;
    case EACCES:
    case EPERM: code = Code::denied; break;
    case EEXIST:
    case EBUSY: code = Code::conflict; break;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM: code = Code::exhausted; break;
    case ETIMEDOUT: code = Code::timeout; break;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EAGAIN:
    case ENETUNREACH:
    case EHOSTUNREACH: code = Code::unavailable; break;
    case EINVAL:
    case ENAMETOOLONG: code = Code::invalid; break;
    default: break;
  }
  return fail(code, fmt::format("{}: {}", what, errno_text(error)));
}

std::string_view name(Code code) {
  switch (code) {
    case Code::invalid: return "invalid";
    case Code::not_found: return "not_found";
    case Code::conflict: return "conflict";
    case Code::denied: return "denied";
    case Code::unavailable: return "unavailable";
    case Code::timeout: return "timeout";
    case Code::exhausted: return "exhausted";
    case Code::internal: return "internal";
  }
  return "internal";
}

void assertion_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "VETTA-ASSERT %s:%d: %s must hold: %s\n", file, line, condition, why);
  std::abort();
}

}  // namespace vetta
