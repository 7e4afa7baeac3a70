// SPDX-License-Identifier: Apache-2.0
#include "api/judgement.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "api/agents.h"
#include "diagnose/slow_rank.h"

namespace vetta::api {
namespace {

constexpr std::size_t judgements_max = 256;
constexpr std::size_t marks_judged = 400'000;  ///< in all: some 45 MB while it is judged
constexpr std::size_t steps_judged_max = 5'000;
constexpr std::size_t agents_listed_max = 16;
constexpr Duration clock_slack = std::chrono::seconds(5);

Result<std::size_t> ranks_in(const query::Query& query, const model::Viewer& viewer,
                             records::AttemptId id) {
  std::size_t most = 1;
  for (const auto& incarnation : VETTA_TRY(query.incarnations(viewer, id)))
    most = std::max<std::size_t>(most, incarnation.ranks);
  return most;
}

std::vector<diagnose::LastMark> last_marks_of(const model::StepTable& table) {
  std::vector<diagnose::LastMark> all;
  for (const model::RankSteps& rank : table.ranks) {
    if (rank.marks.empty()) continue;
    // By time: where epochs count their steps from zero, the highest is not the last.
    const model::Mark& last = *std::ranges::max_element(rank.marks, {}, &model::Mark::start);
    diagnose::LastMark reached;
    reached.rank = rank.rank;
    reached.node = rank.node;
    reached.step = last.step;
    reached.time = last.start + last.duration;
    reached.sequence = last.sequence;
    all.push_back(std::move(reached));
  }
  return all;
}

std::optional<Duration> median_step_of(const model::StepTable& table) {
  std::vector<Duration> all;
  for (const model::RankSteps& rank : table.ranks)
    for (const model::Mark& mark : rank.marks) all.push_back(mark.duration);
  if (all.empty()) return std::nullopt;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::ranges::nth_element(all, middle);
  return *middle;
}

/// Nothing that was marked later speaks against it. Sequences of a rank that was registered twice
/// do not compare, and clocks are set.
bool is_current(const model::RankNow& now, const diagnose::LastMark& mark, bool is_only) {
  return now.after >= mark.sequence && (is_only || mark.time <= now.since + clock_slack);
}

/// Where the ranks of the newest probed incarnation are now, beside what they have marked.
void add_places(const std::vector<records::RankRow>& rows, std::vector<diagnose::LastMark>& marks) {
  std::uint32_t newest = 0;
  for (const records::RankRow& row : rows)
    if (row.rank.is_probed) newest = std::max(newest, row.rank.incarnation);
  std::map<std::int32_t, std::vector<const records::RankRow*>> by_rank;  // by rising start
  for (const records::RankRow& row : rows)
    if (row.rank.is_probed && row.rank.incarnation == newest)
      by_rank[row.rank.rank].push_back(&row);
  for (diagnose::LastMark& mark : marks) {
    const auto found = by_rank.find(mark.rank);
    if (found == by_rank.end()) continue;
    const auto& now = found->second.back()->now;
    if (now && is_current(*now, mark, found->second.size() == 1)) mark.now = now;
    by_rank.erase(found);
  }
  for (const auto& [rank, same] : by_rank) {
    const records::RankRow& row = *same.back();
    if (!row.now) continue;
    marks.push_back(
        {.rank = rank, .node = row.rank.node, .step = {}, .time = row.now->since, .now = row.now});
  }
}

/// What Vetta itself saw on the attempt's nodes is a source too: where no agent was, say so.
void add_agent_sources(const Context& context, const std::set<std::string>& nodes,
                       std::vector<model::Source>& sources) {
  std::size_t absent = 0;
  for (const std::string& node : nodes) {
    const auto agent = context.agents.find(node);
    if (agent && agent->is_connected) continue;
    if (++absent > agents_listed_max) continue;
    model::Source source;
    source.name = "agent " + node;
    source.knowledge = model::Knowledge::could_not_ask;
    source.reason = agent ? "the agent of " + node + " is not connected now"
                          : "no agent has ever connected from " + node;
    if (agent) source.last_success = agent->last_batch;
    sources.push_back(std::move(source));
  }
  if (absent > agents_listed_max)
    sources.push_back({.name = "agents",
                       .knowledge = model::Knowledge::could_not_ask,
                       .reason = "in all, the agents of " + std::to_string(absent) +
                                 " of the job's nodes are not connected",
                       .last_success = {}});
}

/// The events of the attempt, and those of its nodes while it lived, each once.
Result<std::vector<model::Event>> events_of(const Context& context, const model::Viewer& viewer,
                                            const records::AttemptRow& row) {
  records::EventFilter own;
  own.attempt = row.id;
  own.limit = 10'000;
  auto events = VETTA_TRY(context.query.events(viewer, own));
  if (!row.attempt.start) return events;
  records::EventFilter of_nodes;
  of_nodes.cluster = row.attempt.key.cluster;
  of_nodes.kinds = {model::EventKind::node_state, model::EventKind::agent_lost,
                    model::EventKind::agent_back, model::EventKind::source_lost,
                    model::EventKind::source_back};
  of_nodes.from = *row.attempt.start;
  if (row.attempt.end) of_nodes.to = *row.attempt.end + std::chrono::minutes(10);
  of_nodes.nodes_of = row.id;
  of_nodes.newest_first = true;  // what came last ended it
  of_nodes.limit = 10'000;
  std::set<std::uint64_t> known;
  for (const model::Event& event : events) known.insert(event.id);
  auto found = VETTA_TRY(context.query.events(viewer, of_nodes));
  for (model::Event& event : std::views::reverse(found))
    if (known.insert(event.id).second) events.push_back(std::move(event));
  return events;
}

}  // namespace

Result<DiagnosisCache::Entry> DiagnosisCache::get(const query::Query& query,
                                                  const model::Viewer& viewer,
                                                  const records::AttemptRow& row,
                                                  std::optional<std::uint32_t> incarnation) {
  const auto info = VETTA_TRY(query.marks_info(viewer, row.id));
  if (!info || info->marks == 0)
    return fail(Code::not_found,
                "job " + std::to_string(row.attempt.key.job_id) + " has sent no step marks",
                "start it with --probe or `vetta probe exec`, and see that an agent runs on its "
                "nodes (vetta node list)");
  const std::pair key(row.id, incarnation ? static_cast<std::int64_t>(*incarnation) : -1);
  {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end() && found->second.marks == info->marks) return found->second;
  }
  const std::size_t ranks = VETTA_TRY(ranks_in(query, viewer, row.id));
  const std::size_t steps = std::clamp<std::size_t>(marks_judged / ranks, 50, steps_judged_max);
  const auto table = VETTA_TRY(query.step_table(viewer, row.id, incarnation, steps, true));
  Entry entry{.marks = info->marks,
              .incarnation = table.incarnation,
              .diagnosis = diagnose::diagnose(table),
              .last_marks = last_marks_of(table),
              .median_step = median_step_of(table)};
  const std::scoped_lock lock(mutex_);
  if (entries_.size() >= judgements_max) entries_.clear();
  entries_.insert_or_assign(key, entry);
  return entry;
}

Result<diagnose::WhyInput> collect_why(const Context& context, const model::Viewer& viewer,
                                       const records::AttemptRow& row) {
  diagnose::WhyInput input;
  input.attempt = row.attempt;
  input.now = now();
  const query::JobId id{.cluster = row.attempt.key.cluster,
                        .job_id = row.attempt.key.job_id,
                        .array_task = {},
                        .het_offset = {},
                        .attempt = {}};
  for (auto& attempt : VETTA_TRY(context.query.attempts(viewer, id)))
    if (attempt.number < row.number) input.earlier.push_back(std::move(attempt.attempt));
  input.allocations = VETTA_TRY(context.query.allocations(viewer, row.id));
  input.steps = VETTA_TRY(context.query.steps(viewer, row.id));
  const auto ranks = VETTA_TRY(context.query.ranks(viewer, row.id));
  for (const auto& rank : ranks) input.ranks.push_back(rank.rank);
  std::set<std::string> nodes;
  for (const model::Allocation& allocation : input.allocations) nodes.insert(allocation.node);
  input.events = VETTA_TRY(events_of(context, viewer, row));
  if (auto judged = context.diagnoses.get(context.query, viewer, row)) {
    input.diagnosis = std::move(judged->diagnosis);
    input.last_marks = std::move(judged->last_marks);
    input.median_step = judged->median_step;
  } else if (judged.error().code != Code::not_found) {
    return std::unexpected(judged.error());
  }
  add_places(ranks, input.last_marks);
  input.sources = context.sources();
  add_agent_sources(context, nodes, input.sources);
  return input;
}

}  // namespace vetta::api
