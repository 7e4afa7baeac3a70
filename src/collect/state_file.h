// SPDX-License-Identifier: Apache-2.0
// The ranks on disk: a journal in the run folder, so that an agent that was killed knows them
// again, with what it had not told every vettad yet. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collect/ranks.h"
#include "core/result.h"
#include "sys/journal.h"

namespace vetta::collect {

class StateFile {
 public:
  /// Reads what is there and starts a compact file in its place. Where that finds no room, what was
  /// there stays, and unwritten() says why until a rewrite() succeeds.
  [[nodiscard]] static Result<StateFile> open(const std::string& path);

  /// As the last agent left them.
  [[nodiscard]] std::vector<RankState>& restored() { return restored_; }

  [[nodiscard]] Result<void> save(const RankState& state);
  [[nodiscard]] Result<void> forget(std::uint64_t rank_id);

  /// Why the file lacks something that it was told; nothing where it lacks nothing.
  [[nodiscard]] const std::optional<Error>& unwritten() const { return unwritten_; }

  /// Worth rewriting with the ranks that still live?
  [[nodiscard]] bool is_bloated(std::size_t live) const {
    return unwritten_ || !journal_ || journal_->bytes() > 1'000'000 + 2000 * live;
  }

  [[nodiscard]] Result<void> rewrite(const std::map<std::uint64_t, RankState>& ranks);

 private:
  explicit StateFile(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] Result<void> start_afresh(const std::vector<const RankState*>& states);
  [[nodiscard]] Result<void> add(std::string_view record);

  std::string path_;
  std::optional<sys::Journal> journal_;  ///< nothing until one could be started
  std::optional<Error> unwritten_;
  std::vector<RankState> restored_;
};

/// One record; for tests.
[[nodiscard]] std::string encode_state(const RankState& state);
[[nodiscard]] Result<RankState> decode_state(std::string_view record);

}  // namespace vetta::collect
