// SPDX-License-Identifier: Apache-2.0
#include "slurm_feed.h"

#include <algorithm>
#include <condition_variable>

#include "core/log.h"

namespace vetta::daemon {
namespace {

constexpr Duration ask_name_every = std::chrono::seconds(5);

/// Ends what runs when this process stops, so that a stop does not wait for a slow slurmctld.
class StoppableRunner final : public sys::CommandRunner {
 public:
  explicit StoppableRunner(std::stop_token stop) : stop_(std::move(stop)) {}

  Result<sys::CommandOutput> run(const sys::Command& command, std::stop_token) override {
    return inner_.run(command, stop_);
  }

 private:
  std::stop_token stop_;
  sys::ProcessRunner inner_;
};

void pause(const std::stop_token& stop, Duration span) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, span, [] { return false; });
}

}  // namespace

std::shared_ptr<sys::CommandRunner> make_runner(std::stop_token stop) {
  return std::make_shared<StoppableRunner>(std::move(stop));
}

slurm::ReaderConfig reader_config(const Options& options) {
  slurm::ReaderConfig config;
  config.cluster = options.cluster;
  config.bin_dir = options.slurm_bin_dir;
  config.conf = options.slurm_conf;
  return config;
}

SlurmFeed::SlurmFeed(const Options& options, ingest::Ingest& ingest,
                     const std::string& known_cluster)
    : options_(options),
      ingest_(ingest),
      cluster_(options.cluster.empty() ? known_cluster : options.cluster),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

SlurmFeed::~SlurmFeed() {
  thread_.request_stop();
  nudge();
  thread_.join();
}

void SlurmFeed::nudge() {
  std::shared_ptr<slurm::Poller> poller;
  {
    const std::scoped_lock lock(mutex_);
    poller = poller_;
  }
  if (poller) poller->nudge();
}

std::string SlurmFeed::cluster() const {
  const std::scoped_lock lock(mutex_);
  return cluster_;
}

std::vector<model::Source> SlurmFeed::sources() const {
  const std::scoped_lock lock(mutex_);
  return poller_ ? poller_->sources() : sources_;
}

model::ControllerLoad SlurmFeed::load() const {
  const std::scoped_lock lock(mutex_);
  return poller_ ? poller_->load() : model::ControllerLoad{};
}

bool SlurmFeed::learn_cluster(slurm::Reader& reader, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto answer = reader.cluster();
    if (answer.is_known()) {
      const std::scoped_lock lock(mutex_);
      if (!cluster_.empty() && cluster_ != answer.value)
        log::warn("cluster_name", "Slurm is now another cluster than the one that was kept",
                  {{"before", cluster_}, {"now", answer.value}});
      cluster_ = answer.value;
      return true;
    }
    if (stop.stop_requested()) return false;
    model::Source source;
    source.name = "slurmctld";
    source.reason = answer.why.text();
    {
      const std::scoped_lock lock(mutex_);
      sources_ = {source};
    }
    log::warn("slurm_unreachable", "could not ask Slurm for its name: " + source.reason);
    pause(stop, ask_name_every);
  }
  return false;
}

void SlurmFeed::take(const slurm::Snapshot& snapshot) {
  if (auto taken = ingest_.take(snapshot); !taken)
    log::error("snapshot", "a reading of Slurm could not be kept: " + taken.error().text());
}

bool SlurmFeed::take(const slurm::Accounting& accounting) {
  if (!accounting.attempts.is_known()) return false;  // the source says why
  auto taken = ingest_.take(accounting);
  if (!taken) log::error("accounting", "accounting could not be kept: " + taken.error().text());
  return taken.has_value();
}

/// A source that stopped or began to answer is an event of the cluster.
void SlurmFeed::note_sources(const std::vector<model::Source>& sources) {
  std::vector<model::Source> before;
  {
    const std::scoped_lock lock(mutex_);
    before = std::exchange(sources_, sources);
  }
  for (const model::Source& source : sources) {
    const auto old = std::ranges::find(before, source.name, &model::Source::name);
    const bool was_known = old != before.end() && old->knowledge == model::Knowledge::known;
    const bool is_known = source.knowledge == model::Knowledge::known;
    const bool is_lost = was_known && !is_known;
    const bool is_back = is_known && lost_.contains(source.name);
    if (!is_lost && !is_back) continue;
    if (is_lost)
      lost_.insert(source.name);
    else
      lost_.erase(source.name);
    model::Event event;
    event.time = now();
    event.kind = is_known ? model::EventKind::source_back : model::EventKind::source_lost;
    event.message = is_known ? source.name + " answers again"
                             : "could not ask " + source.name + ": " + source.reason;
    event.source = "vettad";
    event.dedup = std::string(model::name(event.kind)) + ":" + source.name + ":" +
                  std::to_string(epoch_nanoseconds(event.time));
    log::warn("source", event.message, {{"source", source.name}});
    if (auto taken = ingest_.take(cluster(), event); !taken)
      log::warn("source_event", "an event could not be kept: " + taken.error().text());
  }
}

void SlurmFeed::run(const std::stop_token& stop) {
  slurm::Reader reader(reader_config(options_), make_runner(stop));
  if (!learn_cluster(reader, stop)) return;
  const auto watermark = ingest_.accounting_watermark(cluster());
  if (!watermark)
    log::error("watermark", "where accounting stands is not readable: " + watermark.error().text());
  slurm::PollLimits limits;
  limits.rpcs_per_minute_max = options_.rpcs_per_minute_max;
  slurm::PollerSinks sinks;
  sinks.snapshot = [this](const slurm::Snapshot& snapshot) { take(snapshot); };
  sinks.accounting = [this](const slurm::Accounting& accounting) { return take(accounting); };
  auto poller = std::make_shared<slurm::Poller>(std::move(reader), limits, std::move(sinks),
                                                watermark.value_or(std::nullopt));
  {
    const std::scoped_lock lock(mutex_);
    poller_ = poller;
  }
  poller->run(stop);
}

void SlurmFeed::tick() {
  std::shared_ptr<slurm::Poller> poller;
  {
    const std::scoped_lock lock(mutex_);
    poller = poller_;
  }
  if (poller && !thread_.get_stop_token().stop_requested()) note_sources(poller->sources());
}

}  // namespace vetta::daemon
