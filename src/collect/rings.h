// SPDX-License-Identifier: Apache-2.0
// The rings of this node's ranks: made, read, acknowledged, removed. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/result.h"
#include "sys/ring.h"

namespace vetta::collect {

class Rings {
 public:
  /// `folder` is made with mode 0711 if it is missing. Ring files that are there are cut back where
  /// their owners made them larger, and removed where they are rings no more: room for what else is
  /// to be written.
  [[nodiscard]] static Result<Rings> open(const std::string& folder);

  [[nodiscard]] std::string path(std::uint64_t rank_id) const;

  [[nodiscard]] bool has(std::uint64_t rank_id) const { return readers_.contains(rank_id); }

  /// The ring of header.rank_id: a new one, or the one that is there already. Its descriptor stays
  /// valid until remove().
  [[nodiscard]] Result<int> make(const sys::RingHeader& header);
  /// Takes up a ring file of an earlier agent; its header.
  [[nodiscard]] Result<sys::RingHeader> adopt(std::uint64_t rank_id);
  /// Rank ids of the ring files in the folder.
  [[nodiscard]] std::vector<std::uint64_t> files() const;

  [[nodiscard]] Result<sys::RingContent> read(std::uint64_t rank_id, std::uint64_t after,
                                              std::size_t slots_max, bool is_final) const;
  /// Acknowledged up to here by every vettad; kept in the ring's header.
  [[nodiscard]] std::uint64_t acknowledged(std::uint64_t rank_id) const;
  void acknowledge(std::uint64_t rank_id, std::uint64_t sequence);
  void remove(std::uint64_t rank_id);

  struct Spoilt {
    std::uint64_t rank_id = 0;
    std::string why;
  };

  /// Cuts back what owners made larger, whether somebody reads it or not; what was spoilt since the
  /// last call. Nothing is read any more from a ring that was.
  [[nodiscard]] std::vector<Spoilt> check();

  [[nodiscard]] std::size_t size() const { return readers_.size(); }

  [[nodiscard]] std::size_t count_of(std::uint32_t uid) const;

 private:
  struct Open {
    sys::RingReader reader;
    std::uint64_t acknowledged = 0;
    std::uint32_t uid = 0;
    mutable std::string spoilt{};  ///< why; a read may find out
    bool is_told = false;
  };

  explicit Rings(std::string folder) : folder_(std::move(folder)) {}

  void cut_back(std::uint64_t rank_id);

  std::string folder_;
  std::map<std::uint64_t, Open> readers_;
  std::map<std::uint64_t, std::string> spoilt_;  ///< why; files that were cut back, not adopted yet
};

}  // namespace vetta::collect
