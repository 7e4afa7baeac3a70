// SPDX-License-Identifier: Apache-2.0
#include "daemon.h"

#include <condition_variable>
#include <mutex>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/access.h"
#include "api/route_table.h"
#include "core/log.h"
#include "core/text.h"
#include "model/viewer.h"

namespace vetta::daemon {
namespace {

constexpr std::uint64_t records_bytes_max = 16ULL << 30U;
constexpr Duration ingest_tick_every = std::chrono::seconds(5);
constexpr Duration expect_agents_of = std::chrono::hours(1);  ///< seen within it: expected back

Result<std::string> make_token() {
  std::array<unsigned char, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail_errno("get random bytes for a token", errno);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string token;
  for (const unsigned char byte : bytes) {
    token += digits[byte >> 4U];
    token += digits[byte & 15U];
  }
  return token;
}

model::Viewer itself() {
  return {.uid = geteuid(), .is_operator = true};
}

}  // namespace

Result<std::string> read_or_make_token(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) {
    if ((status.st_mode & 077U) != 0)
      return fail(Code::denied, "the token file " + path + " can be read by others",
                  "chmod 600 " + path);
    const std::string text = VETTA_TRY(sys::read_file(path, 4096));
    const std::string token(trim(text));
    if (token.size() < 32)
      return fail(Code::invalid, "the token file " + path + " holds fewer than 32 characters",
                  "remove it: vettad makes a new one at its next start");
    return token;
  }
  const std::string token = VETTA_TRY(make_token());
  VETTA_TRY(sys::make_folders(sys::folder_of(path)));
  VETTA_TRY(sys::write_atomically(path, token + "\n", 0600));
  return token;
}

Daemon::Daemon(Options options, sys::FileLock lock, std::string version)
    : options_(std::move(options)), lock_(std::move(lock)), version_(std::move(version)) {}

Result<std::unique_ptr<Daemon>> Daemon::start(const Options& options, std::string version) {
  VETTA_TRY(sys::make_folders(options.state, 0700));
  auto lock = VETTA_TRY(sys::FileLock::acquire(options.state + "/lock"));
  const std::string token = VETTA_TRY(read_or_make_token(options.token_file));
  std::unique_ptr<Daemon> daemon(new Daemon(options, std::move(lock), std::move(version)));
  VETTA_TRY(daemon->open_state());
  std::string known;
  const auto clusters = VETTA_TRY(daemon->query_->clusters(itself()));
  if (clusters.size() == 1) known = clusters.front();
  daemon->compose(known);
  VETTA_TRY(daemon->listen(token));
  return daemon;
}

Result<void> Daemon::open_state() {
  records_ = VETTA_TRY(records::Records::open(
      {.path = options_.state + "/records.sqlite", .file_bytes_max = records_bytes_max}));
  files_ = VETTA_TRY(series::AttemptFiles::open({.dir = options_.state + "/attempts"}));
  store_ = VETTA_TRY(series::Store::open({.dir = options_.state + "/series"}));
  query::Options rights;
  rights.visibility =
      options_.visibility == "own" ? query::Visibility::own : query::Visibility::open;
  query_ = std::make_unique<query::Query>(*records_, *files_, *store_, rights);
  return {};
}

void Daemon::compose(const std::string& known_cluster) {
  ingest::Hooks hooks;
  hooks.nudge = [this](const std::string&) {
    if (feed_) feed_->nudge();
  };
  hooks.event = [this](const model::Event& event) { hub_.publish(event); };
  ingest::Options keep;
  keep.keep = options_.keep;
  keep.keep_series = options_.keep_series;
  ingest_ = std::make_unique<ingest::Ingest>(*records_, *files_, *store_, std::move(hooks), keep);
  feed_ = std::make_unique<SlurmFeed>(options_, *ingest_, known_cluster);
  api::AgentsOptions agents;
  agents.sample_period = options_.sample_period;
  agents_ = std::make_unique<api::Agents>(
      *ingest_, [feed = feed_.get()] { return feed->cluster(); }, agents);
  pump_ = std::make_unique<api::EventPump>(hub_, *query_, *agents_);
  if (const auto known = query_->agents(itself()))
    for (const records::AgentRow& agent : *known)
      if (started_ - agent.last_batch < expect_agents_of) agents_->expect(agent, started_);
  context_ = std::make_unique<api::Context>(make_context());
  housekeeper_ = std::jthread([this](const std::stop_token& stop) { housekeep(stop); });
}

api::Context Daemon::make_context() {
  return {.query = *query_,
          .ingest = *ingest_,
          .agents = *agents_,
          .events = *pump_,
          .diagnoses = diagnoses_,
          .job_counts = job_counts_,
          .cluster = [this] { return feed_->cluster(); },
          .sources = [this] { return feed_->sources(); },
          .load = [this] { return feed_->load(); },
          .http_meters = [this] { return server_ ? server_->meters() : http::Meters{}; },
          .records_bytes = [this] { return records_->file_bytes(); },
          .series_bytes = [this] { return store_->bytes(); },
          .version = version_,
          .started = started_};
}

Result<void> Daemon::listen(const std::string& token) {
  http::ServerOptions server;
  server.threads = static_cast<unsigned>(options_.threads);
  server.authenticate = api::make_authenticate({.token = token, .own_uid = geteuid()});
  server_ = std::make_unique<http::Server>(std::move(server), api::make_router(*context_));
  for (const std::string& address : options_.listen) {
    const auto endpoint = VETTA_TRY(http::parse_listen(address));
    if (endpoint.is_unix) VETTA_TRY(sys::make_folders(sys::folder_of(endpoint.path)));
    endpoints_.push_back(VETTA_TRY(server_->listen(endpoint)));
  }
  server_->start();
  if (options_.port_file.empty()) return {};
  for (const http::Endpoint& endpoint : endpoints_)
    if (!endpoint.is_unix)
      return sys::write_atomically(options_.port_file, std::to_string(endpoint.port) + "\n");
  return fail(Code::invalid, "there is no port to write to " + options_.port_file,
              "add --listen 127.0.0.1:0");
}

void Daemon::housekeep(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  Duration next_ingest = monotonic_now();
  std::unique_lock lock(mutex);
  while (
      !wake.wait_for(lock, stop, std::chrono::seconds(1), [&] { return stop.stop_requested(); })) {
    const Time at = now();
    agents_->tick(at);
    pump_->tick(at);
    feed_->tick();
    if (monotonic_now() < next_ingest) continue;
    next_ingest = monotonic_now() + ingest_tick_every;
    if (auto done = ingest_->tick(at); !done) log::error("housekeeping", done.error().text());
  }
}

Daemon::~Daemon() {
  if (server_) server_->stop(std::chrono::milliseconds(500));
  housekeeper_ = {};
  hub_.close();
  pump_.reset();
  agents_.reset();
  feed_.reset();
  if (store_) {
    if (auto synced = store_->sync(); !synced) log::error("stop", synced.error().text());
  }
}

}  // namespace vetta::daemon
