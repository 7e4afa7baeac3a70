// SPDX-License-Identifier: Apache-2.0
#include "sys/fake_process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ranges>

namespace vetta::sys {

void FakeCommandRunner::on(std::string words, Answer answer) {
  const std::lock_guard lock(mutex_);
  answers_.emplace_back(std::move(words), std::move(answer));
}

void FakeCommandRunner::on(std::string words, std::string out) {
  on(std::move(words), [out = std::move(out)](const Command&) -> Result<CommandOutput> {
    CommandOutput output;
    output.out = out;
    output.status.code = 0;
    return output;
  });
}

void FakeCommandRunner::on_exit(std::string words, int code, std::string error) {
  on(std::move(words), [code, error = std::move(error)](const Command&) -> Result<CommandOutput> {
    CommandOutput output;
    output.error = error;
    output.status.code = code;
    return output;
  });
}

void FakeCommandRunner::on_error(std::string words, Error error) {
  on(std::move(words), [error = std::move(error)](const Command&) -> Result<CommandOutput> {
    return std::unexpected(error);
  });
}

Result<CommandOutput> FakeCommandRunner::run(const Command& command, std::stop_token stop) {
  const std::string line = fmt::format("{}", fmt::join(command.argv, " "));
  Answer answer;
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(line);
    for (const auto& [words, scripted] : answers_ | std::views::reverse) {
      if (line.find(words) == std::string::npos) continue;
      answer = scripted;
      break;
    }
  }
  if (stop.stop_requested()) return fail(Code::unavailable, fmt::format("run {}: cancelled", line));
  if (!answer) return fail(Code::not_found, fmt::format("run {}: no such program", line));
  return answer(command);
}

std::vector<std::string> FakeCommandRunner::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

}  // namespace vetta::sys
