// SPDX-License-Identifier: Apache-2.0
// Who asks. Filled in where a request is authenticated, judged by `query` alone. Plain data.
#pragma once

#include <cstdint>
#include <optional>

namespace vetta::model {

struct Viewer {
  std::optional<std::uint32_t> uid;  ///< empty: not known (a token without a user)
  bool is_operator = false;          ///< sees everything
};

}  // namespace vetta::model
