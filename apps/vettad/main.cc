// SPDX-License-Identifier: Apache-2.0
// vettad: reads the settings, starts the daemon, waits for a signal.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "check.h"
#include "core/error_table.h"
#include "core/log.h"
#include "daemon.h"
#include "options.h"
#include "sys/limits.h"
#include "sys/signals.h"

namespace vetta {
namespace {

constexpr const char* version = VETTA_VERSION;

int refuse(const Error& error) {
  Error bare = error;
  bare.hint.clear();
  std::fputs(("vettad: " + bare.text() + "\n").c_str(), stderr);
  if (!error.hint.empty()) std::fputs(("        try: " + error.hint + "\n").c_str(), stderr);
  return exit_code(error.code);
}

int check(const daemon::Options& options) {
  const auto checks = daemon::run_checks(options, daemon::make_runner({}));
  const std::string text =
      options.json ? daemon::checks_json(checks) : daemon::checks_table(checks);
  std::fputs(text.c_str(), stdout);
  return daemon::are_fine(checks) ? exit_fine : exit_unreachable;
}

int run(const daemon::Options& options) {
  // One descriptor a connection.
  if (const auto files = sys::raise_open_files(); !files)
    log::warn("open_files", files.error().text());
  auto signals = sys::Signals::listen({SIGTERM, SIGINT});
  if (!signals) return refuse(signals.error());
  auto started = daemon::Daemon::start(options, version);
  if (!started) return refuse(started.error());
  for (const http::Endpoint& endpoint : (*started)->endpoints())
    log::info("listening", "vettad answers on " + endpoint.text());
  sys::notify_service_manager("READY=1");
  const int signal = signals->wait();
  log::info("stopping", "vettad ends", {{"signal", std::to_string(signal)}});
  sys::notify_service_manager("STOPPING=1");
  started->reset();
  return exit_fine;
}

int start(const std::vector<std::string>& words) {
  const auto options = daemon::read_options(words);
  if (!options) return refuse(options.error());
  switch (options->mode) {
    case daemon::Mode::help: std::fputs(daemon::help_text().c_str(), stdout); return exit_fine;
    case daemon::Mode::version: std::printf("vettad %s\n", version); return exit_fine;
    case daemon::Mode::check: return check(*options);
    case daemon::Mode::check_config:
      std::printf("the settings are fine%s%s\n", options->config.empty() ? "" : ": ",
                  options->config.c_str());
      return exit_fine;
    case daemon::Mode::dump_config:
      std::fputs(daemon::dump_config(*options).c_str(), stdout);
      return exit_fine;
    case daemon::Mode::run: return run(*options);
  }
  return exit_could_not;
}

}  // namespace
}  // namespace vetta

int main(int argc, char** argv) {
  return vetta::start(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
