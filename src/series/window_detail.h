// SPDX-License-Identifier: Apache-2.0
// One window of hardware series on disk: a journal while points come, a sealed file after it.
// Not thread-safe: Store holds its lock.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "series/block_detail.h"
#include "series/store.h"
#include "sys/journal.h"

namespace vetta::series {

struct WindowData {
  std::vector<Point> points;  ///< as they came; later ones stand for earlier ones of one time
  std::vector<Gap> gaps;
};

using Visit = std::function<void(const SeriesKey&, const WindowData&)>;

/// Sorted by time; of equal times the last stays.
void settle(WindowData& data);

/// A journal open for appending, with the numbers it has given to its series.
class OpenWindow {
 public:
  [[nodiscard]] static Result<std::unique_ptr<OpenWindow>> open(const std::string& path);

  [[nodiscard]] Result<void> append(std::span<const SeriesAppend> what);

  [[nodiscard]] Result<void> sync() { return journal_->sync(); }

 private:
  std::optional<sys::Journal> journal_;
  std::map<SeriesKey, std::uint64_t> ids_;
};

/// Calls `visit` for the parts of a journal in order, of one series or of all.
[[nodiscard]] Result<void> read_journal(const std::string& path, const SeriesKey* only,
                                        const Visit& visit);
/// The same of a sealed file, through its index.
[[nodiscard]] Result<void> read_sealed(const std::string& path, const SeriesKey* only,
                                       const Visit& visit);
/// Writes a sealed file atomically.
[[nodiscard]] Result<void> write_sealed(const std::string& path,
                                        std::map<SeriesKey, WindowData>& series);

}  // namespace vetta::series
