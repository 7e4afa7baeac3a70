// SPDX-License-Identifier: Apache-2.0
// Events as a list and as a stream, and the connection of agents.
#include <nlohmann/json.hpp>

#include "api/access.h"
#include "api/agents.h"
#include "api/answer.h"
#include "api/event_pump.h"
#include "api/route_table.h"
#include "core/text.h"

namespace vetta::api {
namespace {

using model::Json;

Result<std::vector<model::EventKind>> kinds_of(const http::Request& request) {
  std::vector<model::EventKind> kinds;
  for (const std::string& word : list_of(request, "kind")) {
    const auto kind = model::parse_event_kind(word);
    if (!kind)
      return fail(Code::invalid, "'" + one_line(word, 40) + "' is no kind of event",
                  "kinds are job_state, node_state, rank_start, rank_exit, exception, oom_kill, "
                  "signal, hang, gap, agent_lost, agent_back, source_lost, source_back");
    kinds.push_back(*kind);
  }
  return kinds;
}

Result<std::optional<records::AttemptRow>> job_filter(const Context& context,
                                                      const http::Request& request) {
  const auto text = request.query_value("job");
  if (!text) return std::nullopt;
  const auto id = VETTA_TRY(query::parse_job_id(*text));
  return VETTA_TRY(context.query.job(viewer_of(request.identity), id));
}

Result<Json> list_events(const Context& context, const http::Request& request) {
  records::EventFilter filter;
  filter.after_id = VETTA_TRY(integer_of(request, "after", INT64_MAX)).value_or(0);
  filter.kinds = VETTA_TRY(kinds_of(request));
  filter.node = request.query_value("node").value_or("");
  filter.from = VETTA_TRY(time_of(request, "since"));
  filter.to = VETTA_TRY(time_of(request, "until"));
  filter.newest_first = VETTA_TRY(flag_of(request, "newest_first"));
  filter.limit = static_cast<std::size_t>(
      VETTA_TRY(integer_of(request, "limit", 10'000)).value_or(filter.limit));
  if (const auto job = VETTA_TRY(job_filter(context, request))) filter.attempt = job->id;
  Json body = new_body();
  body["events"] = Json::array();
  std::uint64_t last = filter.after_id;
  for (const auto& event : VETTA_TRY(context.query.events(viewer_of(request.identity), filter))) {
    body["events"].push_back(model::to_json(event));
    last = std::max(last, event.id);
  }
  body["last_id"] = last;
  return body;
}

Result<std::shared_ptr<http::EventStream>> open_stream(const Context& context,
                                                       const http::Request& request) {
  StreamRequest wanted;
  wanted.viewer = viewer_of(request.identity);
  wanted.kinds = VETTA_TRY(kinds_of(request));
  wanted.node = request.query_value("node").value_or("");
  wanted.after_id = VETTA_TRY(integer_of(request, "after", INT64_MAX));
  if (const auto last = request.header("last-event-id")) {
    const auto id = parse_uint(*last);
    if (!id || *id > INT64_MAX)
      return fail(Code::invalid, "Last-Event-ID is not an event's id",
                  "send the id of the last event that came, or nothing");
    wanted.after_id = *id;
  }
  wanted.job = VETTA_TRY(job_filter(context, request));
  if (wanted.job)
    for (const auto& allocation :
         VETTA_TRY(context.query.allocations(wanted.viewer, wanted.job->id)))
      wanted.job_nodes.insert(allocation.node);
  return context.events.open(std::move(wanted));
}

/// Agents are the machine's own: root, the server's user, or who holds the token.
http::Answer connect_agent(const Context& context, const http::Request& request) {
  if (!request.identity.is_operator)
    return http::error_response(fail(Code::denied,
                                     "agents are run by root, by vettad's user, or with the token",
                                     "start the agent with --token-file FILE, or as vettad's user")
                                    .error());
  if (request.header("upgrade").value_or("") != model::agent_upgrade) {
    http::Response response = http::error_response(
        fail(Code::invalid,
             "this address speaks " + std::string(model::agent_upgrade) + " after an upgrade",
             "agent and vettad must be of the same version or one apart")
            .error(),
        426);
    response.headers.emplace_back("Upgrade", std::string(model::agent_upgrade));
    return response;
  }
  return context.agents.connect();
}

}  // namespace

void add_event_routes(std::vector<RouteRow>& rows, const Context& context) {
  const Parameter job{"job", "string", "Events of this job"};
  const Parameter kind{"kind", "string", "Kinds, separated by commas"};
  const Parameter node{"node", "string", "Events of this node"};
  rows.push_back({.path = "/api/v1/events",
                  .summary = "Events in order of arrival",
                  .query = {job,
                            kind,
                            node,
                            {"after", "integer", "Only events with a larger id"},
                            {"since", "number", "Events that happened at this time or later"},
                            {"until", "number", "Events that happened before this time"},
                            {"newest_first", "boolean", "The other way round"},
                            {"limit", "integer", "At most 10000 (1000)"}},
                  .answer = "EventList",
                  .handler = [&context](const http::Request& request) {
                    return answer(list_events(context, request));
                  }});
  rows.push_back(
      {.path = "/api/v1/events/stream",
       .summary = "Events as they come, as server-sent events; resumes by Last-Event-ID. While a "
                  "stream with job= is open, that job is sampled every second",
       .query = {job, kind, node, {"after", "integer", "First those with a larger id"}},
       .answer = "",
       .media = "text/event-stream",
       .handler = [&context](const http::Request& request) -> http::Answer {
         auto stream = open_stream(context, request);
         if (!stream) return http::error_response(stream.error());
         return http::Streaming{std::move(*stream)};
       }});
  rows.push_back({.path = std::string(model::agent_path),
                  .summary = "The connection of an agent (docs/internals/agent-protocol.md)",
                  .query = {},
                  .answer = "",
                  .media = "application/octet-stream",
                  .handler = [&context](const http::Request& request) {
                    return connect_agent(context, request);
                  }});
}

}  // namespace vetta::api
