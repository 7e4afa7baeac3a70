// SPDX-License-Identifier: Apache-2.0
#include "api/answer.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "api/access.h"
#include "core/text.h"

namespace vetta::api {
namespace {

std::string_view word(records::ViewSource source) {
  switch (source) {
    case records::ViewSource::inferred: return "inferred";
    case records::ViewSource::controller: return "slurmctld";
    case records::ViewSource::accounting: return "slurmdbd";
  }
  return "inferred";
}

std::unexpected<Error> bad_parameter(std::string_view key, std::string_view value,
                                     std::string_view wanted) {
  return fail(Code::invalid,
              "the parameter " + std::string(key) + "=" + one_line(value, 60) + " is not " +
                  std::string(wanted),
              "GET /api/v1/openapi.json describes every parameter");
}

}  // namespace

http::Response json_answer(const model::Json& body) {
  return {.status = 200, .content_type = "application/json", .body = model::dump(body) + "\n"};
}

model::Json new_body() {
  return {{"schema", schema_version}};
}

http::Answer answer(const Result<model::Json>& body) {
  return body ? json_answer(*body) : http::error_response(body.error());
}

Result<std::optional<std::uint64_t>> integer_of(const http::Request& request, std::string_view key,
                                                std::uint64_t max) {
  const auto text = request.query_value(key);
  if (!text) return std::nullopt;
  const auto value = parse_uint(*text);
  if (!value || *value > max)
    return bad_parameter(key, *text, "a whole number up to " + std::to_string(max));
  return *value;
}

Result<std::optional<Time>> time_of(const http::Request& request, std::string_view key) {
  const auto text = request.query_value(key);
  if (!text) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  constexpr double latest = 9e9;  // the year 2255: nanoseconds since the epoch fit 64 bits
  if (error != std::errc() || end != text->data() + text->size() || !(value >= 0) || value > latest)
    return bad_parameter(key, *text, "a time in seconds since the epoch");
  return Time(from_seconds(value));
}

Result<bool> flag_of(const http::Request& request, std::string_view key) {
  const auto text = request.query_value(key);
  if (!text || *text == "false" || *text == "0") return false;
  if (text->empty() || *text == "true" || *text == "1") return true;
  return bad_parameter(key, *text, "true or false");
}

std::vector<std::string> list_of(const http::Request& request, std::string_view key) {
  std::vector<std::string> all;
  for (const auto& [name, value] : request.query) {
    if (name != key) continue;
    for (const std::string_view part : split(value, ","))
      if (!part.empty()) all.emplace_back(part);
  }
  return all;
}

Result<void> refuse_unknown(const http::Request& request, const std::vector<std::string>& known) {
  for (const auto& [key, value] : request.query) {
    if (std::ranges::find(known, key) != known.end()) continue;
    std::string all;
    for (const std::string& word : known) all += (all.empty() ? "" : ", ") + word;
    return fail(Code::invalid, "there is no parameter '" + one_line(key, 60) + "' here",
                all.empty() ? "this address takes none" : "it takes " + all);
  }
  return {};
}

Result<records::AttemptRow> job_of(const query::Query& query, const http::Request& request) {
  const auto id = VETTA_TRY(query::parse_job_id(request.parameter("id")));
  return query.job(viewer_of(request.identity), id);
}

model::Json to_json(const records::AttemptRow& row) {
  model::Json out = model::to_json(row.attempt);
  out["attempt"] = row.number;
  out["is_superseded"] = row.is_superseded;
  out["state_source"] = word(row.source);
  out["as_of"] = static_cast<double>(epoch_nanoseconds(row.as_of)) / 1e9;
  out["gap"] = row.gap.empty() ? model::Json(nullptr) : model::Json(to_utf8(row.gap));
  return out;
}

model::Json epoch(Time time) {
  return static_cast<double>(epoch_nanoseconds(time)) / 1e9;
}

model::Json epoch(const std::optional<Time>& time) {
  return time ? epoch(*time) : model::Json(nullptr);
}

}  // namespace vetta::api
