// SPDX-License-Identifier: Apache-2.0
// vetta-agent: one a node. Options, signals, the loop; the work is src/collect.
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <malloc.h>
#include <string>
#include <vector>

#include "collect/agent.h"
#include "core/error_table.h"
#include "core/log.h"
#include "core/text.h"
#include "options.h"
#include "sys/files.h"
#include "sys/limits.h"
#include "sys/signals.h"

namespace {

using vetta::agent::Options;

int complain(const vetta::Error& error, int code) {
  fmt::print(stderr, "vetta-agent: {}\n", error.text());
  return code;
}

/// What can be found out before the first connection.
vetta::Result<void> check(const Options& options) {
  const std::string& file = options.settings.token_file;
  if (file.empty()) return {};
  const std::string token = VETTA_TRY(vetta::sys::read_file(file, 4096));
  if (vetta::trim(token).empty())
    return vetta::fail(vetta::Code::invalid, fmt::format("the token file {} is empty", file),
                       "copy vettad's token there");
  return {};
}

vetta::Result<void> run(const Options& options) {
  // One descriptor a ring and one a rank's process.
  if (const auto files = vetta::sys::raise_open_files(); !files)
    vetta::log::warn("open_files", files.error().text());
  auto signals = VETTA_TRY(vetta::sys::Signals::listen({SIGINT, SIGTERM}));
  const auto loop = VETTA_TRY(vetta::sys::EventLoop::make());
  const auto agent = VETTA_TRY(vetta::collect::Agent::start(*loop, options.settings));
  VETTA_TRY(loop->watch(signals.fd(), vetta::sys::EventLoop::readable, [&](std::uint32_t) {
    if (signals.next()) loop->stop();
  }));
  vetta::log::info("started", "the agent of this node",
                   {{"node", options.settings.node}, {"version", options.settings.version}});
  vetta::sys::notify_service_manager("READY=1");
  loop->run();
  vetta::sys::notify_service_manager("STOPPING=1");
  vetta::log::info("ended", "by a signal; what is not acknowledged stays in the rings");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  // One arena, and memory that a burst took goes back: the agent's size is a promise.
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_TRIM_THRESHOLD, 128 * 1024);
  const auto options = vetta::agent::parse_options(std::vector<std::string>(argv + 1, argv + argc));
  if (!options) return complain(options.error(), vetta::exit_usage);
  if (options->wants_help) {
    fmt::print("{}", vetta::agent::help());
    return vetta::exit_fine;
  }
  if (options->wants_version) {
    fmt::print("vetta-agent {}\n", options->settings.version);
    return vetta::exit_fine;
  }
  if (options->check_config)
    if (const auto fine = check(*options); !fine) return complain(fine.error(), vetta::exit_usage);
  if (options->check_config || options->dump_config) {
    fmt::print("{}", vetta::agent::dump_config(options->settings));
    return vetta::exit_fine;
  }
  if (options->is_verbose) vetta::log::set_level(vetta::log::Level::debug);
  const auto done = run(*options);
  return done ? vetta::exit_fine : complain(done.error(), vetta::exit_could_not);
}
