// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/text.h"
#include "http/client.h"
#include "http/server.h"
#include "model/json.h"
#include "slurm/reader.h"
#include "slurm_feed.h"
#include "sys/files.h"

namespace vetta::daemon {
namespace {

Check fine(std::string name, std::string detail) {
  return {.name = std::move(name), .is_fine = true, .detail = std::move(detail), .hint = {}};
}

Check failed(std::string name, const Error& error) {
  Error bare = error;
  bare.hint.clear();
  return {.name = std::move(name),
          .is_fine = false,
          .detail = one_line(bare.text()),
          .hint = error.hint};
}

template <typename T, typename Describe>
Check of_answer(std::string name, const slurm::Answer<T>& answer, const Describe& describe) {
  if (!answer.is_known()) return failed(std::move(name), answer.why);
  return fine(std::move(name), describe(answer.value) + fmt::format(" in {}", human(answer.took)));
}

void add_slurm(std::vector<Check>& checks, const Options& options,
               const std::shared_ptr<sys::CommandRunner>& runner) {
  // Slurm's programs would look for it, wait, and blame the controller.
  if (const std::string& file = options.slurm_conf;
      !file.empty() && access(file.c_str(), R_OK) != 0) {
    Error error = fail_errno("read " + file, errno).error();
    error.hint = "name slurm.conf with --slurm-conf FILE, slurm_conf in vettad.toml or SLURM_CONF";
    checks.push_back(failed("slurm_conf", error));
    return;
  }
  slurm::ReaderConfig config = reader_config(options);
  config.timeout = std::chrono::seconds(15);
  slurm::Reader reader(config, runner);
  const auto version = reader.version();
  checks.push_back(of_answer("slurm_programs", version,
                             [](const slurm::Version& v) { return "Slurm " + v.text; }));
  if (!version.is_known()) return;
  checks.push_back(of_answer("cluster", reader.cluster(),
                             [](const std::string& name) { return "its name is " + name; }));
  checks.push_back(of_answer("slurmctld", reader.nodes(), [](const auto& nodes) {
    return fmt::format("it told {} nodes", nodes.size());
  }));
  const Time until = now();
  checks.push_back(of_answer("slurmdbd", reader.accounting(until - std::chrono::minutes(10), until),
                             [](const auto& attempts) {
                               return fmt::format("accounting told {} jobs of the last 10 minutes",
                                                  attempts.size());
                             }));
}

/// The folder, or the lowest one above it that is there.
std::string existing(std::string folder) {
  while (folder.size() > 1 && access(folder.c_str(), F_OK) != 0) folder = sys::folder_of(folder);
  return folder;
}

/// Tried, not asked: root may by the mode where the file system does not let it.
Result<void> can_write(const std::string& folder) {
  std::string scratch = folder + "/.vetta-check-XXXXXX";
  if (mkdtemp(scratch.data()) == nullptr) return fail_errno("write in " + folder, errno);
  if (rmdir(scratch.c_str()) != 0) return fail_errno("remove " + scratch, errno);
  return {};
}

Check check_state(const Options& options) {
  const std::string up = existing(options.state);
  if (auto written = can_write(up); !written) {
    Error error = std::move(written.error());
    error.hint = "name another folder with --state DIR";
    return failed("state", error);
  }
  return fine("state",
              options.state + (up == options.state ? " can be written to" : " can be made"));
}

/// Whether a vettad answers there already: then this one could not listen, but nothing is broken.
bool is_answered(const http::Endpoint& endpoint) {
  http::ClientOptions client;
  client.server = http::parse_server(endpoint.text()).value_or(http::ServerAddress{});
  client.connect_time_max = std::chrono::seconds(1);
  client.time_max = std::chrono::seconds(2);
  const auto reply = http::Client(std::move(client)).request(http::Method::get, "/healthz");
  return reply && reply->status == 200;
}

Check check_socket(const std::string& address) {
  const std::string name = "listen";
  const auto endpoint = http::parse_listen(address);
  if (!endpoint) return failed(name, endpoint.error());
  if (endpoint->is_unix || endpoint->port != 0)
    if (is_answered(*endpoint)) return fine(name, "a vettad answers on " + endpoint->text());
  if (endpoint->is_unix) {
    if (auto written = can_write(existing(sys::folder_of(endpoint->path))); !written) {
      Error error = std::move(written.error());
      error.hint = "name another with --listen unix:PATH";
      return failed(name, error);
    }
    return fine(name, endpoint->text() + " is free");
  }
  http::Server server({}, http::Router());
  const auto bound = server.listen(*endpoint);
  if (!bound) return failed(name, bound.error());
  return fine(name, endpoint->text() + " is free");
}

}  // namespace

std::vector<Check> run_checks(const Options& options,
                              const std::shared_ptr<sys::CommandRunner>& runner) {
  std::vector<Check> checks;
  add_slurm(checks, options, runner);
  checks.push_back(check_state(options));
  for (const std::string& address : options.listen) checks.push_back(check_socket(address));
  return checks;
}

bool are_fine(const std::vector<Check>& checks) {
  return std::ranges::all_of(checks, &Check::is_fine);
}

std::string checks_table(const std::vector<Check>& checks) {
  std::string out;
  for (const Check& check : checks) {
    std::string name = check.name;
    name.resize(std::max<std::size_t>(name.size(), 15), ' ');
    out += fmt::format("{}  {}  {}\n", name, check.is_fine ? "reached    " : "NOT reached",
                       check.detail);
    if (!check.hint.empty()) out += fmt::format("{:32}try: {}\n", "", check.hint);
  }
  return out;
}

std::string checks_json(const std::vector<Check>& checks) {
  model::Json list = model::Json::array();
  for (const Check& check : checks)
    list.push_back(
        {{"name", check.name},
         {"is_reached", check.is_fine},
         {"detail", to_utf8(check.detail)},
         {"hint", check.hint.empty() ? model::Json(nullptr) : model::Json(to_utf8(check.hint))}});
  return model::dump({{"schema", 1}, {"is_fine", are_fine(checks)}, {"checks", list}}) + "\n";
}

}  // namespace vetta::daemon
