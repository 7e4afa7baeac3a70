// SPDX-License-Identifier: Apache-2.0
// The pool of reading connections, and a Reader's hold on one of them.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "records/database_detail.h"
#include "records/reader.h"

namespace vetta::records {

/// At most `size` connections, made when first needed. Thread-safe.
class Pool {
 public:
  Pool(std::size_t size, Duration wait_max) : size_(size), wait_max_(wait_max) {}

  [[nodiscard]] Result<std::unique_ptr<Database>> take(
      const std::function<Result<std::unique_ptr<Database>>()>& make);
  void give_back(std::unique_ptr<Database> database);

 private:
  const std::size_t size_;
  const Duration wait_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Database>> free_;
  std::size_t lent_ = 0;
};

struct Reader::Lease {
  Database* database = nullptr;
  std::unique_ptr<Database> owned;  ///< empty within a write
  std::shared_ptr<Pool> pool;
};

}  // namespace vetta::records
