// SPDX-License-Identifier: Apache-2.0
// Private to diagnose: ranks that stand still, sorted by where they are: who waits, and for whom.
#pragma once

#include <string>
#include <vector>

#include "diagnose/why.h"

namespace vetta::diagnose {

/// Why no rank can be named.
enum class Nobody {
  no_places,     ///< too little is known of where they are, or nobody stands out
  all_wait,      ///< all ranks are in the same collective
  all_fetch,     ///< all ranks wait for data
  some_unknown,  ///< who is known waits; others are not known
};

/// Pointers into WhyInput::last_marks.
struct Standing {
  std::vector<const LastMark*> waiting;  ///< in a collective
  std::vector<const LastMark*> outside;  ///< elsewhere, or ended while others wait
  std::vector<const LastMark*> unknown;
  std::vector<const LastMark*> holders;  ///< those the others wait for; empty: see why_nobody
  std::vector<std::int32_t> unheard;     ///< registered, and no mark and no place came
  bool are_behind = false;  ///< holders are told by an earlier step, not by another phase
  Nobody why_nobody = Nobody::no_places;
};

[[nodiscard]] Standing stand(const WhyInput& input, Time until);

/// "in the all-reduce of step 15"; "in step 15, outside of its marked phases"
[[nodiscard]] std::string place_text(const LastMark& mark);
/// "ranks 3, 7 on n002"
[[nodiscard]] std::string ranks_text(const std::vector<std::int32_t>& ranks);
[[nodiscard]] std::string ranks_text(const std::vector<const LastMark*>& marks);
/// Where the waiting are; their step only where it is one.
[[nodiscard]] std::string waiting_text(const Standing& standing);
/// One line for each place: which ranks are there and for how long.
[[nodiscard]] std::vector<std::string> places_of(const Standing& standing, Time until);

/// The rank's newest registration in the newest incarnation; null: none.
[[nodiscard]] const model::Rank* rank_of(const WhyInput& input, std::int32_t rank);
/// Ended well before `until`: no consequence of the job's own end.
[[nodiscard]] bool has_ended(const WhyInput& input, std::int32_t rank, Time until);

}  // namespace vetta::diagnose
