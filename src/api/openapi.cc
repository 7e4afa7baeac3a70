// SPDX-License-Identifier: Apache-2.0
// The OpenAPI document, made from the route table.
#include <nlohmann/json.hpp>

#include "api/route_table.h"
#include "api/schema.h"
#include "core/text.h"

namespace vetta::api {
namespace {

using model::Json;

std::string lower(std::string_view method) {
  std::string out(method);
  for (char& c : out) c = static_cast<char>(c - 'A' + 'a');
  return out;
}

Json path_parameters(const RouteRow& row) {
  Json all = Json::array();
  for (const std::string_view segment : split(row.path, "/")) {
    if (!segment.starts_with('{')) continue;
    const std::string name(segment.substr(1, segment.size() - 2));
    all.push_back({{"name", name},
                   {"in", "path"},
                   {"required", true},
                   {"description", name == "id" ? "A job id: 4711, 4711_3, 4711+1; /2 behind it "
                                                  "(escaped as %2F) names the second attempt"
                                                : "A node's name"},
                   {"schema", {{"type", "string"}}}});
  }
  return all;
}

Json responses(const RouteRow& row) {
  Json content = Json::object();
  content[row.media] = row.answer.empty()
                           ? Json{{"schema", {{"type", "string"}}}}
                           : Json{{"schema", {{"$ref", "#/components/schemas/" + row.answer}}}};
  Json all = Json::object();
  const bool is_upgrade = row.path.starts_with("/agent/");
  if (is_upgrade)
    all["101"] = {{"description", "The connection now carries frames"}};
  else
    all["200"] = {{"description", row.summary}, {"content", content}};
  all["default"] = {
      {"description", "What went wrong, with a status that fits"},
      {"content",
       {{"application/json", {{"schema", {{"$ref", "#/components/schemas/ErrorAnswer"}}}}}}}};
  return all;
}

Json operation(const RouteRow& row) {
  Json parameters = path_parameters(row);
  for (const Parameter& parameter : row.query)
    parameters.push_back({{"name", parameter.name},
                          {"in", "query"},
                          {"required", false},
                          {"description", parameter.description},
                          {"schema", {{"type", parameter.type}}}});
  Json out = {{"summary", row.summary}, {"parameters", parameters}, {"responses", responses(row)}};
  if (row.access == http::Access::open) out["security"] = Json::array();
  return out;
}

}  // namespace

std::string openapi(const std::vector<RouteRow>& routes, std::string_view version) {
  Json paths = Json::object();
  for (const RouteRow& row : routes)
    paths[row.path][lower(http::name(row.method))] = operation(row);
  const Json document = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Vetta"},
        {"version", std::string(version)},
        {"description",
         "What vettad knows of a Slurm cluster and its training jobs. Times are seconds since the "
         "epoch, spans seconds, sizes bytes, ratios 0 to 1; null is not known."},
        {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
      {"security", Json::array({Json{{"token", Json::array()}}})},
      {"paths", paths},
      {"components",
       {{"securitySchemes",
         {{"token",
           {{"type", "http"},
            {"scheme", "bearer"},
            {"description",
             "The content of vettad's token file; not needed on its unix socket, where the "
             "kernel tells who asks"}}}}},
        {"schemas", schemas()}}}};
  return document.dump(1) + "\n";
}

}  // namespace vetta::api
