// SPDX-License-Identifier: Apache-2.0
#include "api/schema.h"

#include <array>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace vetta::api {
namespace {

using model::Json;

struct Row {
  std::string_view name;
  std::string_view description;
  /// "field:type …": string, integer, number, boolean, object, any, or a schema's name; ? may be
  /// null, [] a list.
  std::string_view fields;
};

constexpr std::array rows = {
    Row{"Error", "What went wrong and what to try", "code:string message:string hint:string"},
    Row{"ErrorAnswer", "The answer of every refused or failed request", "error:Error"},
    Row{"AttemptKey", "Names one attempt of a job for ever",
        "cluster:string job_id:integer submit:number"},
    Row{"Array", "A job array", "job_id:integer task_id:integer? tasks:string?"},
    Row{"Het", "A heterogeneous job", "job_id:integer offset:integer"},
    Row{"Span", "A half-open span of time", "start:number end:number?"},
    Row{"Job",
        "One attempt of a job. Times are seconds since the epoch, spans seconds, sizes bytes; null "
        "is not known. `attempt` counts a job's tries from 1, `gap` says why its end is not known",
        "cluster:string job_id:integer submit:number id:string array:Array? het:Het? "
        "restart:integer sluid:string? state:string state_text:string? reason:string? user:string? "
        "uid:integer? account:string? partition:string? qos:string? name:string? "
        "experiment:string? eligible:number? start:number? end:number? expected_start:number? "
        "suspended:Span[] suspended_total:number? time_limit:number? nodes:string? "
        "node_count:integer? cpus:integer? tasks:integer? memory_bytes:integer? gpus:integer? "
        "tres:string? exit_code:integer? exit_signal:integer? derived_exit_code:integer? "
        "derived_exit_signal:integer? work_dir:string? command:string? std_out:string? "
        "std_err:string? comment:string? dependency:string? priority:integer? "
        "preempted_by:integer? attempt:integer is_superseded:boolean state_source:string "
        "as_of:number gap:string?"},
    Row{"StateCount", "Jobs in one state", "state:string jobs:integer"},
    Row{"JobCounts", "Over the whole filter; capped: there are more",
        "states:StateCount[] total:integer is_capped:boolean"},
    Row{"JobList", "Newest submit first; `next` is the cursor of the next page",
        "schema:integer as_of:number? jobs:Job[] next:string? counts:JobCounts"},
    Row{"Allocation", "What the attempt held on a node",
        "node:string start:number end:number? cpus:integer? memory_bytes:integer? cpu_ids:string? "
        "devices:string[]"},
    Row{"SlurmStep", "A step in accounting",
        "step_id:string name:string? state:string start:number? end:number? exit_code:integer? "
        "exit_signal:integer? nodes:string? tasks:integer? max_rss_bytes:integer? "
        "cpu_time:number?"},
    Row{"Incarnation", "A start of the ranks within the attempt",
        "number:integer step_id:string elastic_restart:integer start:number end:number? "
        "ranks:integer world_size:integer?"},
    Row{"MarksInfo", "The attempt's file of marks; refused: beyond its cap",
        "bytes:integer marks:integer samples:integer refused:integer is_sealed:boolean"},
    Row{"JobDetail", "A job, the attempt that was asked for first",
        "schema:integer job:Job attempts:Job[] allocations:Allocation[] slurm_steps:SlurmStep[] "
        "incarnations:Incarnation[] marks:MarksInfo? agents:JobAgent[]"},
    Row{"JobAgent", "Whether the agent of one of the job's nodes is connected",
        "node:string is_connected:boolean"},
    Row{"Rank", "A registered rank; overwritten: marks lost because its ring was full",
        "rank_id:string rank:integer? local_rank:integer? world_size:integer? task:integer? "
        "job_id:integer step_id:string incarnation:integer slurm_restart:integer "
        "elastic_restart:integer node:string uid:integer pid:integer? devices:string? "
        "source:string is_probed:boolean start:number end:number? exit_code:integer? "
        "exit_signal:integer? overwritten:integer"},
    Row{"RankList", "The ranks of a job, by incarnation and rank",
        "schema:integer job:AttemptKey ranks:Rank[]"},
    Row{"Phases", "Seconds by phase; null is not measured",
        "data:number? forward:number? backward:number? optimizer:number? allreduce:number?"},
    Row{"Mark", "One training step of one rank",
        "sequence:integer step:integer start:number duration:number phases:Phases samples:number? "
        "loss:number? source:string"},
    Row{"RankSteps", "The steps of one rank",
        "rank:integer? node:string? end:number? marks:Mark[]"},
    Row{"StepTable", "The training steps of one incarnation, rank by rank",
        "schema:integer job:AttemptKey incarnation:integer world_size:integer? ranks:RankSteps[]"},
    Row{"RankSample", "Counters of one rank's processes since its start",
        "time:number cpu_seconds:number? rss_bytes:integer? minor_faults:integer? "
        "major_faults:integer? read_bytes:integer? write_bytes:integer? "
        "voluntary_switches:integer? involuntary_switches:integer? threads:integer? "
        "processes:integer? gap:string?"},
    Row{"RankSampleSeries", "The samples of one rank",
        "rank_id:string rank:integer? incarnation:integer samples:RankSample[]"},
    Row{"SampleList", "What the ranks of a job used",
        "schema:integer job:AttemptKey ranks:RankSampleSeries[]"},
    Row{"RankSlowdown", "One rank against its peers' median",
        "rank:integer node:string? own:number phases:any share_last:number"},
    Row{"Diagnosis", "Which rank holds the others, and what it costs",
        "outcome:string reason:string? rank:integer? node:string? phase:string? cause:string "
        "lost_share:number lost_time:number lost_rank_time:number persistence:number "
        "confidence:number since_step:integer? steps:integer median_step:number "
        "ranks:RankSlowdown[] evidence:string[]"},
    Row{"DiagnosisAnswer", "The diagnosis of one incarnation",
        "schema:integer job:AttemptKey state:string incarnation:integer diagnosis:Diagnosis"},
    Row{"Event", "Something that happened; ids rise by order of arrival",
        "id:integer time:number kind:string attempt:AttemptKey? node:string? rank:integer? "
        "exit_code:integer? exit_signal:integer? message:string? detail:string? source:string?"},
    Row{"EventList",
        "`last_id` goes on from here with after=", "schema:integer events:Event[] last_id:integer"},
    Row{"Loss", "Time lost", "what:string time:number note:string?"},
    Row{"Why", "My code, my data, or your machine?",
        "answer:string headline:string first:Event? evidence:string[] lost:Loss[] advice:string[] "
        "diagnosis:Diagnosis? unknown:string[]"},
    Row{"WhyAnswer", "The explanation of one attempt", "schema:integer job:Job why:Why"},
    Row{"Gres", "Generic resources of a node",
        "name:string type:string? total:integer allocated:integer? allocated_indices:integer[]"},
    Row{"Node", "A node as Slurm last told it; `agent` is Vetta's own view of it",
        "name:string address:string? host_name:string? states:string[] is_usable:boolean "
        "reason:string? reason_user:string? reason_since:number? boot:number? last_busy:number? "
        "partitions:string[] cpus:integer? cpus_allocated:integer? memory_bytes:integer? "
        "memory_allocated_bytes:integer? memory_free_bytes:integer? load:number? gres:Gres[] "
        "features:string? version:string? architecture:string? operating_system:string? "
        "as_of:number agent:Agent?"},
    Row{"Agent", "An agent that is or was connected; gaps: what it cannot see, and why",
        "node:string is_connected:boolean version:string? since:number? last_batch:number? "
        "dropped_batches:integer is_root:boolean? gaps:string[]"},
    Row{"NodeList", "The nodes of the cluster",
        "schema:integer cluster:string as_of:number? nodes:Node[]"},
    Row{"NodeDetail", "A node, its recent jobs and its latest samples",
        "schema:integer node:Node jobs:Job[] latest:any"},
    Row{"Partition", "A partition as Slurm last told it",
        "name:string is_default:boolean state:string? nodes:string? node_count:integer? "
        "cpus:integer? priority_tier:integer? time_limit:number? preempt_mode:string? "
        "gpus:integer? as_of:number"},
    Row{"PartitionList", "The partitions of the cluster",
        "schema:integer cluster:string as_of:number? partitions:Partition[]"},
    Row{"Source", "A source of knowledge and how it stands",
        "name:string knowledge:string reason:string? last_success:number?"},
    Row{"Use", "How much there is and is in use; null: not known for all",
        "total:integer? allocated:integer?"},
    Row{"NodeStateCount", "Nodes in one state", "state:string nodes:integer"},
    Row{"NodeUse", "Nodes by Slurm's state",
        "total:integer usable:integer states:NodeStateCount[]"},
    Row{"ControllerLoad", "What slurmctld has to do, and Vetta's part in it",
        "rpcs_per_minute_all:number? rpcs_per_minute_vetta:number server_threads:integer? "
        "agent_queue:integer? poll_period:number"},
    Row{"Cluster", "The cluster in one object",
        "schema:integer cluster:string as_of:number? nodes:NodeUse cpus:Use memory_bytes:Use "
        "gpus:Use jobs:JobCounts partitions:Partition[] agents:Agent[] sources:Source[] "
        "load:ControllerLoad"},
    Row{"Queue", "A bounded queue", "name:string depth:integer limit:integer drops:integer"},
    Row{"HttpMeters", "Counts of the server since its start",
        "connections:integer connections_open:integer connections_refused:integer "
        "requests:integer responses_2xx:integer responses_4xx:integer responses_5xx:integer "
        "bad_requests:integer too_large:integer timeouts:integer denied:integer "
        "streams_open:integer streams_cut:integer agents_open:integer"},
    Row{"IngestMeters", "What came in since the start",
        "snapshots:integer batches:integer batches_known:integer errors:integer "
        "attempts_new:integer attempts_changed:integer events:integer ranks_placed:integer "
        "ranks_unplaced:integer ranks_of_other_user:integer ranks_off_node:integer "
        "unplaced_dropped:integer events_dropped:integer "
        "marks:integer duplicates:integer refused:integer"},
    Row{"Status", "How vettad itself is",
        "schema:integer version:string cluster:string? started:number is_ready:boolean "
        "reasons:string[] "
        "sources:Source[] load:ControllerLoad agents_connected:integer agents_known:integer "
        "queues:Queue[] http:HttpMeters ingest:IngestMeters records_bytes:integer "
        "series_bytes:integer"},
    Row{"Burst", "Samples and marks of this job come every second until then",
        "schema:integer job:AttemptKey until:number"},
    Row{"Health", "The process answers", "schema:integer is_alive:boolean"},
    Row{"Ready", "Whether what the API tells is fresh, and if not why",
        "schema:integer is_ready:boolean reasons:string[]"},
};

Json simple(std::string_view type) {
  if (type == "any") return Json::object();
  for (const std::string_view known : {"string", "integer", "number", "boolean", "object"})
    if (type == known) return {{"type", std::string(type)}};
  return {{"$ref", "#/components/schemas/" + std::string(type)}};
}

Json field(std::string_view type) {
  const bool is_nullable = type.ends_with('?');
  if (is_nullable) type.remove_suffix(1);
  const bool is_list = type.ends_with("[]");
  if (is_list) type.remove_suffix(2);
  Json schema = simple(type);
  if (is_list) schema = {{"type", "array"}, {"items", schema}};
  if (!is_nullable) return schema;
  if (schema.contains("type")) {
    schema["type"] = Json::array({schema["type"], "null"});
    return schema;
  }
  return {{"anyOf", Json::array({schema, Json{{"type", "null"}}})}};
}

}  // namespace

Json schemas() {
  Json all = Json::object();
  for (const Row& row : rows) {
    Json properties = Json::object();
    Json required = Json::array();
    for (const std::string_view part : split(row.fields, " ")) {
      const std::size_t colon = part.find(':');
      properties[std::string(part.substr(0, colon))] = field(part.substr(colon + 1));
      required.push_back(std::string(part.substr(0, colon)));
    }
    all[std::string(row.name)] = {{"type", "object"},
                                  {"description", std::string(row.description)},
                                  {"properties", properties},
                                  {"required", required},
                                  {"additionalProperties", false}};
  }
  all["OpenApi"] = {{"type", "object"}, {"description", "An OpenAPI 3.1 document"}};
  return all;
}

}  // namespace vetta::api
