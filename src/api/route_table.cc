// SPDX-License-Identifier: Apache-2.0
#include "api/route_table.h"

#include <nlohmann/json.hpp>

#include "api/answer.h"

namespace vetta::api {
namespace {

/// Refuses unknown parameters before the handler sees them, so that a misspelt filter is an error.
http::Handler guarded(const RouteRow& row) {
  std::vector<std::string> known;
  for (const Parameter& parameter : row.query) known.push_back(parameter.name);
  return [known = std::move(known), inner = row.handler](const http::Request& request) {
    if (auto fine = refuse_unknown(request, known); !fine)
      return http::Answer(http::error_response(fine.error()));
    return inner(request);
  };
}

}  // namespace

std::vector<RouteRow> route_table(const Context& context) {
  std::vector<RouteRow> rows;
  add_job_routes(rows, context);
  add_judgement_routes(rows, context);
  add_cluster_routes(rows, context);
  add_event_routes(rows, context);
  add_status_routes(rows, context);
  return rows;
}

http::Router make_router(const Context& context) {
  std::vector<RouteRow> rows = route_table(context);
  RouteRow document;
  document.path = "/api/v1/openapi.json";
  document.summary = "This document";
  document.access = http::Access::open;
  document.answer = "OpenApi";
  rows.push_back(document);
  const std::string text = openapi(rows, context.version);
  rows.back().handler = [text](const http::Request&) -> http::Answer {
    return http::Response{.status = 200, .content_type = "application/json", .body = text};
  };
  http::Router router;
  for (const RouteRow& row : rows) router.add({row.method, row.path, row.access, guarded(row)});
  return router;
}

}  // namespace vetta::api
