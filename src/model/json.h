// SPDX-License-Identifier: Apache-2.0
// The one JSON form of the model: the same in API, command line and files. Names are the fields'
// own; times are seconds since the epoch with decimals, spans are seconds, sizes bytes; unknown is
// null. Texts become valid UTF-8.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "model/cluster.h"
#include "model/job.h"
#include "model/judgement.h"
#include "model/rank.h"

namespace vetta::model {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json to_json(const Attempt& attempt);
[[nodiscard]] Json to_json(const Allocation& allocation);
[[nodiscard]] Json to_json(const Step& step);
[[nodiscard]] Json to_json(const Partition& partition);
[[nodiscard]] Json to_json(const Node& node);
[[nodiscard]] Json to_json(const Source& source);
[[nodiscard]] Json to_json(const ControllerLoad& load);
[[nodiscard]] Json to_json(const Rank& rank);
[[nodiscard]] Json to_json(const Mark& mark);
[[nodiscard]] Json to_json(const RankSample& sample);
[[nodiscard]] Json to_json(const NodeSample& sample);
[[nodiscard]] Json to_json(const Event& event);
[[nodiscard]] Json to_json(const Finding& finding);
[[nodiscard]] Json to_json(const Diagnosis& diagnosis);
[[nodiscard]] Json to_json(const Why& why);

/// One line, safe for any bytes in texts.
[[nodiscard]] std::string dump(const Json& json);

}  // namespace vetta::model
