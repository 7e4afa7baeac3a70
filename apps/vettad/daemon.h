// SPDX-License-Identifier: Apache-2.0
// vettad composed: state, ingest, Slurm's feed, agents, events, server. Everything starts in the
// constructor's order and ends in the other one.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/agents.h"
#include "api/context.h"
#include "api/event_pump.h"
#include "api/job_counts.h"
#include "api/judgement.h"
#include "http/server.h"
#include "ingest/ingest.h"
#include "options.h"
#include "query/event_hub.h"
#include "query/query.h"
#include "slurm_feed.h"
#include "sys/files.h"

namespace vetta::daemon {

class Daemon {
 public:
  /// Opens the state (one vettad a folder), binds every address, starts all threads.
  [[nodiscard]] static Result<std::unique_ptr<Daemon>> start(const Options& options,
                                                             std::string version);
  /// Takes no more, lets what runs finish for a second, keeps what is acknowledged.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  [[nodiscard]] const std::vector<http::Endpoint>& endpoints() const { return endpoints_; }

 private:
  Daemon(Options options, sys::FileLock lock, std::string version);
  Result<void> open_state();
  void compose(const std::string& known_cluster);
  Result<void> listen(const std::string& token);
  void housekeep(const std::stop_token& stop);
  [[nodiscard]] api::Context make_context();

  Options options_;
  sys::FileLock lock_;
  std::string version_;
  Time started_ = now();
  std::unique_ptr<records::Records> records_;
  std::unique_ptr<series::AttemptFiles> files_;
  std::unique_ptr<series::Store> store_;
  query::EventHub hub_;
  std::unique_ptr<query::Query> query_;
  std::unique_ptr<ingest::Ingest> ingest_;
  std::unique_ptr<SlurmFeed> feed_;
  std::unique_ptr<api::Agents> agents_;
  std::unique_ptr<api::EventPump> pump_;
  api::DiagnosisCache diagnoses_;
  api::JobCountsCache job_counts_;
  std::unique_ptr<api::Context> context_;
  std::unique_ptr<http::Server> server_;
  std::vector<http::Endpoint> endpoints_;
  std::jthread housekeeper_;
};

/// The token in that file; made (mode 0600) if the file is not there.
[[nodiscard]] Result<std::string> read_or_make_token(const std::string& path);

}  // namespace vetta::daemon
