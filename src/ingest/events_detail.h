// SPDX-License-Identifier: Apache-2.0
// Which events follow from what has changed. Pure: the same facts give the same events with the
// same `dedup`, whatever the order in which they became known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/job.h"
#include "model/judgement.h"
#include "model/rank.h"

namespace vetta::ingest {

/// Start, end, suspension and resumption of an attempt; the same ones again for the same facts. An
/// end that is only inferred is no event yet: how it ended is still to be told.
[[nodiscard]] std::vector<model::Event> events_of(const model::Attempt& attempt, bool is_inferred);

/// A node became unusable or usable again, or its reason changed; nothing for work that comes and
/// goes.
[[nodiscard]] std::optional<model::Event> event_of(const std::string& cluster,
                                                   const std::optional<model::Node>& before,
                                                   const model::Node& after, Time as_of);

/// A rank that ended with a code or by a signal; nothing for a good end or an unknown one.
[[nodiscard]] std::optional<model::Event> event_of(const model::Rank& rank);

}  // namespace vetta::ingest
