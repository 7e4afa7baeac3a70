// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sqlite3.h>
#include <utility>

#include "records/database_detail.h"

namespace vetta::records {
namespace {

constexpr std::size_t cached_statements_max = 200;

Code code_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return Code::unavailable;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG: return Code::exhausted;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return Code::denied;
    case SQLITE_CANTOPEN: return Code::not_found;
    case SQLITE_CONSTRAINT: return Code::conflict;
    default: return Code::internal;
  }
}

std::string hint_of(int sqlite_code, const std::string& path) {
  switch (sqlite_code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fmt::format("another program holds {} locked: end it (fuser {}) or wait", path, path);
    case SQLITE_FULL:
      return fmt::format(
          "the disk of {} or the bound of its size is full: free space (df {}) or shorten the "
          "retention; nothing that was kept is lost",
          path, path);
    case SQLITE_IOERR:
      return fmt::format("the system could not read or write {}: look at the kernel log and df",
                         path);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return fmt::format(
          "{} is damaged or no database: move it away and start again, accounting fills the jobs "
          "in; or put a copy back",
          path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return fmt::format("the folder of {} must exist and be writable for this user", path);
    default: return {};
  }
}

}  // namespace

Statement::Statement(Database& database, sqlite3_stmt* statement, bool* busy)
    : database_(&database), statement_(statement), busy_(busy) {
  if (busy_ != nullptr) *busy_ = true;
}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      busy_(std::exchange(other.busy_, nullptr)),
      parameter_(other.parameter_),
      column_(other.column_),
      bind_error_(other.bind_error_) {}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  if (busy_ == nullptr) {
    sqlite3_finalize(statement_);
    return;
  }
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  *busy_ = false;
}

Statement& Statement::bind(std::int64_t value) {
  bind_error_ |= sqlite3_bind_int64(statement_, ++parameter_, value);
  return *this;
}

Statement& Statement::bind(std::string_view bytes) {
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  bind_error_ |= sqlite3_bind_text64(statement_, ++parameter_, data, bytes.size(), SQLITE_TRANSIENT,
                                     SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind_blob(std::string_view bytes) {
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  bind_error_ |=
      sqlite3_bind_blob64(statement_, ++parameter_, data, bytes.size(), SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::bind_null() {
  bind_error_ |= sqlite3_bind_null(statement_, ++parameter_);
  return *this;
}

Result<bool> Statement::step() {
  if (bind_error_ != 0) return database_->failure(bind_error_, "bind a value");
  column_ = 0;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->failure(code, sqlite3_sql(statement_));
}

Result<void> Statement::run() {
  auto stepped = step();
  sqlite3_reset(statement_);
  parameter_ = 0;
  if (!stepped) return std::unexpected(std::move(stepped).error());
  return {};
}

bool Statement::is_null() const {
  return sqlite3_column_type(statement_, column_) == SQLITE_NULL;
}

std::int64_t Statement::integer() {
  return sqlite3_column_int64(statement_, column_++);
}

std::string Statement::text() {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column_));
  const int size = sqlite3_column_bytes(statement_, column_++);
  return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(size));
}

Result<std::unique_ptr<Database>> Database::open(const Settings& settings) {
  std::unique_ptr<Database> database(new Database(settings.path));
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                    (settings.is_writer ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(settings.path.c_str(), &database->handle_, flags, nullptr);
  if (code != SQLITE_OK) return database->failure(code, "open the database");
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(settings.wait_max);
  sqlite3_busy_timeout(database->handle_, static_cast<int>(wait.count()));
  VETTA_TRY(database->execute(
      fmt::format("PRAGMA cache_size = -{};PRAGMA temp_store = MEMORY;PRAGMA mmap_size = 0",
                  settings.cache_bytes / 1024)
          .c_str()));
  if (!settings.is_writer) {
    VETTA_TRY(database->execute("PRAGMA query_only = ON"));
    return database;
  }
  // The log is folded into the file every 1,000 pages; truncated when it grew beyond 16 MiB.
  VETTA_TRY(
      database->execute("PRAGMA journal_mode = WAL;PRAGMA foreign_keys = OFF;"
                        "PRAGMA journal_size_limit = 16777216"));
  VETTA_TRY(database->execute(settings.is_synced ? "PRAGMA synchronous = FULL"
                                                 : "PRAGMA synchronous = OFF"));
  if (settings.file_bytes_max > 0) {
    VETTA_TRY(database->execute(
        fmt::format("PRAGMA max_page_count = {}", settings.file_bytes_max / 4096 + 1).c_str()));
  }
  return database;
}

Database::~Database() {
  for (auto& [sql, cached] : cache_) sqlite3_finalize(cached.statement);
  sqlite3_close_v2(handle_);
}

Result<Statement> Database::prepare(std::string_view sql) {
  auto at = cache_.find(sql);
  if (at != cache_.end() && !at->second.busy)
    return Statement(*this, at->second.statement, &at->second.busy);
  sqlite3_stmt* statement = nullptr;
  const bool is_cached = at == cache_.end() && cache_.size() < cached_statements_max;
  const int code =
      sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                         is_cached ? SQLITE_PREPARE_PERSISTENT : 0, &statement, nullptr);
  if (code != SQLITE_OK) return failure(code, sql);
  if (!is_cached) return Statement(*this, statement, nullptr);
  at = cache_.emplace(std::string(sql), Cached{statement, false}).first;
  return Statement(*this, statement, &at->second.busy);
}

Result<void> Database::execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return failure(code, sql);
  return {};
}

Result<std::int64_t> Database::number(std::string_view sql) {
  auto statement = VETTA_TRY(prepare(sql));
  return VETTA_TRY(statement.step()) ? statement.integer() : 0;
}

std::int64_t Database::last_row() const {
  return sqlite3_last_insert_rowid(handle_);
}

std::int64_t Database::changes() const {
  return sqlite3_changes64(handle_);
}

bool Database::in_transaction() const {
  return sqlite3_get_autocommit(handle_) == 0;
}

std::unexpected<Error> Database::failure(int code, std::string_view what) const {
  const std::string reason = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  auto error = fail(code_of(code), fmt::format("database {}: {}", path_.native(), reason),
                    hint_of(code, path_.native()));
  if (code_of(code) == Code::internal && (code & 0xff) != SQLITE_CORRUPT)
    return std::unexpected(std::move(error.error()).while_(std::string(what.substr(0, 300))));
  return error;
}

}  // namespace vetta::records
