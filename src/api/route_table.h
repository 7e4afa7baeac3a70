// SPDX-License-Identifier: Apache-2.0
// The one table of routes: path, words, parameters, answer and handler in one row. The router and
// the OpenAPI document are both made from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/context.h"
#include "http/router.h"

namespace vetta::api {

struct Parameter {
  std::string name;
  std::string type;  ///< string, integer, number, boolean
  std::string description;
};

struct RouteRow {
  http::Method method = http::Method::get;
  std::string path;
  std::string summary;
  std::vector<Parameter> query;  ///< parameters of the path are named in the path
  std::string answer;            ///< name of the schema; empty: not JSON, see `media`
  std::string media = "application/json";
  http::Access access = http::Access::authenticated;
  http::Handler handler;
};

/// Every route of vettad. `context` must outlive the handlers.
[[nodiscard]] std::vector<RouteRow> route_table(const Context& context);
[[nodiscard]] http::Router make_router(const Context& context);
/// OpenAPI 3.1 as text.
[[nodiscard]] std::string openapi(const std::vector<RouteRow>& routes, std::string_view version);

// The rows of one subject each, for route_table.
void add_job_routes(std::vector<RouteRow>& rows, const Context& context);
void add_judgement_routes(std::vector<RouteRow>& rows, const Context& context);
void add_cluster_routes(std::vector<RouteRow>& rows, const Context& context);
void add_event_routes(std::vector<RouteRow>& rows, const Context& context);
void add_status_routes(std::vector<RouteRow>& rows, const Context& context);

}  // namespace vetta::api
