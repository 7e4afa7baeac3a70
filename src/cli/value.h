// SPDX-License-Identifier: Apache-2.0
// Values of the API's JSON as texts for tables and screens; what is not known is an empty text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/time.h"
#include "model/json.h"

namespace vetta::cli {

using model::Json;

[[nodiscard]] std::string text_of(const Json& object, std::string_view key);
[[nodiscard]] std::optional<double> number_of(const Json& object, std::string_view key);
[[nodiscard]] bool is_true(const Json& object, std::string_view key);
/// The list or object under that key; null if there is none.
[[nodiscard]] const Json& part_of(const Json& object, std::string_view key);
[[nodiscard]] std::optional<Time> time_of(const Json& object, std::string_view key);
[[nodiscard]] std::string integer_text(const Json& object, std::string_view key);
/// Local time; empty if not known.
[[nodiscard]] std::string when(const Json& object, std::string_view key);
[[nodiscard]] std::string span(std::optional<double> seconds);
/// 23 %, 4.2 %.
[[nodiscard]] std::string percent(double ratio);
[[nodiscard]] std::string bytes_text(std::optional<double> bytes);

/// Slurm's letters for a state: R, PD, CG, …
[[nodiscard]] std::string_view state_letters(std::string_view state);
[[nodiscard]] bool is_over(std::string_view state);
/// How long it has run (until its end or now); empty if it has not begun.
[[nodiscard]] std::optional<double> run_seconds(const Json& job, Time now);
/// "exit code 1", "signal 9 (Killed)", empty if not known or fine.
[[nodiscard]] std::string exit_text(const Json& object);
/// The path of a job under the API: /api/v1/jobs/4711_3 and what follows.
[[nodiscard]] std::string job_path(std::string_view id, std::string_view rest = "");

}  // namespace vetta::cli
