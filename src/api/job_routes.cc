// SPDX-License-Identifier: Apache-2.0
// Jobs: lists, one job, its ranks, steps and samples, and the request for burst sampling.
#include <nlohmann/json.hpp>
#include <set>

#include "api/access.h"
#include "api/agents.h"
#include "api/answer.h"
#include "api/job_counts.h"
#include "api/route_table.h"
#include "core/text.h"

namespace vetta::api {
namespace {

using model::Json;

constexpr std::uint64_t steps_last_max = 100'000;
constexpr Duration burst_max = std::chrono::minutes(5);

Json rank_number(std::int32_t rank) {
  return rank < 0 ? Json(nullptr) : Json(rank);
}

Json key_of(const records::AttemptRow& row) {
  return {{"cluster", to_utf8(row.attempt.key.cluster)},
          {"job_id", row.attempt.key.job_id},
          {"submit", epoch(row.attempt.key.submit)}};
}

Json list_json(const std::vector<records::AttemptRow>& rows) {
  Json list = Json::array();
  for (const auto& row : rows) list.push_back(to_json(row));
  return list;
}

Json counts_json(const records::JobCounts& counts) {
  Json states = Json::array();
  for (const auto& count : counts.states)
    states.push_back({{"state", std::string(model::name(count.state))}, {"jobs", count.jobs}});
  return {{"states", states}, {"total", counts.total}, {"is_capped", counts.is_capped}};
}

Result<std::vector<model::JobState>> states_of(const http::Request& request) {
  std::vector<model::JobState> states;
  for (const std::string& word : list_of(request, "state")) {
    states.push_back(model::parse_job_state(word));
    if (states.back() == model::JobState::unknown)
      return fail(Code::invalid, "'" + one_line(word, 40) + "' is no state of a job",
                  "use Slurm's words or letters: RUNNING or R, PENDING or PD, FAILED or F, …");
  }
  return states;
}

Result<query::JobsRequest> jobs_request(const http::Request& request, std::string cluster) {
  query::JobsRequest wanted;
  wanted.filter.cluster = std::move(cluster);
  wanted.filter.users = list_of(request, "user");
  wanted.filter.accounts = list_of(request, "account");
  wanted.filter.partitions = list_of(request, "partition");
  wanted.filter.states = VETTA_TRY(states_of(request));
  wanted.filter.name_contains = request.query_value("name").value_or("");
  wanted.filter.node = request.query_value("node").value_or("");
  wanted.filter.array_job_id = VETTA_TRY(integer_of(request, "array_job_id", UINT32_MAX));
  wanted.filter.from = VETTA_TRY(time_of(request, "since"));
  wanted.filter.to = VETTA_TRY(time_of(request, "until"));
  wanted.filter.active_only = VETTA_TRY(flag_of(request, "active"));
  wanted.filter.all_attempts = VETTA_TRY(flag_of(request, "all_attempts"));
  wanted.cursor = request.query_value("cursor").value_or("");
  wanted.limit = static_cast<std::size_t>(
      VETTA_TRY(integer_of(request, "limit", 1000)).value_or(wanted.limit));
  if (wanted.limit == 0) return fail(Code::invalid, "limit=0 asks for nothing");
  return wanted;
}

Result<Json> list_jobs(const Context& context, const http::Request& request) {
  const auto viewer = viewer_of(request.identity);
  const std::string cluster = context.cluster();
  const auto wanted = VETTA_TRY(jobs_request(request, cluster));
  const auto found =
      VETTA_TRY(context.job_counts.jobs(context.query, context.ingest, viewer, wanted));
  Json body = new_body();
  body["as_of"] =
      epoch(VETTA_TRY(context.query.snapshot_time(viewer, cluster, records::Listing::jobs)));
  body["jobs"] = list_json(found.jobs);
  body["next"] = found.next.empty() ? Json(nullptr) : Json(found.next);
  body["counts"] = counts_json(found.counts);
  return body;
}

Result<Json> show_job(const Context& context, const http::Request& request) {
  const auto viewer = viewer_of(request.identity);
  const auto id = VETTA_TRY(query::parse_job_id(request.parameter("id")));
  const auto row = VETTA_TRY(context.query.job(viewer, id));
  Json body = new_body();
  body["job"] = to_json(row);
  body["attempts"] = list_json(VETTA_TRY(context.query.attempts(viewer, id)));
  std::set<std::string> nodes;
  body["allocations"] = Json::array();
  for (const auto& allocation : VETTA_TRY(context.query.allocations(viewer, row.id))) {
    body["allocations"].push_back(model::to_json(allocation));
    nodes.insert(allocation.node);
  }
  body["slurm_steps"] = Json::array();
  for (const auto& step : VETTA_TRY(context.query.steps(viewer, row.id)))
    body["slurm_steps"].push_back(model::to_json(step));
  body["incarnations"] = Json::array();
  for (const auto& incarnation : VETTA_TRY(context.query.incarnations(viewer, row.id)))
    body["incarnations"].push_back({{"number", incarnation.number},
                                    {"step_id", incarnation.step_id},
                                    {"elastic_restart", incarnation.elastic_restart},
                                    {"start", epoch(incarnation.start)},
                                    {"end", epoch(incarnation.end)},
                                    {"ranks", incarnation.ranks},
                                    {"world_size", rank_number(incarnation.world_size)}});
  const auto info = VETTA_TRY(context.query.marks_info(viewer, row.id));
  body["marks"] = info ? Json{{"bytes", info->bytes},
                              {"marks", info->marks},
                              {"samples", info->samples},
                              {"refused", info->refused},
                              {"is_sealed", info->is_sealed}}
                       : Json(nullptr);
  body["agents"] = Json::array();
  for (const std::string& node : nodes) {
    const auto agent = context.agents.find(node);
    body["agents"].push_back({{"node", node}, {"is_connected", agent && agent->is_connected}});
  }
  return body;
}

Result<Json> list_ranks(const Context& context, const http::Request& request) {
  const auto row = VETTA_TRY(job_of(context.query, request));
  const auto incarnation = VETTA_TRY(integer_of(request, "incarnation", UINT32_MAX));
  Json body = new_body();
  body["job"] = key_of(row);
  body["ranks"] = Json::array();
  std::optional<std::uint32_t> which;
  if (incarnation) which = static_cast<std::uint32_t>(*incarnation);
  for (const auto& rank :
       VETTA_TRY(context.query.ranks(viewer_of(request.identity), row.id, which))) {
    body["ranks"].push_back(model::to_json(rank.rank));
    body["ranks"].back()["overwritten"] = rank.overwritten;
  }
  return body;
}

Result<Json> list_steps(const Context& context, const http::Request& request) {
  const auto row = VETTA_TRY(job_of(context.query, request));
  const auto incarnation = VETTA_TRY(integer_of(request, "incarnation", UINT32_MAX));
  const auto last = VETTA_TRY(integer_of(request, "last", steps_last_max)).value_or(100);
  std::optional<std::uint32_t> which;
  if (incarnation) which = static_cast<std::uint32_t>(*incarnation);
  const auto table = VETTA_TRY(context.query.step_table(viewer_of(request.identity), row.id, which,
                                                        static_cast<std::size_t>(last)));
  Json body = new_body();
  body["job"] = key_of(row);
  body["incarnation"] = table.incarnation;
  body["world_size"] = rank_number(table.world_size);
  body["ranks"] = Json::array();
  for (const auto& rank : table.ranks) {
    Json marks = Json::array();
    for (const auto& mark : rank.marks) marks.push_back(model::to_json(mark));
    body["ranks"].push_back({{"rank", rank_number(rank.rank)},
                             {"node", rank.node.empty() ? Json(nullptr) : Json(to_utf8(rank.node))},
                             {"end", epoch(rank.end)},
                             {"marks", std::move(marks)}});
  }
  return body;
}

Result<Json> list_samples(const Context& context, const http::Request& request) {
  const auto row = VETTA_TRY(job_of(context.query, request));
  series::ScanFilter filter;
  filter.from = VETTA_TRY(time_of(request, "since"));
  filter.to = VETTA_TRY(time_of(request, "until"));
  if (const auto rank = VETTA_TRY(integer_of(request, "rank", INT32_MAX)))
    filter.rank = static_cast<std::int32_t>(*rank);
  if (const auto number = VETTA_TRY(integer_of(request, "incarnation", UINT32_MAX)))
    filter.incarnation = static_cast<std::uint32_t>(*number);
  Json body = new_body();
  body["job"] = key_of(row);
  body["ranks"] = Json::array();
  for (const auto& one :
       VETTA_TRY(context.query.rank_samples(viewer_of(request.identity), row.id, filter))) {
    Json samples = Json::array();
    for (const auto& sample : one.samples) samples.push_back(model::to_json(sample));
    body["ranks"].push_back({{"rank_id", std::to_string(one.rank.rank_id)},
                             {"rank", rank_number(one.rank.rank)},
                             {"incarnation", one.rank.incarnation},
                             {"samples", std::move(samples)}});
  }
  return body;
}

Result<Json> ask_burst(const Context& context, const http::Request& request) {
  const auto viewer = viewer_of(request.identity);
  const auto row = VETTA_TRY(job_of(context.query, request));
  if (model::is_final(row.attempt.state))
    return fail(Code::conflict, "job " + std::to_string(row.attempt.key.job_id) + " has ended (" +
                                    std::string(model::name(row.attempt.state)) +
                                    "): there is nothing to sample any more");
  const auto span =
      VETTA_TRY(integer_of(request, "seconds", static_cast<std::uint64_t>(seconds(burst_max))));
  std::set<std::string> nodes;
  for (const auto& allocation : VETTA_TRY(context.query.allocations(viewer, row.id)))
    nodes.insert(allocation.node);
  const Time until = now() + std::chrono::seconds(span.value_or(30));
  context.agents.keep_burst(row.attempt.key.job_id, nodes, until);
  Json body = new_body();
  body["job"] = key_of(row);
  body["until"] = epoch(until);
  return body;
}

template <typename Function>
http::Handler handler(const Context& context, Function function) {
  return [&context, function](const http::Request& request) -> http::Answer {
    return answer(function(context, request));
  };
}

}  // namespace

void add_job_routes(std::vector<RouteRow>& rows, const Context& context) {
  const Parameter incarnation{"incarnation", "integer",
                              "A start of the ranks within the attempt; the newest without it"};
  rows.push_back(
      {.path = "/api/v1/jobs",
       .summary = "Jobs, newest first",
       .query = {{"user", "string", "Users, separated by commas"},
                 {"account", "string", "Accounts, separated by commas"},
                 {"partition", "string", "Partitions, separated by commas"},
                 {"state", "string", "Slurm's words or letters, separated by commas"},
                 {"name", "string", "A part of the job's name, in small or large letters"},
                 {"node", "string", "Jobs that hold or held this node"},
                 {"array_job_id", "integer", "The tasks of this array"},
                 {"since", "number", "Jobs that lived after this time, seconds since the epoch"},
                 {"until", "number", "Jobs that lived before this time, seconds since the epoch"},
                 {"active", "boolean", "Only jobs that wait or run"},
                 {"all_attempts", "boolean", "Also attempts that a requeue has superseded"},
                 {"cursor", "string", "`next` of the page before"},
                 {"limit", "integer", "Jobs on a page, at most 1000 (100)"}},
       .answer = "JobList",
       .handler = handler(context, list_jobs)});
  rows.push_back({.path = "/api/v1/jobs/{id}",
                  .summary = "A job: its attempts, allocations, Slurm steps and incarnations",
                  .query = {},
                  .answer = "JobDetail",
                  .handler = handler(context, show_job)});
  rows.push_back({.path = "/api/v1/jobs/{id}/ranks",
                  .summary = "The ranks of a job",
                  .query = {{"incarnation", "integer", "One start of the ranks; all without it"}},
                  .answer = "RankList",
                  .handler = handler(context, list_ranks)});
  rows.push_back({.path = "/api/v1/jobs/{id}/steps",
                  .summary = "The training steps of a job, rank by rank",
                  .query = {incarnation, {"last", "integer", "The last steps of each rank (100)"}},
                  .answer = "StepTable",
                  .handler = handler(context, list_steps)});
  rows.push_back({.path = "/api/v1/jobs/{id}/samples",
                  .summary = "What the ranks of a job used",
                  .query = {{"incarnation", "integer", "One start of the ranks; all without it"},
                            {"rank", "integer", "One rank"},
                            {"since", "number", "Samples from this time on"},
                            {"until", "number", "Samples before this time"}},
                  .answer = "SampleList",
                  .handler = handler(context, list_samples)});
  rows.push_back({.method = http::Method::post,
                  .path = "/api/v1/jobs/{id}/burst",
                  .summary = "Asks the job's agents for marks and samples every second",
                  .query = {{"seconds", "integer", "For how long, at most 300 (30)"}},
                  .answer = "Burst",
                  .handler = handler(context, ask_burst)});
}

}  // namespace vetta::api
