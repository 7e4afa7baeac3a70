// SPDX-License-Identifier: Apache-2.0
// For tests and benches: records, files, series and Ingest in one folder, that can be reopened.
#pragma once

#include <atomic>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>
#include <utility>

#include "ingest/ingest.h"

namespace vetta::ingest {

/// A moment of these tests' time.
[[nodiscard]] inline Time at(std::int64_t seconds) {
  return from_epoch_seconds(1'700'000'000 + seconds);
}

/// The value itself, so that a loop over it does not outlive the Result.
template <typename T>
[[nodiscard]] T value_of(Result<T> result) {
  return std::move(result).value();
}

class Stand {
 public:
  explicit Stand(const std::string& name, bool is_synced = false) : is_synced_(is_synced) {
    static std::atomic<int> counter = 0;
    dir = std::filesystem::temp_directory_path() /
          fmt::format("vetta-{}-{}-{}", name, getpid(), counter++);
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(dir);
    open();
  }

  ~Stand() {
    close();
    std::filesystem::remove_all(dir);
  }

  Stand(const Stand&) = delete;
  Stand& operator=(const Stand&) = delete;

  void close() {
    ingest.reset();
    store.reset();
    files.reset();
    records.reset();
  }

  void open() {
    close();
    records = records::Records::open({.path = dir / "records.db",
                                      .is_synced = is_synced_,
                                      .file_bytes_max = records_bytes_max})
                  .value();
    files = series::AttemptFiles::open({.dir = dir / "marks", .is_synced = is_synced_}).value();
    store = series::Store::open({.dir = dir / "series", .series_max = series_max}).value();
    Hooks hooks;
    hooks.nudge = [this](const std::string&) { ++nudges; };
    hooks.event = [this](const model::Event& event) { events.push_back(event); };
    ingest = std::make_unique<Ingest>(*records, *files, *store, std::move(hooks), options);
  }

  std::filesystem::path dir;
  Options options;
  std::uint64_t records_bytes_max = 0;
  std::size_t series_max = series::StoreOptions().series_max;
  std::unique_ptr<records::Records> records;
  std::unique_ptr<series::AttemptFiles> files;
  std::unique_ptr<series::Store> store;
  std::unique_ptr<Ingest> ingest;
  int nudges = 0;
  std::vector<model::Event> events;  ///< as the hook got them

 private:
  bool is_synced_;
};

}  // namespace vetta::ingest
