// SPDX-License-Identifier: Apache-2.0
// One thread, one poll: stdin, stdout, stderr, the child's end and the caller's cancel.
#include "sys/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/text.h"
#include "sys/fd.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace vetta::sys {
namespace {

using std::chrono::milliseconds;

/// How long output is still read after the end when a grandchild holds the pipe open.
constexpr Duration drain_max = milliseconds(200);
/// Where the kernel has no pidfd: how often the end is looked for.
constexpr int wait_poll_ms = 10;

struct Pipe {
  Fd read, write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("make a pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

void set_nonblocking(const Fd& fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

struct Child {
  pid_t pid = 0;
  Pipe in, out, error;
};

/// posix_spawn's argument objects with their destruction.
struct SpawnArguments {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};

  SpawnArguments() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }

  SpawnArguments(const SpawnArguments&) = delete;
  SpawnArguments& operator=(const SpawnArguments&) = delete;

  ~SpawnArguments() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
};

void prepare(SpawnArguments& arguments, const Child& child, const std::string& folder) {
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&arguments.attributes, &none);
  ::posix_spawnattr_setsigdefault(&arguments.attributes, &all);
  ::posix_spawnattr_setpgroup(&arguments.attributes, 0);
  ::posix_spawnattr_setflags(&arguments.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                        POSIX_SPAWN_SETSIGDEF);
  ::posix_spawn_file_actions_adddup2(&arguments.actions, child.in.read.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&arguments.actions, child.out.write.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&arguments.actions, child.error.write.get(), STDERR_FILENO);
#if __GLIBC_PREREQ(2, 34)  // older: only what lacks close-on-exec (nothing of ours) is passed on
  ::posix_spawn_file_actions_addclosefrom_np(&arguments.actions, STDERR_FILENO + 1);
#endif
  if (!folder.empty()) ::posix_spawn_file_actions_addchdir_np(&arguments.actions, folder.c_str());
}

/// A pipe end numbered 0 to 2 (this process runs without stdio) would be lost in the dup2 calls.
Result<void> lift(Fd& fd) {
  if (fd.get() > STDERR_FILENO) return {};
  const int high = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (high < 0) return fail_errno("duplicate a descriptor", errno);
  fd.reset(high);
  return {};
}

Result<Child> spawn(const Command& command) {
  if (command.argv.empty()) return fail(Code::invalid, "run a program without a name");
  Child child;
  child.in = VETTA_TRY(make_pipe());
  child.out = VETTA_TRY(make_pipe());
  child.error = VETTA_TRY(make_pipe());
  for (Fd* end : {&child.in.read, &child.out.write, &child.error.write}) VETTA_TRY(lift(*end));
  SpawnArguments arguments;
  prepare(arguments, child, command.folder);
  const std::vector<char*> argv = pointers(command.argv);
  std::vector<char*> env;
  if (command.env) env = pointers(*command.env);
  const int error = ::posix_spawnp(&child.pid, argv[0], &arguments.actions, &arguments.attributes,
                                   argv.data(), command.env ? env.data() : environ);
  if (error != 0) return fail_errno(fmt::format("run {}", command.argv[0]), error);
  child.in.read.reset();
  child.out.write.reset();
  child.error.write.reset();
  for (const Fd* end : {&child.in.write, &child.out.read, &child.error.read}) set_nonblocking(*end);
  return child;
}

enum class Flow { open, closed, overflow };

/// Reads what is there. Beyond `limit`: overflow, or (with `cut`) read and thrown away.
Flow take(const Fd& fd, std::string& into, std::size_t limit, bool* cut) {
  std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN ? Flow::open : Flow::closed;
    if (n == 0) return Flow::closed;
    const std::size_t room = limit - into.size();
    const auto size = static_cast<std::size_t>(n);
    into.append(buffer.data(), std::min(room, size));
    if (size <= room) continue;
    if (cut == nullptr) return Flow::overflow;
    *cut = true;
  }
}

/// One run: owns the child until it is reaped; the destructor kills and reaps what is left.
class Run {
 public:
  Run(const Command& command, Child child)
      : command_(command), child_(std::move(child)), begin_(monotonic_now()) {
    pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, child_.pid, 0)));
    if (command_.input.empty()) child_.in.write.reset();
  }

  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  ~Run() {
    if (is_reaped_) return;
    kill_group();
    while (::waitpid(child_.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  Result<CommandOutput> wait(const std::stop_token& stop) {
    const Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const std::stop_callback on_stop(stop, [&wake] {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t n = ::write(wake.get(), &one, sizeof one);
    });
    while (!is_done()) {
      const Duration elapsed = monotonic_now() - begin_;
      if (elapsed >= command_.timeout)
        return fail(Code::timeout,
                    fmt::format("{} did not end within {}", line(), human(command_.timeout)));
      poll_once(wake, command_.timeout - elapsed);
      if (stop.stop_requested()) return fail(Code::unavailable, line() + " was cancelled");
      VETTA_TRY(move_bytes());
      reap();
    }
    if (child_.out.read || child_.error.read) kill_group();  // grandchildren that hold the pipes
    output_.elapsed = monotonic_now() - begin_;
    return std::move(output_);
  }

 private:
  [[nodiscard]] std::string line() const {
    return one_line(fmt::format("{}", fmt::join(command_.argv, " ")), 120);
  }

  [[nodiscard]] bool is_done() const {
    if (!is_reaped_) return false;
    return (!child_.out.read && !child_.error.read) || monotonic_now() - end_ > drain_max;
  }

  void kill_group() const {
    ::kill(-child_.pid, SIGKILL);
    if (!is_reaped_) ::kill(child_.pid, SIGKILL);  // it may not have its group yet
  }

  void poll_once(const Fd& wake, Duration left) {
    std::array<pollfd, 5> fds{};
    fds[0] = {wake.get(), POLLIN, 0};
    fds[1] = {is_reaped_ ? -1 : pidfd_.get(), POLLIN, 0};
    fds[2] = {child_.out.read.get(), POLLIN, 0};
    fds[3] = {child_.error.read.get(), POLLIN, 0};
    fds[4] = {child_.in.write.get(), POLLOUT, 0};
    auto wait = static_cast<int>(
        std::min<Duration::rep>(std::chrono::ceil<milliseconds>(left).count(), 60'000));
    if (is_reaped_) wait = std::min(wait, static_cast<int>(drain_max / milliseconds(1)));
    if (!pidfd_ && !is_reaped_) wait = std::min(wait, wait_poll_ms);
    ::poll(fds.data(), fds.size(), wait);
  }

  Result<void> move_bytes() {
    if (child_.in.write) feed();
    if (child_.out.read) {
      const Flow flow = take(child_.out.read, output_.out, command_.out_max, nullptr);
      if (flow == Flow::overflow)
        return fail(Code::exhausted,
                    fmt::format("{} wrote more than {} bytes", line(), command_.out_max));
      if (flow == Flow::closed) child_.out.read.reset();
    }
    if (child_.error.read && take(child_.error.read, output_.error, command_.error_max,
                                  &output_.is_error_cut) == Flow::closed)
      child_.error.read.reset();
    return {};
  }

  void feed() {
    const std::string_view rest = std::string_view(command_.input).substr(fed_);
    const ssize_t n = ::write(child_.in.write.get(), rest.data(), rest.size());
    if (n > 0) fed_ += static_cast<std::size_t>(n);
    const bool is_broken = n < 0 && errno != EAGAIN && errno != EINTR;
    if (is_broken || fed_ == command_.input.size()) child_.in.write.reset();
  }

  void reap() {
    if (is_reaped_) return;
    int status = 0;
    if (::waitpid(child_.pid, &status, WNOHANG) != child_.pid) return;
    is_reaped_ = true;
    end_ = monotonic_now();
    output_.status = exit_status_of_wait(status);
  }

  const Command& command_;
  Child child_;
  Duration begin_;
  Fd pidfd_;
  CommandOutput output_;
  std::size_t fed_ = 0;
  bool is_reaped_ = false;
  Duration end_{};
};

/// Writing to a program that does not read must not end this one.
class NoSigpipe {
 public:
  NoSigpipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }

  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

  ~NoSigpipe() {
    if (::sigismember(&before_, SIGPIPE) == 0) {
      const timespec now{};
      while (::sigtimedwait(&pipe_, nullptr, &now) > 0) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{}, before_{};
};

}  // namespace

std::string ExitStatus::text() const {
  if (code) return fmt::format("exit code {}", *code);
  if (!signal) return "an unknown status";
  const char* words = ::sigabbrev_np(*signal);
  return fmt::format("signal {} ({})", *signal, words == nullptr ? "?" : words);
}

ExitStatus exit_status_of_wait(int status) {
  ExitStatus out;
  if (WIFEXITED(status)) out.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) out.signal = WTERMSIG(status);
  return out;
}

Result<CommandOutput> ProcessRunner::run(const Command& command, std::stop_token stop) {
  if (stop.stop_requested()) return fail(Code::unavailable, "cancelled before the start");
  const NoSigpipe guard;
  Run run(command, VETTA_TRY(spawn(command)));
  return run.wait(stop);
}

Result<std::string> run_for_output(CommandRunner& runner, const Command& command,
                                   std::stop_token stop) {
  CommandOutput output = VETTA_TRY(runner.run(command, std::move(stop)));
  if (output.status.is_success()) return std::move(output.out);
  std::string_view error = trim(output.error);
  if (const std::size_t line = error.find_last_of('\n'); line != std::string_view::npos)
    error.remove_prefix(line + 1);
  return fail(Code::unavailable,
              fmt::format("{} ended with {}{}{}", command.argv[0], output.status.text(),
                          error.empty() ? "" : ": ", one_line(error)));
}

}  // namespace vetta::sys
