// SPDX-License-Identifier: Apache-2.0
// The schemas of what the API answers, as JSON Schema (OpenAPI 3.1). Written in short hand, one
// line an object; tests hold every real answer against them, both ways: nothing missing, nothing
// more.
#pragma once

#include "model/json.h"

namespace vetta::api {

/// Name → schema, for components/schemas.
[[nodiscard]] model::Json schemas();

}  // namespace vetta::api
