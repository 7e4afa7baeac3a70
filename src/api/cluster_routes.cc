// SPDX-License-Identifier: Apache-2.0
// The cluster, its partitions and nodes.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "api/access.h"
#include "api/agents.h"
#include "api/answer.h"
#include "api/job_counts.h"
#include "api/route_table.h"
#include "core/text.h"

namespace vetta::api {
namespace {

using model::Json;

Json text(const std::string& value) {
  return value.empty() ? Json(nullptr) : Json(to_utf8(value));
}

Json agent_json(const AgentView& agent) {
  Json gaps = Json::array();
  for (const std::string& gap : agent.gaps) gaps.push_back(to_utf8(gap));
  return {{"node", to_utf8(agent.node)},
          {"is_connected", agent.is_connected},
          {"version", text(agent.version)},
          {"since", epoch(agent.since)},
          {"last_batch", epoch(agent.last_batch)},
          {"dropped_batches", agent.dropped_batches},
          {"is_root", agent.is_root ? Json(*agent.is_root) : Json(nullptr)},
          {"gaps", gaps}};
}

Json node_json(const Context& context, const records::Known<model::Node>& node) {
  Json out = model::to_json(node.value);
  out["as_of"] = epoch(node.as_of);
  const auto agent = context.agents.find(node.value.name);
  out["agent"] = agent ? agent_json(*agent) : Json(nullptr);
  return out;
}

Json partition_json(const records::Known<model::Partition>& partition) {
  Json out = model::to_json(partition.value);
  out["as_of"] = epoch(partition.as_of);
  return out;
}

/// A sum that is known only when each part is.
struct Sum {
  std::optional<std::uint64_t> value = 0;

  template <typename T>
  void add(const std::optional<T>& part) {
    if (!part)
      value.reset();
    else if (value)
      *value += *part;
  }

  [[nodiscard]] Json json() const { return value ? Json(*value) : Json(nullptr); }
};

Json use(const Sum& total, const Sum& allocated) {
  return {{"total", total.json()}, {"allocated", allocated.json()}};
}

void add_use(Json& body, const std::vector<records::Known<model::Node>>& nodes) {
  Sum cpus, cpus_allocated, memory, memory_allocated, gpus, gpus_allocated;
  std::map<std::string, std::uint64_t> states;
  std::uint64_t usable = 0;
  for (const auto& [node, as_of] : nodes) {
    ++states[node.states.empty() ? "UNKNOWN" : node.states.front()];
    usable += model::is_usable(node) ? 1 : 0;
    cpus.add(node.cpus);
    cpus_allocated.add(node.cpus_allocated);
    memory.add(node.memory_bytes);
    memory_allocated.add(node.memory_allocated_bytes);
    for (const model::Gres& gres : node.gres) {
      if (gres.name != "gpu") continue;
      gpus.add(std::optional(gres.total));
      gpus_allocated.add(gres.allocated);
    }
  }
  Json counts = Json::array();
  for (const auto& [state, count] : states)
    counts.push_back({{"state", to_utf8(state)}, {"nodes", count}});
  body["nodes"] = {{"total", nodes.size()}, {"usable", usable}, {"states", counts}};
  body["cpus"] = use(cpus, cpus_allocated);
  body["memory_bytes"] = use(memory, memory_allocated);
  body["gpus"] = use(gpus, gpus_allocated);
}

/// Of the oldest listing: an answer made of all three is no fresher. Empty while one is not told.
Result<std::optional<Time>> oldest_time(const Context& context, const model::Viewer& viewer,
                                        const std::string& cluster) {
  std::optional<Time> oldest;
  for (const auto listing :
       {records::Listing::jobs, records::Listing::nodes, records::Listing::partitions}) {
    const auto time = VETTA_TRY(context.query.snapshot_time(viewer, cluster, listing));
    if (!time) return time;
    oldest = std::min(oldest.value_or(*time), *time);
  }
  return oldest;
}

Result<Json> show_cluster(const Context& context, const http::Request& request) {
  const auto viewer = viewer_of(request.identity);
  const std::string cluster = context.cluster();
  Json body = new_body();
  body["cluster"] = cluster;
  body["as_of"] = epoch(VETTA_TRY(oldest_time(context, viewer, cluster)));
  add_use(body, VETTA_TRY(context.query.nodes(viewer, cluster)));
  query::JobsRequest jobs;
  jobs.filter.cluster = cluster;
  jobs.filter.active_only = true;
  jobs.limit = 1;
  const auto counts =
      VETTA_TRY(context.job_counts.jobs(context.query, context.ingest, viewer, jobs)).counts;
  Json states = Json::array();
  for (const auto& count : counts.states)
    states.push_back({{"state", std::string(model::name(count.state))}, {"jobs", count.jobs}});
  body["jobs"] = {{"states", states}, {"total", counts.total}, {"is_capped", counts.is_capped}};
  body["partitions"] = Json::array();
  for (const auto& partition : VETTA_TRY(context.query.partitions(viewer, cluster)))
    body["partitions"].push_back(partition_json(partition));
  body["agents"] = Json::array();
  for (const auto& agent : context.agents.list()) body["agents"].push_back(agent_json(agent));
  body["sources"] = Json::array();
  for (const auto& source : context.sources()) body["sources"].push_back(model::to_json(source));
  body["load"] = model::to_json(context.load());
  return body;
}

Result<Json> list_partitions(const Context& context, const http::Request& request) {
  const auto viewer = viewer_of(request.identity);
  const std::string cluster = context.cluster();
  Json body = new_body();
  body["cluster"] = cluster;
  body["as_of"] =
      epoch(VETTA_TRY(context.query.snapshot_time(viewer, cluster, records::Listing::partitions)));
  body["partitions"] = Json::array();
  for (const auto& partition : VETTA_TRY(context.query.partitions(viewer, cluster)))
    body["partitions"].push_back(partition_json(partition));
  return body;
}

bool holds(const std::vector<std::string>& wanted, const std::vector<std::string>& have) {
  if (wanted.empty()) return true;
  return std::ranges::any_of(
      wanted, [&](const std::string& w) { return std::ranges::find(have, w) != have.end(); });
}

Result<Json> list_nodes(const Context& context, const http::Request& request) {
  const auto viewer = viewer_of(request.identity);
  const std::string cluster = context.cluster();
  const auto states = list_of(request, "state");
  const auto partitions = list_of(request, "partition");
  const bool unusable = VETTA_TRY(flag_of(request, "unusable"));
  Json body = new_body();
  body["cluster"] = cluster;
  body["as_of"] =
      epoch(VETTA_TRY(context.query.snapshot_time(viewer, cluster, records::Listing::nodes)));
  body["nodes"] = Json::array();
  for (const auto& node : VETTA_TRY(context.query.nodes(viewer, cluster)))
    if (holds(states, node.value.states) && holds(partitions, node.value.partitions) &&
        (!unusable || !model::is_usable(node.value)))
      body["nodes"].push_back(node_json(context, node));
  return body;
}

Result<Json> show_node(const Context& context, const http::Request& request) {
  const auto viewer = viewer_of(request.identity);
  const std::string cluster = context.cluster();
  const std::string name(request.parameter("name"));
  const auto nodes = VETTA_TRY(context.query.nodes(viewer, cluster));
  const auto found =
      std::ranges::find_if(nodes, [&](const auto& node) { return node.value.name == name; });
  if (found == nodes.end())
    return fail(Code::not_found,
                "there is no node " + one_line(name, 60) + " in cluster " + cluster,
                "vetta node list shows those that Slurm knows");
  Json body = new_body();
  body["node"] = node_json(context, *found);
  body["jobs"] = Json::array();
  const auto jobs = VETTA_TRY(context.query.node_jobs(viewer, cluster, name));
  for (std::size_t i = 0; i < jobs.size() && i < 20; ++i)
    body["jobs"].push_back(api::to_json(jobs[i]));
  Json latest = Json::object();
  for (const char* metric : {"load_1m", "memory_available_bytes", "memory_total_bytes",
                             "pressure_cpu", "pressure_memory", "pressure_io"})
    for (const auto& value : context.query.node_latest(viewer, cluster, metric))
      if (value.key.entity == "node:" + name)
        latest[metric] = {{"time", epoch(value.point.time)}, {"value", value.point.value}};
  body["latest"] = latest;
  return body;
}

/// Refuses while the cluster\'s name is not known.
template <typename Function>
http::Handler named_handler(const Context& context, Function function) {
  return [&context, function](const http::Request& request) -> http::Answer {
    if (context.cluster().empty())
      return http::error_response(
          fail(Code::unavailable, "the cluster's name is not known yet: Slurm has not answered",
               "vettad --check says why; --cluster NAME sets the name by hand")
              .error());
    return answer(function(context, request));
  };
}

}  // namespace

void add_cluster_routes(std::vector<RouteRow>& rows, const Context& context) {
  rows.push_back({.path = "/api/v1/cluster",
                  .summary = "The cluster: what there is, what is in use, who answers",
                  .query = {},
                  .answer = "Cluster",
                  .handler = named_handler(context, show_cluster)});
  rows.push_back({.path = "/api/v1/partitions",
                  .summary = "The partitions",
                  .query = {},
                  .answer = "PartitionList",
                  .handler = named_handler(context, list_partitions)});
  rows.push_back({.path = "/api/v1/nodes",
                  .summary = "The nodes",
                  .query = {{"state", "string", "Slurm's words, any of them, as in DOWN,DRAIN"},
                            {"partition", "string", "Partitions, separated by commas"},
                            {"unusable", "boolean", "Only nodes that cannot run work now"}},
                  .answer = "NodeList",
                  .handler = named_handler(context, list_nodes)});
  rows.push_back({.path = "/api/v1/nodes/{name}",
                  .summary = "A node, its last 20 jobs and its latest samples",
                  .query = {},
                  .answer = "NodeDetail",
                  .handler = named_handler(context, show_node)});
}

}  // namespace vetta::api
