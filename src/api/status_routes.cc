// SPDX-License-Identifier: Apache-2.0
// How vettad itself is: status, health, metrics.
#include <nlohmann/json.hpp>

#include "api/access.h"
#include "api/agents.h"
#include "api/answer.h"
#include "api/event_pump.h"
#include "api/metrics.h"
#include "api/route_table.h"

namespace vetta::api {
namespace {

using model::Json;

std::vector<std::string> unready(const Context& context) {
  std::vector<std::string> reasons;
  for (const auto& source : context.sources())
    if (source.name == "slurmctld" && source.knowledge != model::Knowledge::known)
      reasons.push_back(source.reason.empty() ? "slurmctld has not answered yet" : source.reason);
  if (const auto why = context.ingest.snapshot_unkept())
    reasons.push_back("the newest reading of Slurm could not be kept: " + why->text());
  const std::string cluster = context.cluster();
  if (cluster.empty()) {
    reasons.emplace_back("the cluster's name is not known yet");
    return reasons;
  }
  const auto kept = context.query.snapshot_time({.uid = {}, .is_operator = true}, cluster,
                                                records::Listing::jobs);
  if (!kept)
    reasons.push_back(kept.error().text());
  else if (!*kept)
    reasons.emplace_back("no reading of Slurm has been kept yet");
  return reasons;
}

Json http_json(const http::Meters& m) {
  return {{"connections", m.connections},
          {"connections_open", m.connections_open},
          {"connections_refused", m.connections_refused},
          {"requests", m.requests},
          {"responses_2xx", m.responses_2xx},
          {"responses_4xx", m.responses_4xx},
          {"responses_5xx", m.responses_5xx},
          {"bad_requests", m.bad_requests},
          {"too_large", m.too_large},
          {"timeouts", m.timeouts},
          {"denied", m.denied},
          {"streams_open", m.streams_open},
          {"streams_cut", m.streams_cut},
          {"agents_open", m.upgrades_open}};
}

Json ingest_json(const ingest::Meters& m) {
  return {{"snapshots", m.snapshots},
          {"batches", m.batches},
          {"batches_known", m.batches_known},
          {"errors", m.errors},
          {"attempts_new", m.taken.attempts_new},
          {"attempts_changed", m.taken.attempts_changed},
          {"events", m.taken.events},
          {"ranks_placed", m.taken.ranks_placed},
          {"ranks_unplaced", m.taken.ranks_unplaced},
          {"ranks_of_other_user", m.taken.ranks_of_other_user},
          {"ranks_off_node", m.taken.ranks_off_node},
          {"unplaced_dropped", m.taken.unplaced_dropped},
          {"events_dropped", m.taken.events_dropped},
          {"marks", m.taken.marks},
          {"duplicates", m.taken.duplicates},
          {"refused", m.taken.refused}};
}

Json status(const Context& context) {
  Json body = new_body();
  const std::string cluster = context.cluster();
  body["version"] = context.version;
  body["cluster"] = cluster.empty() ? Json(nullptr) : Json(cluster);
  body["started"] = static_cast<double>(epoch_nanoseconds(context.started)) / 1e9;
  const auto reasons = unready(context);
  body["is_ready"] = reasons.empty();
  body["reasons"] = reasons;
  body["sources"] = Json::array();
  for (const auto& source : context.sources()) body["sources"].push_back(model::to_json(source));
  body["load"] = model::to_json(context.load());
  body["agents_connected"] = context.agents.connected();
  body["agents_known"] = context.agents.list().size();
  const QueueView queue = context.agents.queue();
  body["queues"] = Json::array({Json{{"name", queue.name},
                                     {"depth", queue.depth},
                                     {"limit", queue.limit},
                                     {"drops", queue.drops}}});
  body["http"] = http_json(context.http_meters());
  body["ingest"] = ingest_json(context.ingest.meters());
  body["records_bytes"] = context.records_bytes();
  body["series_bytes"] = context.series_bytes();
  return body;
}

}  // namespace

void add_status_routes(std::vector<RouteRow>& rows, const Context& context) {
  rows.push_back({.path = "/api/v1/status",
                  .summary = "How vettad itself is: sources, queues, meters",
                  .query = {},
                  .answer = "Status",
                  .handler = [&context](const http::Request&) -> http::Answer {
                    return json_answer(status(context));
                  }});
  rows.push_back({.path = "/metrics",
                  .summary = "Figures of vettad in Prometheus' text format",
                  .query = {},
                  .answer = "",
                  .media = "text/plain",
                  .handler = [&context](const http::Request&) -> http::Answer {
                    return http::Response{.status = 200,
                                          .content_type = "text/plain; version=0.0.4",
                                          .body = metrics_text(context)};
                  }});
  rows.push_back({.path = "/healthz",
                  .summary = "The process answers",
                  .query = {},
                  .answer = "Health",
                  .access = http::Access::open,
                  .handler = [](const http::Request&) -> http::Answer {
                    Json body = new_body();
                    body["is_alive"] = true;
                    return json_answer(body);
                  }});
  rows.push_back({.path = "/readyz",
                  .summary = "200 if what the API tells is fresh, else 503 with the reasons",
                  .query = {},
                  .answer = "Ready",
                  .access = http::Access::open,
                  .handler = [&context](const http::Request&) -> http::Answer {
                    const auto reasons = unready(context);
                    Json body = new_body();
                    body["is_ready"] = reasons.empty();
                    body["reasons"] = reasons;
                    auto response = json_answer(body);
                    if (!reasons.empty()) response.status = 503;
                    return response;
                  }});
}

}  // namespace vetta::api
