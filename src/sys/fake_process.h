// SPDX-License-Identifier: Apache-2.0
// FakeCommandRunner: the twin of ProcessRunner for tests. Answers are scripted by words that a
// command line must contain; what was run is recorded. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "sys/process.h"

namespace vetta::sys {

class FakeCommandRunner final : public CommandRunner {
 public:
  using Answer = std::function<Result<CommandOutput>(const Command&)>;

  /// For commands whose argv, joined by blanks, contains `words`; the latest script wins.
  void on(std::string words, Answer answer);
  /// Answers with this stdout and exit code 0.
  void on(std::string words, std::string out);
  /// Answers with this exit code and stderr.
  void on_exit(std::string words, int code, std::string error = {});
  void on_error(std::string words, Error error);

  /// A command without a script is Code::not_found.
  [[nodiscard]] Result<CommandOutput> run(const Command& command,
                                          std::stop_token stop = {}) override;
  /// argv joined by blanks, in order of calls.
  [[nodiscard]] std::vector<std::string> calls() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, Answer>> answers_;
  std::vector<std::string> calls_;
};

}  // namespace vetta::sys
