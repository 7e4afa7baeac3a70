// SPDX-License-Identifier: Apache-2.0
#include "ingest/place_detail.h"

namespace vetta::ingest {
namespace {

bool has_restart(const records::AttemptRow& row, std::uint32_t restart) {
  if (row.attempt.restart == restart) return true;
  // Accounting before Slurm 23.11 tells no restarts; there the count of attempts says it.
  return row.attempt.restart == 0 && row.number == restart + 1 &&
         model::is_final(row.attempt.state);
}

bool was_alive(const records::AttemptRow& row, Time at, Duration slack) {
  const auto& attempt = row.attempt;
  if (at + slack < attempt.key.submit) return false;
  return !attempt.end || at <= *attempt.end + slack;
}

}  // namespace

Place place(const model::Rank& rank, std::span<const records::AttemptRow> candidates,
            Duration slack) {
  Place best;
  for (const auto& row : candidates) {
    if (!has_restart(row, rank.slurm_restart) || !was_alive(row, rank.start, slack)) continue;
    if (row.attempt.uid.value_or(rank.uid) != rank.uid) {
      if (best.row == nullptr) best.why = Placing::other_user;
      continue;
    }
    if (best.row == nullptr || row.attempt.key.submit > best.row->attempt.key.submit)
      best = {&row, Placing::placed};
  }
  return best;
}

}  // namespace vetta::ingest
