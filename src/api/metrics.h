// SPDX-License-Identifier: Apache-2.0
// vettad's own figures in Prometheus' text format: queues with depth, limit and drops, requests,
// what came in, ages of what is known, load on the controller. No job or user is ever a label.
#pragma once

#include <string>

#include "api/context.h"

namespace vetta::api {

[[nodiscard]] std::string metrics_text(const Context& context);

}  // namespace vetta::api
