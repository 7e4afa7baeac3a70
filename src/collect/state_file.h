// SPDX-License-Identifier: Apache-2.0
// The ranks on disk: a journal in the run folder, so that an agent that was killed knows them
// again, with what it had not told every vettad yet. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collect/ranks.h"
#include "core/result.h"
#include "sys/journal.h"

namespace vetta::collect {

class StateFile {
 public:
  /// Reads what is there and starts a compact file in its place.
  [[nodiscard]] static Result<StateFile> open(const std::string& path);

  /// As the last agent left them.
  [[nodiscard]] std::vector<RankState>& restored() { return restored_; }

  [[nodiscard]] Result<void> save(const RankState& state);
  [[nodiscard]] Result<void> forget(std::uint64_t rank_id);

  /// Worth rewriting with the ranks that still live?
  [[nodiscard]] bool is_bloated(std::size_t live) const {
    return journal_.bytes() > 1'000'000 + 2000 * live;
  }

  [[nodiscard]] Result<void> rewrite(const std::map<std::uint64_t, RankState>& ranks);

 private:
  StateFile(std::string path, sys::Journal journal)
      : path_(std::move(path)), journal_(std::move(journal)) {}

  std::string path_;
  sys::Journal journal_;
  std::vector<RankState> restored_;
};

/// One record; for tests.
[[nodiscard]] std::string encode_state(const RankState& state);
[[nodiscard]] Result<RankState> decode_state(std::string_view record);

}  // namespace vetta::collect
