// SPDX-License-Identifier: Apache-2.0
#include "records/records.h"

#include <condition_variable>
#include <mutex>
#include <system_error>

#include "records/database_detail.h"
#include "records/lease_detail.h"
#include "records/schema_detail.h"
#include "sys/files.h"

namespace vetta::records {

struct Records::State {
  explicit State(Options o) : options(std::move(o)) {}

  Options options;
  std::optional<sys::FileLock> lock;
  std::mutex writing;
  std::unique_ptr<Database> writer;
  std::shared_ptr<Pool> pool;
};

namespace {

Database::Settings settings_of(const Options& options, bool is_writer) {
  return {options.path,           is_writer,        options.wait_max, options.cache_bytes,
          options.file_bytes_max, options.is_synced};
}

}  // namespace

Records::Records(std::unique_ptr<State> state) : state_(std::move(state)) {}

Records::~Records() = default;

Result<std::unique_ptr<Records>> Records::open(Options options) {
  auto state = std::make_unique<State>(std::move(options));
  const auto& path = state->options.path;
  auto lock = sys::FileLock::acquire(path.native() + ".lock");
  if (!lock) {
    return std::unexpected(std::move(lock.error()).while_("open the records in " + path.native()));
  }
  state->lock.emplace(std::move(*lock));
  state->writer = VETTA_TRY(Database::open(settings_of(state->options, true)));
  auto migrated = migrate(*state->writer, schema_steps());
  if (!migrated) {
    return std::unexpected(
        std::move(migrated.error()).while_("open the records in " + path.native()));
  }
  state->pool = std::make_shared<Pool>(state->options.readers, state->options.wait_max);
  return std::unique_ptr<Records>(new Records(std::move(state)));
}

Result<void> Records::write(const std::function<Result<void>(Writer&)>& change) {
  const std::lock_guard guard(state_->writing);
  Database& database = *state_->writer;
  VETTA_TRY(database.execute("BEGIN IMMEDIATE"));
  Result<void> done;
  {
    Reader reader(std::make_unique<Reader::Lease>(Reader::Lease{&database, nullptr, nullptr}));
    Writer writer(database, reader);
    done = change(writer);
  }
  if (done) done = database.execute("COMMIT");
  if (!done && database.in_transaction()) static_cast<void>(database.execute("ROLLBACK"));
  return done;
}

Result<Reader> Records::read() const {
  const auto make = [&] { return Database::open(settings_of(state_->options, false)); };
  auto database = VETTA_TRY(state_->pool->take(make));
  auto lease = std::make_unique<Reader::Lease>();
  lease->database = database.get();
  lease->owned = std::move(database);
  lease->pool = state_->pool;
  Reader reader(std::move(lease));
  VETTA_TRY(reader.lease_->database->execute("BEGIN"));
  return reader;
}

std::uint64_t Records::file_bytes() const {
  std::uint64_t sum = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(state_->options.path.native() + suffix, error);
    if (!error) sum += bytes;
  }
  return sum;
}

int Records::schema_version() {
  return static_cast<int>(schema_steps().size());
}

Result<std::unique_ptr<Database>> Pool::take(
    const std::function<Result<std::unique_ptr<Database>>()>& make) {
  std::unique_lock guard(mutex_);
  const auto is_ready = [&] { return !free_.empty() || lent_ < size_; };
  if (!changed_.wait_for(guard, wait_max_, is_ready)) {
    return fail(Code::unavailable, "all connections to the records are in use",
                "try again; if it stays so, queries take too long or there are too many of them");
  }
  ++lent_;
  if (!free_.empty()) {
    auto database = std::move(free_.back());
    free_.pop_back();
    return database;
  }
  guard.unlock();
  auto made = make();
  if (!made) {
    guard.lock();
    --lent_;
    changed_.notify_one();
  }
  return made;
}

void Pool::give_back(std::unique_ptr<Database> database) {
  const std::lock_guard guard(mutex_);
  --lent_;
  free_.push_back(std::move(database));
  changed_.notify_one();
}

}  // namespace vetta::records
