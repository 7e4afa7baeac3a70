// SPDX-License-Identifier: Apache-2.0
// What Vetta concludes: the diagnosis of a job, and why.
#include <nlohmann/json.hpp>

#include "api/access.h"
#include "api/answer.h"
#include "api/judgement.h"
#include "api/route_table.h"
#include "core/text.h"

namespace vetta::api {
namespace {

using model::Json;

Result<Json> diagnose_job(const Context& context, const http::Request& request) {
  const auto row = VETTA_TRY(job_of(context.query, request));
  const auto number = VETTA_TRY(integer_of(request, "incarnation", UINT32_MAX));
  std::optional<std::uint32_t> incarnation;
  if (number) incarnation = static_cast<std::uint32_t>(*number);
  const auto judged = VETTA_TRY(
      context.diagnoses.get(context.query, viewer_of(request.identity), row, incarnation));
  Json body = new_body();
  body["job"] = {{"cluster", to_utf8(row.attempt.key.cluster)},
                 {"job_id", row.attempt.key.job_id},
                 {"submit", static_cast<double>(epoch_seconds(row.attempt.key.submit))}};
  body["state"] = std::string(model::name(row.attempt.state));
  body["incarnation"] = judged.incarnation;
  body["diagnosis"] = model::to_json(judged.diagnosis);
  return body;
}

Result<Json> explain_job(const Context& context, const http::Request& request) {
  const auto row = VETTA_TRY(job_of(context.query, request));
  const auto input = VETTA_TRY(collect_why(context, viewer_of(request.identity), row));
  Json body = new_body();
  body["job"] = to_json(row);
  body["why"] = model::to_json(diagnose::explain(input));
  return body;
}

}  // namespace

void add_judgement_routes(std::vector<RouteRow>& rows, const Context& context) {
  rows.push_back({.path = "/api/v1/jobs/{id}/diagnosis",
                  .summary = "Which rank holds the others, and what it costs",
                  .query = {{"incarnation", "integer",
                             "A start of the ranks within the attempt; the newest without it"}},
                  .answer = "DiagnosisAnswer",
                  .handler = [&context](const http::Request& request) {
                    return answer(diagnose_job(context, request));
                  }});
  rows.push_back({.path = "/api/v1/jobs/{id}/why",
                  .summary = "My code, my data, or your machine?",
                  .query = {},
                  .answer = "WhyAnswer",
                  .handler = [&context](const http::Request& request) {
                    return answer(explain_job(context, request));
                  }});
}

}  // namespace vetta::api
