// SPDX-License-Identifier: Apache-2.0
// Hostlists as Slurm writes them: "c457-[011-012]", "foo-[10-20]-[01-02]",
// "nodeA,nodeB[001,003],nodeC", "gpu[1-2].site.org". Order is kept both ways: expanding gives names
// in the order of the text, compressing joins neighbours only, so expand(compress(names)) == names.
// Limits stand before memory is taken: a text of a few bytes can name a billion hosts.
// Pure; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace vetta {

/// More hosts than this are refused as "too large" unless the caller says otherwise.
inline constexpr std::uint64_t hostlist_max = 262'144;

/// All names of a list in its order; repeated names stay repeated. An empty text is an empty list.
/// Errors: invalid (nested or unbalanced brackets, empty parts, descending or non-decimal ranges,
/// blanks or control characters; the place in the text is given), exhausted (more than `max`).
[[nodiscard]] Result<std::vector<std::string>> expand_hostlist(std::string_view text,
                                                               std::uint64_t max = hostlist_max);

/// The number of names, without expanding; refuses what expand_hostlist refuses, except size.
[[nodiscard]] Result<std::uint64_t> count_hostlist(std::string_view text);

/// The shortest text of ranges over the last number of each name, order kept, padding kept.
[[nodiscard]] std::string compress_hostlist(std::span<const std::string> names);

/// People's order: digits compare as numbers, so n2 comes before n10 and n02 before n2.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);
/// Sorts by natural_less and drops repeated names.
void sort_hosts(std::vector<std::string>& names);

}  // namespace vetta
