// SPDX-License-Identifier: Apache-2.0
// What diagnose needs, collected from records and series for one attempt.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "api/context.h"
#include "core/result.h"
#include "diagnose/why.h"
#include "model/judgement.h"
#include "model/viewer.h"

namespace vetta::api {

/// A diagnosis is kept until the attempt's marks change, so that a page that is open costs little.
/// Thread-safety: all functions from any thread.
class DiagnosisCache {
 public:
  struct Entry {
    std::uint64_t marks = 0;  ///< that it was made from
    std::uint32_t incarnation = 0;
    model::Diagnosis diagnosis;
    std::vector<diagnose::LastMark> last_marks;
    std::optional<Duration> median_step;
  };

  /// Of the newest incarnation with marks, unless one is named. Code::not_found: no mark ever came.
  [[nodiscard]] Result<Entry> get(const query::Query& query, const model::Viewer& viewer,
                                  const records::AttemptRow& row,
                                  std::optional<std::uint32_t> incarnation = {});

 private:
  std::mutex mutex_;
  std::map<std::pair<records::AttemptId, std::int64_t>, Entry> entries_;
};

/// Everything that is known of an attempt, for diagnose::explain.
[[nodiscard]] Result<diagnose::WhyInput> collect_why(const Context& context,
                                                     const model::Viewer& viewer,
                                                     const records::AttemptRow& row);

}  // namespace vetta::api
