// SPDX-License-Identifier: Apache-2.0
// The first diagnosis: from marks alone, which rank holds the others and what it costs. Pure: no
// clock, no file. Method, thresholds and limits: docs/internals/diagnosis.md. Thread-safety: free
// functions over values.
#pragma once

#include <cstdint>

#include "model/judgement.h"
#include "model/rank.h"

namespace vetta::diagnose {

struct Options {
  std::int64_t warm_up_steps =
      5;  ///< first steps of an incarnation, not judged: imports, autotuning, first allocations
  std::int64_t least_steps = 10;  ///< fewer judged steps are "not distinguishable"
  double least_share = 0.10;      ///< lost share of step time from which a rank is named
};

/// Judges one incarnation. Takes any table: ranks may miss steps, start late, stop early; marks may
/// be doubled, out of order, without phases, negative or absurd (such marks are left out and
/// counted in the evidence). The order of table.ranks does not matter. O(marks · log ranks);
/// `ranks` of the answer has one entry for each judged rank, by rank.
[[nodiscard]] model::Diagnosis diagnose(const model::StepTable& table, const Options& options = {});

}  // namespace vetta::diagnose
