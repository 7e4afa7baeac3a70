// SPDX-License-Identifier: Apache-2.0
#include "api/job_counts.h"

#include <fmt/format.h>
#include <optional>

namespace vetta::api {
namespace {

constexpr std::size_t counts_max = 512;
constexpr Duration age_max = std::chrono::seconds(10);

/// Rises with everything that can change a count.
std::uint64_t version_of(const ingest::Ingest& ingest) {
  const ingest::Meters meters = ingest.meters();
  return meters.taken.attempts_new + meters.taken.attempts_changed;
}

void add(std::string& key, const std::vector<std::string>& words) {
  for (const std::string& word : words) key += fmt::format("{}:{},", word.size(), word);
  key += ';';
}

/// Equal for equal questions of viewers with equal rights; empty: not to be kept.
std::string key_of(const model::Viewer& viewer, const records::JobFilter& filter) {
  if (filter.from || filter.to) return {};
  std::string key = viewer.is_operator ? "operator;" : "user;";
  key += viewer.uid ? fmt::format("{};", *viewer.uid) : "-;";
  add(key, {filter.cluster, filter.name_contains, filter.node});
  add(key, filter.users);
  add(key, filter.accounts);
  add(key, filter.partitions);
  for (const model::JobState state : filter.states) key += fmt::format("{},", model::name(state));
  const auto add_number = [&](const auto& number) {
    key += number ? fmt::format("{};", *number) : "-;";
  };
  add_number(filter.array_job_id);
  add_number(filter.het_job_id);
  add_number(filter.uid);
  return key + fmt::format("{}{}", filter.active_only, filter.all_attempts);
}

}  // namespace

Result<query::JobsAnswer> JobCountsCache::jobs(const query::Query& query,
                                               const ingest::Ingest& ingest,
                                               const model::Viewer& viewer,
                                               query::JobsRequest request) {
  const std::string key = key_of(viewer, request.filter);
  const std::uint64_t version =
      version_of(ingest);  // before reading: never newer than what is read
  std::optional<records::JobCounts> kept;
  if (!key.empty()) {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end() && found->second.version == version &&
        monotonic_now() - found->second.counted < age_max)
      kept = found->second.counts;
  }
  request.with_counts = !kept;
  auto answer = VETTA_TRY(query.jobs(viewer, request));
  if (kept) {
    answer.counts = std::move(*kept);
  } else if (!key.empty()) {
    const std::scoped_lock lock(mutex_);
    if (entries_.size() >= counts_max) entries_.clear();
    entries_.insert_or_assign(
        key, Entry{.version = version, .counted = monotonic_now(), .counts = answer.counts});
  }
  return answer;
}

}  // namespace vetta::api
