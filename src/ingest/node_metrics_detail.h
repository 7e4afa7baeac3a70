// SPDX-License-Identifier: Apache-2.0
// A node's sample as metrics: their names are the fields'. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "model/rank.h"

namespace vetta::ingest {

/// Calls visit(name, optional number) for every metric of a sample.
void visit_node_metrics(const model::NodeSample& s, auto&& visit) {
  const auto number = [](const auto& value) -> std::optional<double> {
    if (!value) return std::nullopt;
    return static_cast<double>(*value);
  };
  visit("cpu_seconds_busy", number(s.cpu_seconds_busy));
  visit("cpu_seconds_total", number(s.cpu_seconds_total));
  visit("load_1m", number(s.load_1m));
  visit("memory_total_bytes", number(s.memory_total_bytes));
  visit("memory_available_bytes", number(s.memory_available_bytes));
  visit("network_receive_bytes", number(s.network_receive_bytes));
  visit("network_transmit_bytes", number(s.network_transmit_bytes));
  visit("pressure_cpu", number(s.pressure_cpu));
  visit("pressure_memory", number(s.pressure_memory));
  visit("pressure_io", number(s.pressure_io));
  visit("shared_host", std::optional<double>(s.shared_host ? 1.0 : 0.0));
}

}  // namespace vetta::ingest
