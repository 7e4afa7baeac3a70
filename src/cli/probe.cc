// SPDX-License-Identifier: Apache-2.0
// `vetta probe exec`: runs a program with the probe injected. Where an agent is, it only sets the
// environment and becomes the program. Elsewhere the ranks write their rings into a folder of our
// own, and when the program has ended the rings are judged.
#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/rings.h"
#include "cli/screen.h"
#include "core/environment.h"
#include "core/error_table.h"
#include "core/text.h"
#include "diagnose/slow_rank.h"

namespace vetta::cli {
namespace {

namespace fs = std::filesystem;

struct ExecArguments {
  Common common;
  std::vector<std::string> command;
  bool keep_rings = false;
};

/// The folder that holds vetta_probe: named, beside the program (installed or built), or the
/// system's.
Result<std::string> python_folder() {
  std::vector<std::string> candidates;
  if (const std::string named = environment_variable("VETTA_PYTHON_DIR"); !named.empty()) {
    candidates.push_back(named);
  } else {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    if (!error) {
      const fs::path prefix = program.parent_path().parent_path();
      candidates.push_back((prefix / "lib" / "vetta" / "python").string());
      candidates.push_back((prefix.parent_path().parent_path() / "python").string());
    }
    candidates.emplace_back("/usr/lib/vetta/python");
  }
  for (const std::string& folder : candidates)
    if (access((folder + "/vetta_probe/inject/sitecustomize.py").c_str(), R_OK) == 0) return folder;
  return fail(Code::not_found, "find the Python package vetta_probe: it is not in " + candidates[0],
              "set VETTA_PYTHON_DIR to the folder that holds vetta_probe");
}

void set_probe_environment(const std::string& python) {
  const std::string before = environment_variable("PYTHONPATH");
  const std::string path =
      python + "/vetta_probe/inject:" + python + (before.empty() ? "" : ":" + before);
  setenv("PYTHONPATH", path.c_str(), 1);
  setenv("VETTA_PROBE", "1", 1);
}

/// The agent's socket of this node, if one is known or there: `VETTA_SOCKET`, which the plugin
/// sets; else, in a job, `${VETTA_RUNDIR:-/run/vetta}/$SLURMD_NODENAME/probe.sock`. Empty: none.
/// vetta_probe/_hello.py has the same rule.
std::string agent_socket() {
  std::string socket = environment_variable("VETTA_SOCKET");
  const std::string node = environment_variable("SLURMD_NODENAME");
  if (!socket.empty() || node.empty() || environment_variable("SLURM_JOB_ID").empty())
    return socket;
  std::string rundir = environment_variable("VETTA_RUNDIR");
  if (rundir.empty()) rundir = "/run/vetta";
  socket = rundir + "/" + node + "/probe.sock";
  return access(socket.c_str(), F_OK) == 0 ? socket : "";
}

int exec_failure(int error) {
  return error == ENOENT || error == ENOTDIR ? exit_not_found : exit_not_executable;
}

/// Becomes the program; comes back only if that cannot be.
int become(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  std::fputs(("vetta: run " + one_line(command[0]) + ": " + errno_text(error) + "\n").c_str(),
             stderr);
  return exec_failure(error);
}

pid_t child_pid = 0;

void forward(int signal) {
  if (child_pid > 0) kill(child_pid, signal);
}

/// Runs the program as a child; ^C reaches it from the terminal, SIGTERM and SIGHUP through us.
Result<int> run_child(const std::vector<std::string>& command) {
  child_pid = fork();
  if (child_pid < 0) return fail_errno("start " + one_line(command[0]), errno);
  if (child_pid == 0) _exit(become(command));
  struct sigaction action{};
  action.sa_handler = forward;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGQUIT, &action, nullptr);
  int status = 0;
  while (waitpid(child_pid, &status, 0) < 0)
    if (errno != EINTR) return fail_errno("wait for " + one_line(command[0]), errno);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void tell(const Result<model::StepTable>& table, int code, const ExecArguments& arguments) {
  if (!table) {
    end_with(table.error(), arguments.common.json);
    return;
  }
  if (table->ranks.empty()) {
    const std::string why =
        code != exit_fine
            ? fmt::format("the program ended with exit code {} before any step", code)
            : "no rank sent step marks: the program used no PyTorch optimizer, or VETTA_PROBE was "
              "turned off";
    if (!arguments.common.json) std::fputs(("vetta: " + why + "\n").c_str(), stderr);
    return;
  }
  const Json diagnosis = model::to_json(diagnose::diagnose(*table));
  Terminal terminal = Terminal::detect();
  terminal.has_color = terminal.has_color && isatty(STDERR_FILENO) == 1;
  const std::string text = arguments.common.json
                               ? model::dump({{"schema", 1}, {"diagnosis", diagnosis}}) + "\n"
                               : "\n" + diagnosis_screen(diagnosis, terminal);
  std::fputs(text.c_str(), stderr);
}

int run_and_judge(const ExecArguments& arguments) {
  std::string folder = (fs::temp_directory_path() / "vetta-probe-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    end_with(fail_errno("make a folder for the marks", errno).error(), arguments.common.json);
    return exit_own_failure;
  }
  setenv("VETTA_RING_DIR", folder.c_str(), 1);
  const auto code = run_child(arguments.command);
  if (!code) {
    end_with(code.error(), arguments.common.json);
  } else if (*code != exit_not_found && *code != exit_not_executable) {
    tell(read_rings(folder), *code, arguments);
  }
  std::error_code ignored;
  if (arguments.keep_rings)
    std::fputs(("vetta: the rings are in " + folder + "\n").c_str(), stderr);
  else
    fs::remove_all(folder, ignored);
  return code.value_or(exit_own_failure);
}

int run_exec(const ExecArguments& arguments) {
  if (arguments.command.empty()) {
    end_with(fail(Code::invalid, "probe exec needs a program to run",
                  "vetta probe exec -- python3 train.py")
                 .error(),
             arguments.common.json);
    return exit_usage;
  }
  if (environment_variable("VETTA_PROBE") == "0") return become(arguments.command);
  const auto python = python_folder();
  if (!python) {
    end_with(python.error(), arguments.common.json);
    return exit_own_failure;
  }
  set_probe_environment(*python);
  if (const std::string socket = agent_socket(); !socket.empty()) {
    setenv("VETTA_SOCKET", socket.c_str(), 1);
    return become(arguments.command);
  }
  if (!environment_variable("VETTA_RING_DIR").empty()) return become(arguments.command);
  return run_and_judge(arguments);
}

}  // namespace

void add_probe_commands(CLI::App& root, Plan& plan) {
  CLI::App* noun = root.add_subcommand("probe", "Step marks without a change to the code: exec");
  noun->set_help_flag("-h,--help", "Show this help");
  add_examples(*noun,
               "vetta probe exec -- python3 train.py\n"
               "srun vetta probe exec -- python3 train.py");
  auto arguments = std::make_shared<ExecArguments>();
  CLI::App* exec = noun->add_subcommand(
      "exec", "Runs a program with the probe injected into its Python, and gives its exit code");
  add_examples(*exec,
               "vetta probe exec -- torchrun --nproc_per_node 8 train.py\n"
               "srun vetta probe exec -- python3 train.py\n"
               "VETTA_PROBE=0 vetta probe exec -- python3 train.py    runs it untouched");
  exec->add_flag("--json", arguments->common.json, "The diagnosis on stderr as one JSON value");
  exec->add_flag("--keep-rings", arguments->keep_rings,
                 "Outside Slurm: leave the ranks' rings for a look with vetta_probe.dump");
  exec->callback([&plan, arguments] {
    plan.is_json = arguments->common.json;
    plan.run = [arguments, &plan] {
      arguments->command = plan.rest;
      return run_exec(*arguments);
    };
  });
}

}  // namespace vetta::cli
