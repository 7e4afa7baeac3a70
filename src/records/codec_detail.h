// SPDX-License-Identifier: Apache-2.0
// Nodes and partitions as bytes: a form of the database's own. It holds the current state only; a
// value of another version is unknown until the next snapshot.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/cluster.h"

namespace vetta::records {

[[nodiscard]] std::string encode(const model::Node& node);
[[nodiscard]] std::string encode(const model::Partition& partition);
[[nodiscard]] std::optional<model::Node> decode_node(std::string_view bytes);
[[nodiscard]] std::optional<model::Partition> decode_partition(std::string_view bytes);

}  // namespace vetta::records
