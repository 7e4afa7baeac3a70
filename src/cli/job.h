// SPDX-License-Identifier: Apache-2.0
// One job on a screen: fetched as JSON, laid out as text. The layout is pure, so that tests need no
// server.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/session.h"

namespace vetta::cli {

struct JobArguments {
  Common common;
  std::string id;
  bool all_ranks = false;
};

int show_job(const JobArguments& arguments);
int watch_job(const JobArguments& arguments);

/// What the screen of a job is made from: the server's answers by name, `detail`, `ranks`, `steps`
/// and `diagnosis`; the last two are absent where there are none.
[[nodiscard]] Result<Json> fetch_job(Session& session, const std::string& id,
                                     std::size_t last_steps);
[[nodiscard]] std::string job_screen(const Json& view, const Terminal& terminal, Time now,
                                     bool all_ranks);

/// One rank's recent steps in numbers.
struct RankPace {
  std::int64_t rank = -1;
  std::string node;
  std::int64_t step = -1;
  double step_seconds = 0, own_seconds = 0, wait_seconds = 0;  ///< medians
  bool has_wait = false;                                       ///< allreduce was measured
};

[[nodiscard]] std::vector<RankPace> paces(const Json& steps);
/// The lines that tell a diagnosis: the first one is the answer.
[[nodiscard]] std::vector<std::string> diagnosis_lines(const Json& diagnosis);

}  // namespace vetta::cli
