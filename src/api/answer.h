// SPDX-License-Identifier: Apache-2.0
// Small helpers of the handlers: an answer in JSON, and parameters read with an error that names
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "http/message.h"
#include "model/json.h"
#include "query/query.h"

namespace vetta::api {

inline constexpr int schema_version = 1;  ///< "schema" in every object that the API answers

[[nodiscard]] http::Response json_answer(const model::Json& body);
/// {"schema": 1} to be filled.
[[nodiscard]] model::Json new_body();
/// The body or the error, as an answer.
[[nodiscard]] http::Answer answer(const Result<model::Json>& body);

[[nodiscard]] Result<std::optional<std::uint64_t>> integer_of(const http::Request& request,
                                                              std::string_view key,
                                                              std::uint64_t max);
[[nodiscard]] Result<std::optional<Time>> time_of(const http::Request& request,
                                                  std::string_view key);
[[nodiscard]] Result<bool> flag_of(const http::Request& request, std::string_view key);
/// All values under that key, split at commas, empty ones left out.
[[nodiscard]] std::vector<std::string> list_of(const http::Request& request, std::string_view key);
/// Code::invalid if the request has a query parameter that is not in `known`.
[[nodiscard]] Result<void> refuse_unknown(const http::Request& request,
                                          const std::vector<std::string>& known);

/// Seconds since the epoch; null where there is none.
[[nodiscard]] model::Json epoch(Time time);
[[nodiscard]] model::Json epoch(const std::optional<Time>& time);

/// The attempt that the path's {id} means and this viewer may see.
[[nodiscard]] Result<records::AttemptRow> job_of(const query::Query& query,
                                                 const http::Request& request);
/// An attempt with what records know beside it.
[[nodiscard]] model::Json to_json(const records::AttemptRow& row);

}  // namespace vetta::api
