// SPDX-License-Identifier: Apache-2.0
// SQLite behind two small types: a connection (Database) and a prepared statement on loan from its
// cache. Nothing outside records sees them. A Database belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/time.h"

struct sqlite3;
struct sqlite3_stmt;

namespace vetta::records {

/// A prepared statement with its bindings; goes back to the cache, reset, at its end.
/// bind() takes the parameters in their order; errors of binding come out at step().
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  Statement& bind(std::int64_t value);
  Statement& bind(std::string_view bytes);  ///< text, any bytes, exactly kept
  Statement& bind_blob(std::string_view bytes);
  Statement& bind_null();

  Statement& bind(Time value) { return bind(epoch_nanoseconds(value)); }

  Statement& bind(Duration value) { return bind(std::int64_t{value.count()}); }

  template <typename T>
  Statement& bind(const std::optional<T>& value) {
    return value ? bind(*value) : bind_null();
  }

  Statement& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }

  Statement& bind(std::uint32_t value) { return bind(std::int64_t{value}); }

  Statement& bind(std::int32_t value) { return bind(std::int64_t{value}); }

  Statement& bind(bool value) { return bind(std::int64_t{value ? 1 : 0}); }

  /// True: there is a row to read. False: done.
  [[nodiscard]] Result<bool> step();
  /// step() for statements that give no row, then ready to be bound again.
  [[nodiscard]] Result<void> run();

  // Columns of the row, read from the left to the right.
  [[nodiscard]] bool is_null() const;
  std::int64_t integer();
  std::string text();

  void skip() { ++column_; }

  std::uint64_t unsigned_integer() { return static_cast<std::uint64_t>(integer()); }

  Time time() { return from_epoch_nanoseconds(integer()); }

  template <typename T>
  void read(T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      value = text();
    } else if constexpr (std::is_same_v<T, Time>) {
      value = time();
    } else if constexpr (std::is_same_v<T, Duration>) {
      value = Duration(integer());
    } else {
      value = static_cast<T>(integer());
    }
  }

  template <typename T>
  void read(std::optional<T>& value) {
    if (is_null()) {
      value.reset();
      skip();
    } else {
      read(value.emplace());
    }
  }

 private:
  friend class Database;
  Statement(class Database& database, sqlite3_stmt* statement, bool* busy);

  Database* database_;
  sqlite3_stmt* statement_;
  bool* busy_;  ///< flag of the cache entry; null: not cached, finalized at the end
  int parameter_ = 0;
  int column_ = 0;
  int bind_error_ = 0;
};

class Database {
 public:
  struct Settings {
    std::filesystem::path path{};
    bool is_writer = false;
    Duration wait_max{};
    std::uint64_t cache_bytes = 0;
    std::uint64_t file_bytes_max = 0;
    bool is_synced = true;
  };

  [[nodiscard]] static Result<std::unique_ptr<Database>> open(const Settings& settings);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] Result<Statement> prepare(std::string_view sql);
  /// One or several statements without parameters or rows.
  [[nodiscard]] Result<void> execute(const char* sql);
  /// A single number that a statement gives; 0 if it gives none.
  [[nodiscard]] Result<std::int64_t> number(std::string_view sql);
  [[nodiscard]] std::int64_t last_row() const;
  [[nodiscard]] std::int64_t changes() const;
  [[nodiscard]] bool in_transaction() const;

 private:
  friend class Statement;

  struct Cached {
    sqlite3_stmt* statement = nullptr;
    bool busy = false;
  };

  explicit Database(std::filesystem::path path) : path_(std::move(path)) {}

  [[nodiscard]] std::unexpected<Error> failure(int code, std::string_view what) const;

  std::filesystem::path path_;
  sqlite3* handle_ = nullptr;
  std::map<std::string, Cached, std::less<>> cache_;
};

}  // namespace vetta::records
