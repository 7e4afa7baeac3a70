// SPDX-License-Identifier: Apache-2.0
// How many jobs a filter means, by state. Counting visits every row, so a count is kept until
// something changes in the records, or for 10 s: pages and lists that are asked again cost little.
// Thread-safety: all functions from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "core/result.h"
#include "ingest/ingest.h"
#include "query/query.h"

namespace vetta::api {

class JobCountsCache {
 public:
  /// `request.with_counts` is set by this function. Filters with a window of time are counted
  /// each time.
  [[nodiscard]] Result<query::JobsAnswer> jobs(const query::Query& query,
                                               const ingest::Ingest& ingest,
                                               const model::Viewer& viewer,
                                               query::JobsRequest request);

 private:
  struct Entry {
    std::uint64_t version = 0;  ///< of the records when it was counted
    Duration counted{};         ///< monotonic; retention changes no version
    records::JobCounts counts;
  };

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace vetta::api
