// SPDX-License-Identifier: Apache-2.0
// JSON of what the parsers read, for tests/conformance. Bytes that are not UTF-8 become U+FFFD.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slurm/allocations.h"
#include "slurm/answer.h"
#include "slurm/gres.h"
#include "slurm/sdiag.h"
#include "slurm/snapshot.h"

namespace vetta::conformance {

[[nodiscard]] std::string json_text(std::string_view text);
[[nodiscard]] std::string json_list(const std::vector<std::string>& values);  ///< of JSON values
[[nodiscard]] std::string json_texts(const std::vector<std::string>& texts);
[[nodiscard]] std::string json(const std::vector<slurm::Refusal>& refused);
[[nodiscard]] std::string json(const model::Attempt& attempt);
[[nodiscard]] std::string json(const model::Node& node);
[[nodiscard]] std::string json(const model::Partition& partition);
[[nodiscard]] std::string json(const slurm::HeldJob& job);
[[nodiscard]] std::string json(const slurm::AccountedAttempt& attempt);
[[nodiscard]] std::string json(const std::vector<slurm::GresEntry>& entries);
[[nodiscard]] std::string json(const slurm::Sdiag& sdiag);
/// {"error": "…"}
[[nodiscard]] std::string json(const Error& error);

}  // namespace vetta::conformance
