// SPDX-License-Identifier: Apache-2.0
#include "api/metrics.h"

#include <fmt/format.h>

#include "api/agents.h"
#include "api/event_pump.h"

namespace vetta::api {
namespace {

/// Writes the families of one text.
class Text {
 public:
  void gauge(std::string_view name, std::string_view help, double value) {
    family(name, help, "gauge");
    sample(name, "", value);
  }

  void counter(std::string_view name, std::string_view help, double value) {
    family(name, help, "counter");
    sample(name, "", value);
  }

  void family(std::string_view name, std::string_view help, std::string_view type) {
    out_ += fmt::format("# HELP vetta_{} {}\n# TYPE vetta_{} {}\n", name, help, name, type);
  }

  void sample(std::string_view name, const std::string& labels, double value) {
    out_ += fmt::format("vetta_{}{} {}\n", name, labels.empty() ? "" : "{" + labels + "}", value);
  }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

double number(std::uint64_t value) {
  return static_cast<double>(value);
}

void add_http(Text& text, const http::Meters& m) {
  text.family("http_responses_total", "Answers by class of status", "counter");
  text.sample("http_responses_total", "class=\"2xx\"", number(m.responses_2xx));
  text.sample("http_responses_total", "class=\"4xx\"", number(m.responses_4xx));
  text.sample("http_responses_total", "class=\"5xx\"", number(m.responses_5xx));
  text.counter("http_requests_total", "Requests", number(m.requests));
  text.counter("http_handler_seconds_total", "Time spent in handlers", m.handler_seconds);
  text.gauge("http_connections", "Open connections", number(m.connections_open));
  text.counter("http_connections_total", "Connections taken", number(m.connections));
  text.family("http_refused_total", "What was refused, by reason", "counter");
  text.sample("http_refused_total", "reason=\"connections\"", number(m.connections_refused));
  text.sample("http_refused_total", "reason=\"bad_request\"", number(m.bad_requests));
  text.sample("http_refused_total", "reason=\"too_large\"", number(m.too_large));
  text.sample("http_refused_total", "reason=\"timeout\"", number(m.timeouts));
  text.sample("http_refused_total", "reason=\"denied\"", number(m.denied));
  text.gauge("http_streams", "Open event streams", number(m.streams_open));
  text.counter("http_streams_cut_total", "Streams cut because their reader was too slow",
               number(m.streams_cut));
}

void add_ingest(Text& text, const ingest::Meters& m) {
  text.counter("ingest_snapshots_total", "Readings of Slurm that were kept", number(m.snapshots));
  text.counter("ingest_batches_total", "Agents' batches that were kept", number(m.batches));
  text.counter("ingest_batches_known_total", "Batches that were there already",
               number(m.batches_known));
  text.counter("ingest_errors_total", "What could not be kept", number(m.errors));
  text.counter("ingest_marks_total", "Step marks that were kept", number(m.taken.marks));
  text.counter("ingest_duplicates_total", "Marks and samples that were there already",
               number(m.taken.duplicates));
  text.counter("ingest_refused_total", "Marks and samples that found no room",
               number(m.taken.refused));
  text.counter("ingest_events_total", "Events that were kept", number(m.taken.events));
  text.counter("ingest_attempts_total", "New attempts", number(m.taken.attempts_new));
  text.counter("ingest_ranks_placed_total", "Ranks placed in their job",
               number(m.taken.ranks_placed));
  text.counter("ingest_ranks_unplaced_total", "Ranks whose job was not known yet",
               number(m.taken.ranks_unplaced));
  text.family("ingest_ranks_refused_total",
              "Offers of ranks that their job did not take, by reason", "counter");
  text.sample("ingest_ranks_refused_total", "reason=\"other_user\"",
              number(m.taken.ranks_of_other_user));
  text.sample("ingest_ranks_refused_total", "reason=\"off_node\"", number(m.taken.ranks_off_node));
  text.counter("ingest_events_dropped_total", "Agents' events beyond what is kept of one job",
               number(m.taken.events_dropped));
  text.counter("ingest_unplaced_dropped_total", "Parts told by waiting ranks that found no room",
               number(m.taken.unplaced_dropped));
}

void add_sources(Text& text, const std::vector<model::Source>& sources, Time now) {
  text.family("source_up", "1 if the source answered when it was last asked", "gauge");
  for (const auto& source : sources)
    text.sample("source_up", "source=\"" + source.name + "\"",
                source.knowledge == model::Knowledge::known ? 1 : 0);
  text.family("source_age_seconds", "Time since the source last answered", "gauge");
  for (const auto& source : sources)
    if (source.last_success)
      text.sample("source_age_seconds", "source=\"" + source.name + "\"",
                  seconds(now - *source.last_success));
}

void add_load(Text& text, const model::ControllerLoad& load) {
  text.gauge("slurmctld_rpcs_per_minute", "RPCs that vettad sends to slurmctld",
             load.rpcs_per_minute_vetta);
  if (load.rpcs_per_minute_all)
    text.gauge("slurmctld_rpcs_per_minute_all", "RPCs of everybody, by sdiag",
               *load.rpcs_per_minute_all);
  if (load.server_threads)
    text.gauge("slurmctld_server_threads", "Busy threads of slurmctld, by sdiag",
               *load.server_threads);
  if (load.agent_queue)
    text.gauge("slurmctld_agent_queue", "slurmctld's queue, by sdiag", *load.agent_queue);
  text.gauge("slurm_poll_period_seconds", "Time between two readings of Slurm",
             seconds(load.poll_period));
}

}  // namespace

std::string metrics_text(const Context& context) {
  Text text;
  const Time at = now();
  text.family("build_info", "The version that runs", "gauge");
  text.sample("build_info", "version=\"" + context.version + "\"", 1);
  text.gauge("uptime_seconds", "Time since the start", seconds(at - context.started));
  add_http(text, context.http_meters());
  add_ingest(text, context.ingest.meters());
  const QueueView queue = context.agents.queue();
  const std::string label = "queue=\"" + queue.name + "\"";
  text.family("queue_depth", "What waits in a queue now", "gauge");
  text.sample("queue_depth", label, number(queue.depth));
  text.family("queue_limit", "How much a queue takes", "gauge");
  text.sample("queue_limit", label, number(queue.limit));
  text.family("queue_drops_total", "What a full queue refused", "counter");
  text.sample("queue_drops_total", label, number(queue.drops));
  std::uint64_t dropped = 0;
  for (const AgentView& agent : context.agents.list()) dropped += agent.dropped_batches;
  text.gauge("agents_connected", "Connected agents", number(context.agents.connected()));
  text.gauge("agents_known", "Agents connected or seen since the start",
             number(context.agents.list().size()));
  text.gauge("agent_spool_dropped_batches",
             "Batches that agents gave up because their spool was full", number(dropped));
  text.gauge("event_streams", "Streams of events that are fed", number(context.events.streams()));
  add_sources(text, context.sources(), at);
  add_load(text, context.load());
  text.gauge("records_bytes", "Size of the records", number(context.records_bytes()));
  text.gauge("series_bytes", "Size of the series", number(context.series_bytes()));
  return text.take();
}

}  // namespace vetta::api
