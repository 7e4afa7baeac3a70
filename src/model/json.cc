// SPDX-License-Identifier: Apache-2.0
#include "model/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace vetta::model {
namespace {

Json number(Time t) {
  return static_cast<double>(epoch_nanoseconds(t)) / 1e9;
}

Json number(Duration d) {
  return seconds(d);
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json number(std::integral auto value) {
  return value;
}

template <typename T>
Json optional(const std::optional<T>& value) {
  return value ? number(*value) : Json(nullptr);
}

/// Bytes become UTF-8; a text that is not known is null.
Json text(std::string_view bytes) {
  return bytes.empty() ? Json(nullptr) : Json(to_utf8(bytes));
}

Json word(std::string_view name) {
  return std::string(name);
}

Json spans(const std::vector<Span>& list) {
  Json out = Json::array();
  for (const Span& span : list)
    out.push_back({{"start", number(span.start)}, {"end", optional(span.end)}});
  return out;
}

Json key(const AttemptKey& key) {
  return {
      {"cluster", to_utf8(key.cluster)}, {"job_id", key.job_id}, {"submit", number(key.submit)}};
}

Json strings(const std::vector<std::string>& list) {
  Json out = Json::array();
  for (const std::string& item : list) out.push_back(to_utf8(item));
  return out;
}

/// What people type: 4711, 4711_3, 4711+1.
std::string display_id(const Attempt& attempt) {
  if (attempt.array && attempt.array->job_id != 0) {
    const std::string base = std::to_string(attempt.array->job_id) + "_";
    if (attempt.array->task_id) return base + std::to_string(*attempt.array->task_id);
    return base + "[" + attempt.array->tasks + "]";
  }
  if (attempt.het && attempt.het->job_id != 0)
    return std::to_string(attempt.het->job_id) + "+" + std::to_string(attempt.het->offset);
  return std::to_string(attempt.key.job_id);
}

Json phase_object(const std::array<Duration, phase_count>& phases) {
  Json out = Json::object();
  for (std::size_t i = 0; i < phase_count; ++i)
    out[std::string(name(static_cast<Phase>(i)))] =
        phases.at(i) < Duration::zero() ? Json(nullptr) : number(phases.at(i));
  return out;
}

}  // namespace

Json to_json(const Attempt& a) {
  Json out = key(a.key);
  out["id"] = display_id(a);
  out["array"] = a.array ? Json{{"job_id", a.array->job_id},
                                {"task_id", optional(a.array->task_id)},
                                {"tasks", text(a.array->tasks)}}
                         : Json(nullptr);
  out["het"] = a.het ? Json{{"job_id", a.het->job_id}, {"offset", a.het->offset}} : Json(nullptr);
  out["restart"] = a.restart;
  out["sluid"] = text(a.sluid);
  out["state"] = word(name(a.state));
  out["state_text"] = text(a.state_text);
  out["reason"] = text(a.reason);
  out["user"] = text(a.user);
  out["uid"] = optional(a.uid);
  out["account"] = text(a.account);
  out["partition"] = text(a.partition);
  out["qos"] = text(a.qos);
  out["name"] = text(a.name);
  out["experiment"] = text(a.experiment);
  out["eligible"] = optional(a.eligible);
  out["start"] = optional(a.start);
  out["end"] = optional(a.end);
  out["expected_start"] = optional(a.expected_start);
  out["suspended"] = spans(a.suspended);
  out["suspended_total"] = optional(a.suspended_total);
  out["time_limit"] = optional(a.time_limit);
  out["nodes"] = text(a.nodes);
  out["node_count"] = optional(a.node_count);
  out["cpus"] = optional(a.cpus);
  out["tasks"] = optional(a.tasks);
  out["memory_bytes"] = optional(a.memory_bytes);
  out["gpus"] = optional(a.gpus);
  out["tres"] = text(a.tres);
  out["exit_code"] = optional(a.exit_code);
  out["exit_signal"] = optional(a.exit_signal);
  out["derived_exit_code"] = optional(a.derived_exit_code);
  out["derived_exit_signal"] = optional(a.derived_exit_signal);
  out["work_dir"] = text(a.work_dir);
  out["command"] = text(a.command);
  out["std_out"] = text(a.std_out);
  out["std_err"] = text(a.std_err);
  out["comment"] = text(a.comment);
  out["dependency"] = text(a.dependency);
  out["priority"] = optional(a.priority);
  out["preempted_by"] = optional(a.preempted_by);
  return out;
}

Json to_json(const Allocation& a) {
  return {{"node", to_utf8(a.node)},
          {"start", number(a.span.start)},
          {"end", optional(a.span.end)},
          {"cpus", optional(a.cpus)},
          {"memory_bytes", optional(a.memory_bytes)},
          {"cpu_ids", text(a.cpu_ids)},
          {"devices", strings(a.devices)}};
}

Json to_json(const Step& s) {
  return {{"step_id", s.step_id},
          {"name", text(s.name)},
          {"state", word(name(s.state))},
          {"start", optional(s.start)},
          {"end", optional(s.end)},
          {"exit_code", optional(s.exit_code)},
          {"exit_signal", optional(s.exit_signal)},
          {"nodes", text(s.nodes)},
          {"tasks", optional(s.tasks)},
          {"max_rss_bytes", optional(s.max_rss_bytes)},
          {"cpu_time", optional(s.cpu_time)}};
}

Json to_json(const Partition& p) {
  return {{"name", to_utf8(p.name)},
          {"is_default", p.is_default},
          {"state", text(p.state)},
          {"nodes", text(p.nodes)},
          {"node_count", optional(p.node_count)},
          {"cpus", optional(p.cpus)},
          {"priority_tier", optional(p.priority_tier)},
          {"time_limit", optional(p.time_limit)},
          {"preempt_mode", text(p.preempt_mode)},
          {"gpus", optional(p.gpus)}};
}

Json to_json(const Node& n) {
  Json gres = Json::array();
  for (const Gres& g : n.gres)
    gres.push_back({{"name", to_utf8(g.name)},
                    {"type", text(g.type)},
                    {"total", g.total},
                    {"allocated", optional(g.allocated)},
                    {"allocated_indices", g.allocated_indices}});
  return {{"name", to_utf8(n.name)},
          {"address", text(n.address)},
          {"host_name", text(n.host_name)},
          {"states", strings(n.states)},
          {"is_usable", is_usable(n)},
          {"reason", text(n.reason)},
          {"reason_user", text(n.reason_user)},
          {"reason_since", optional(n.reason_since)},
          {"boot", optional(n.boot)},
          {"last_busy", optional(n.last_busy)},
          {"partitions", strings(n.partitions)},
          {"cpus", optional(n.cpus)},
          {"cpus_allocated", optional(n.cpus_allocated)},
          {"memory_bytes", optional(n.memory_bytes)},
          {"memory_allocated_bytes", optional(n.memory_allocated_bytes)},
          {"memory_free_bytes", optional(n.memory_free_bytes)},
          {"load", optional(n.load)},
          {"gres", gres},
          {"features", text(n.features)},
          {"version", text(n.version)},
          {"architecture", text(n.architecture)},
          {"operating_system", text(n.operating_system)}};
}

Json to_json(const Source& s) {
  return {{"name", s.name},
          {"knowledge", word(name(s.knowledge))},
          {"reason", text(s.reason)},
          {"last_success", optional(s.last_success)}};
}

Json to_json(const ControllerLoad& l) {
  return {{"rpcs_per_minute_all", optional(l.rpcs_per_minute_all)},
          {"rpcs_per_minute_vetta", number(l.rpcs_per_minute_vetta)},
          {"server_threads", optional(l.server_threads)},
          {"agent_queue", optional(l.agent_queue)},
          {"poll_period", number(l.poll_period)}};
}

Json to_json(const Rank& r) {
  const auto known = [](std::int32_t value) { return value < 0 ? Json(nullptr) : Json(value); };
  return {{"rank_id", std::to_string(r.rank_id)},  // 64 bits do not fit a JavaScript number
          {"rank", known(r.rank)},
          {"local_rank", known(r.local_rank)},
          {"world_size", known(r.world_size)},
          {"task", known(r.task)},
          {"job_id", r.job_id},
          {"step_id", r.step_id},
          {"incarnation", r.incarnation},
          {"slurm_restart", r.slurm_restart},
          {"elastic_restart", r.elastic_restart},
          {"node", to_utf8(r.node)},
          {"uid", r.uid},
          {"pid", known(r.pid)},
          {"devices", text(r.devices)},
          {"source", word(name(r.source))},
          {"is_probed", r.is_probed},
          {"start", number(r.start)},
          {"end", optional(r.end)},
          {"exit_code", optional(r.exit_code)},
          {"exit_signal", optional(r.exit_signal)}};
}

Json to_json(const Mark& m) {
  return {{"sequence", m.sequence},           {"step", m.step},
          {"start", number(m.start)},         {"duration", number(m.duration)},
          {"phases", phase_object(m.phases)}, {"samples", number(m.samples)},
          {"loss", number(m.loss)},           {"source", word(name(m.source))}};
}

Json to_json(const RankSample& s) {
  return {{"time", number(s.time)},
          {"cpu_seconds", optional(s.cpu_seconds)},
          {"rss_bytes", optional(s.rss_bytes)},
          {"minor_faults", optional(s.minor_faults)},
          {"major_faults", optional(s.major_faults)},
          {"read_bytes", optional(s.read_bytes)},
          {"write_bytes", optional(s.write_bytes)},
          {"voluntary_switches", optional(s.voluntary_switches)},
          {"involuntary_switches", optional(s.involuntary_switches)},
          {"threads", optional(s.threads)},
          {"processes", optional(s.processes)},
          {"gap", text(s.gap)}};
}

Json to_json(const NodeSample& s) {
  return {{"time", number(s.time)},
          {"cpu_seconds_busy", optional(s.cpu_seconds_busy)},
          {"cpu_seconds_total", optional(s.cpu_seconds_total)},
          {"load_1m", optional(s.load_1m)},
          {"memory_total_bytes", optional(s.memory_total_bytes)},
          {"memory_available_bytes", optional(s.memory_available_bytes)},
          {"network_receive_bytes", optional(s.network_receive_bytes)},
          {"network_transmit_bytes", optional(s.network_transmit_bytes)},
          {"pressure_cpu", optional(s.pressure_cpu)},
          {"pressure_memory", optional(s.pressure_memory)},
          {"pressure_io", optional(s.pressure_io)},
          {"shared_host", s.shared_host},
          {"gap", text(s.gap)}};
}

Json to_json(const Event& e) {
  return {{"id", e.id},
          {"time", number(e.time)},
          {"kind", word(name(e.kind))},
          {"attempt", e.attempt ? key(*e.attempt) : Json(nullptr)},
          {"node", text(e.node)},
          {"rank", e.rank < 0 ? Json(nullptr) : Json(e.rank)},
          {"exit_code", optional(e.exit_code)},
          {"exit_signal", optional(e.exit_signal)},
          {"message", text(e.message)},
          {"detail", text(e.detail)},
          {"source", text(e.source)}};
}

Json to_json(const Finding& f) {
  Json judgement = Json::parse(f.json, nullptr, false);
  return {{"id", f.id},
          {"time", number(f.time)},
          {"kind", f.kind},
          {"attempt", f.attempt ? key(*f.attempt) : Json(nullptr)},
          {"node", text(f.node)},
          {"rank", f.rank < 0 ? Json(nullptr) : Json(f.rank)},
          {"message", text(f.message)},
          {"judgement", judgement.is_discarded() ? Json(nullptr) : judgement}};
}

Json to_json(const Diagnosis& d) {
  Json ranks = Json::array();
  for (const RankSlowdown& r : d.ranks) {
    Json phases = Json::object();
    for (std::size_t i = 0; i < r.phases.size() && i < phase_count; ++i)
      phases[std::string(name(static_cast<Phase>(i)))] = optional(r.phases[i]);
    ranks.push_back({{"rank", r.rank},
                     {"node", text(r.node)},
                     {"own", number(r.own)},
                     {"phases", phases},
                     {"share_last", number(r.share_last)}});
  }
  return {{"outcome", word(name(d.outcome))},
          {"reason", text(d.reason)},
          {"rank", d.rank < 0 ? Json(nullptr) : Json(d.rank)},
          {"node", text(d.node)},
          {"phase", d.phase ? word(name(*d.phase)) : Json(nullptr)},
          {"cause", word(name(d.cause))},
          {"lost_share", number(d.lost_share)},
          {"lost_time", number(d.lost_time)},
          {"lost_rank_time", number(d.lost_rank_time)},
          {"persistence", number(d.persistence)},
          {"confidence", number(d.confidence)},
          {"since_step", optional(d.since_step)},
          {"steps", d.steps},
          {"median_step", number(d.median_step)},
          {"ranks", ranks},
          {"evidence", strings(d.evidence)}};
}

Json to_json(const Why& w) {
  Json lost = Json::array();
  for (const Loss& l : w.lost)
    lost.push_back({{"what", to_utf8(l.what)}, {"time", number(l.time)}, {"note", text(l.note)}});
  return {{"answer", word(name(w.answer))},
          {"headline", to_utf8(w.headline)},
          {"first", w.first ? to_json(*w.first) : Json(nullptr)},
          {"evidence", strings(w.evidence)},
          {"lost", lost},
          {"advice", strings(w.advice)},
          {"diagnosis", w.diagnosis ? to_json(*w.diagnosis) : Json(nullptr)},
          {"unknown", strings(w.unknown)}};
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace vetta::model
