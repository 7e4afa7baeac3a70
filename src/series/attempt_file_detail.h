// SPDX-License-Identifier: Apache-2.0
// One attempt's file open for writing. Not thread-safe: AttemptFiles holds its lock.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/interval_set.h"
#include "series/attempt_file.h"
#include "series/block_detail.h"
#include "sys/fd.h"

namespace vetta::series {

inline constexpr std::string_view attempt_file_magic = "VETTAAT1";

/// What of a rank is in the file, to drop what comes again.
struct RankSeen {
  IntervalSet marks;
  std::map<std::uint64_t, IntervalSet> batches;  ///< of samples, by agent
};

/// A stretch of the file with what is in it; the sealed file's index is a list of them.
struct Segment {
  std::uint64_t offset = 0, bytes = 0;
  std::int64_t step_from = 0, step_to = -1;  ///< empty if there are no marks
  std::int64_t time_from = 0, time_to = -1;
  std::uint32_t incarnation_from = 0, incarnation_to = 0;
  std::uint64_t marks = 0, samples = 0;
};

class AttemptFile {
 public:
  /// Makes the file or cuts its torn tail and learns what is in it.
  [[nodiscard]] static Result<std::unique_ptr<AttemptFile>> open(const std::string& path,
                                                                 const model::AttemptKey& key,
                                                                 const AttemptFileOptions& options);

  ~AttemptFile();
  AttemptFile(const AttemptFile&) = delete;
  AttemptFile& operator=(const AttemptFile&) = delete;

  [[nodiscard]] Result<Appended> append(std::span<const MarkAppend> marks,
                                        std::span<const SampleAppend> samples);
  [[nodiscard]] Result<void> seal();

  [[nodiscard]] AttemptFileInfo info() const;

  /// Bytes of whole blocks; may be read beside the writer.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_acquire); }

 private:
  AttemptFile(std::string path, sys::Fd fd, AttemptFileOptions options)
      : path_(std::move(path)), fd_(std::move(fd)), options_(std::move(options)) {}

  [[nodiscard]] Result<void> learn(std::uint64_t file_bytes);
  void learn_block(const Block& block);
  void stage_marks(const MarkAppend& what, std::string& out, Appended& done);
  void stage_samples(const SampleAppend& what, std::string& out, Appended& done);
  [[nodiscard]] bool fits(std::size_t staged, std::size_t payload) const;
  void stage_refused(std::string& out);
  void put_refused(std::string& out);
  [[nodiscard]] Result<void> write(std::string_view blocks);

  std::string path_;
  sys::Fd fd_;
  AttemptFileOptions options_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::map<std::uint64_t, RankSeen> ranks_;
  AttemptFileInfo info_;
  std::uint64_t refused_written_ = 0;
};

/// Folds a block into the list, beginning a new segment every 64 KiB.
void add_to_segments(std::vector<Segment>& segments, const Block& block);
[[nodiscard]] std::string encode_index(const std::vector<Segment>& segments, std::uint64_t refused);

struct Index {
  std::vector<Segment> segments;
  std::uint64_t refused = 0;
};

[[nodiscard]] std::optional<Index> decode_index(std::string_view payload);

}  // namespace vetta::series
