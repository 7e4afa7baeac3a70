// SPDX-License-Identifier: Apache-2.0
// One bounded append-only file per attempt: marks and rank samples, keyed (attempt, incarnation,
// rank). docs/internals/attempt-file.md has the format.
//
// Acknowledged means kept: append() writes whole blocks and syncs them before it returns, so what
// it counted as written survives a kill -9 (and a power cut where the disk honours fsync). A torn
// tail is cut when the file is next opened. Marks that are there already, by (rank_id, sequence),
// are dropped, whatever the order in which they come. At its cap a file takes no more; what was
// refused is counted in the file itself.
// Thread-safety: all functions may be called from any thread; appends to one attempt queue, reads
// go beside them and see whole blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "model/job.h"
#include "model/rank.h"

namespace vetta::series {

struct AttemptFileOptions {
  std::filesystem::path dir{};            ///< made if absent
  std::uint64_t bytes_max = 256U << 20U;  ///< of one file
  std::size_t open_max = 64;              ///< files held open for writing; least used closes
  bool is_synced = true;                  ///< false: leaves it to the kernel (tests, benches)
};

struct RankRef {
  std::uint64_t rank_id = 0;
  std::uint32_t incarnation = 0;
  std::int32_t rank = -1;
  bool operator==(const RankRef&) const = default;
};

/// Where samples come from: the same batch twice is taken once.
struct Origin {
  std::uint64_t agent_id = 0;
  std::uint64_t sequence = 0;
};

struct MarkAppend {
  RankRef rank;
  std::span<const model::Mark> marks;
};

struct SampleAppend {
  RankRef rank;
  Origin origin;
  std::span<const model::RankSample> samples;
};

struct Appended {
  std::uint64_t marks = 0, samples = 0;
  std::uint64_t duplicates = 0;  ///< marks and samples that were there already
  std::uint64_t refused = 0;     ///< marks and samples beyond the cap
  std::uint64_t bytes = 0;
  /// Where the file that lay there is now, if it was none of marks: its marks are lost.
  std::string set_aside{};
};

struct AttemptFileInfo {
  std::uint64_t bytes = 0;
  std::uint64_t marks = 0, samples = 0;
  std::uint64_t refused = 0;  ///< beyond the cap, since the file began
  bool is_sealed = false;
};

/// Empty members do not filter; spans are half-open.
struct ScanFilter {
  std::optional<std::uint32_t> incarnation{};
  std::optional<std::int32_t> rank{};
  std::optional<std::uint64_t> rank_id{};
  std::optional<std::int64_t> step_from{}, step_to{};
  std::optional<Time> from{}, to{};
};

struct RankMarks {
  RankRef rank;
  std::vector<model::Mark> marks;  ///< ordered by sequence
};

class AttemptFiles {
 public:
  [[nodiscard]] static Result<std::unique_ptr<AttemptFiles>> open(AttemptFileOptions options);
  ~AttemptFiles();
  AttemptFiles(const AttemptFiles&) = delete;
  AttemptFiles& operator=(const AttemptFiles&) = delete;

  /// What lies there and is no file of marks is set aside as `<path>.damaged-N` and a new file
  /// begun: what is not kept is an error.
  [[nodiscard]] Result<Appended> append(const model::AttemptKey& key,
                                        std::span<const MarkAppend> marks,
                                        std::span<const SampleAppend> samples);
  /// Writes the index that makes later reads quick. Marks that still come are taken all the same
  /// and make the file an open one again. A file that is not there is no error; what is no file of
  /// marks is Code::conflict, and left as it is.
  [[nodiscard]] Result<void> seal(const model::AttemptKey& key);
  /// With what was set aside of it.
  [[nodiscard]] Result<void> remove(const model::AttemptKey& key);
  /// Nothing if the attempt has no file of marks. Scans find none in another file either.
  [[nodiscard]] Result<std::optional<AttemptFileInfo>> info(const model::AttemptKey& key) const;

  /// Calls `take` for each mark in file order until it returns false. No file: no marks.
  [[nodiscard]] Result<void> scan_marks(
      const model::AttemptKey& key, const ScanFilter& filter,
      const std::function<bool(const RankRef&, const model::Mark&)>& take) const;
  [[nodiscard]] Result<void> scan_samples(
      const model::AttemptKey& key, const ScanFilter& filter,
      const std::function<bool(const RankRef&, const model::RankSample&)>& take) const;
  /// The last `last_n` marks of every rank of one incarnation, read from the end of the file.
  /// Code::exhausted as soon as these are more than `marks_max` in all.
  [[nodiscard]] Result<std::vector<RankMarks>> last_marks(
      const model::AttemptKey& key, std::uint32_t incarnation, std::size_t last_n,
      std::size_t marks_max = std::numeric_limits<std::size_t>::max()) const;
  [[nodiscard]] std::size_t open_files() const;
  /// Where the attempt's file lies or would lie.
  [[nodiscard]] std::filesystem::path path(const model::AttemptKey& key) const;

 private:
  struct State;
  explicit AttemptFiles(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace vetta::series
