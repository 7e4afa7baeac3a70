// SPDX-License-Identifier: Apache-2.0
// Attempts, incarnations, allocations, ranks, events, findings and Slurm's last known state in one
// SQLite file (write-ahead log). One writer at a time, several readers beside it, each with a
// consistent view of its own.
//
// Kept means kept: when write() has returned success, the change survives a kill -9 (and a power
// cut where the disk honours fsync). A full disk, a locked or damaged file is an error that says
// what to do; nothing that was kept before is lost, and the same write may be tried again.
// Thread-safety: Records may be used from any thread; a Writer lives within one write(), a Reader
// belongs to the thread that took it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "core/result.h"
#include "records/reader.h"
#include "records/types.h"
#include "records/writer.h"

namespace vetta::records {

struct Options {
  std::filesystem::path path{};  ///< the database; its folder must exist
  std::size_t readers = 4;       ///< connections in the pool, opened when first needed
  Duration wait_max = std::chrono::seconds(5);  ///< for a lock or a free reader, then an error
  std::uint64_t cache_bytes = 4U << 20U;        ///< page cache of each connection
  bool is_synced = true;  ///< false: leaves it to the kernel when to write (tests, benches)
  std::uint64_t file_bytes_max = 0;  ///< refuse to grow beyond it; 0: no bound
};

class Records {
 public:
  /// Opens or creates the database and brings its schema up to this version. A second process on
  /// the same file is refused, and so is a schema of a later Vetta.
  [[nodiscard]] static Result<std::unique_ptr<Records>> open(Options options);
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  /// Runs `change` within one transaction: all of it is kept when it returns success, nothing
  /// otherwise. Calls from several threads queue.
  [[nodiscard]] Result<void> write(const std::function<Result<void>(Writer&)>& change);

  /// A consistent view of what is kept now, for as long as the Reader lives.
  [[nodiscard]] Result<Reader> read() const;

  [[nodiscard]] std::uint64_t file_bytes() const;
  [[nodiscard]] static int schema_version();

 private:
  struct State;
  explicit Records(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace vetta::records
