// SPDX-License-Identifier: Apache-2.0
// Runs programs: no shell, a time limit, bounded output, cancellation. The program gets its own
// process group, and the whole group is killed when the limit passes, output overflows or the
// caller cancels. CommandRunner is the seam: ProcessRunner is real, FakeCommandRunner
// (sys/fake_process.h) is scripted. Thread-safety: run() may be called from any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/time.h"

namespace vetta::sys {

struct Command {
  std::vector<std::string> argv;                ///< argv[0] without a slash is looked up in PATH
  std::optional<std::vector<std::string>> env;  ///< "NAME=value"; empty: this process's own
  std::string input;                            ///< given on stdin, then end of file
  std::string folder;                           ///< working folder; empty: this process's own
  Duration timeout = std::chrono::seconds(30);
  std::size_t out_max = std::size_t{64} << 20U;    ///< stdout beyond it kills: Code::exhausted
  std::size_t error_max = std::size_t{64} << 10U;  ///< stderr beyond it is read and thrown away
};

struct ExitStatus {
  std::optional<int> code;    ///< it ended by itself
  std::optional<int> signal;  ///< a signal ended it

  [[nodiscard]] bool is_success() const { return code == 0; }

  /// "exit code 3", "signal 9 (Killed)".
  [[nodiscard]] std::string text() const;
  auto operator<=>(const ExitStatus&) const = default;
};

/// From wait(2)'s status word.
[[nodiscard]] ExitStatus exit_status_of_wait(int status);

struct CommandOutput {
  std::string out, error;
  bool is_error_cut = false;  ///< stderr was longer than error_max
  ExitStatus status;
  Duration elapsed{};
};

class CommandRunner {
 public:
  CommandRunner() = default;
  CommandRunner(const CommandRunner&) = delete;
  CommandRunner& operator=(const CommandRunner&) = delete;
  virtual ~CommandRunner() = default;

  /// Waits for the end. A program that ends with any status is a value; errors are: not_found or
  /// denied (cannot be run), timeout, exhausted (stdout too long), unavailable (cancelled).
  [[nodiscard]] virtual Result<CommandOutput> run(const Command& command,
                                                  std::stop_token stop = {}) = 0;
};

class ProcessRunner final : public CommandRunner {
 public:
  [[nodiscard]] Result<CommandOutput> run(const Command& command,
                                          std::stop_token stop = {}) override;
};

/// run() and in addition: any status but 0 is an error (unavailable) with stderr's last line.
[[nodiscard]] Result<std::string> run_for_output(CommandRunner& runner, const Command& command,
                                                 std::stop_token stop = {});

}  // namespace vetta::sys
