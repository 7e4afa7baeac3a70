// SPDX-License-Identifier: Apache-2.0
// What the routes stand on; composed by the program, outlives the server.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/time.h"
#include "http/server.h"
#include "ingest/ingest.h"
#include "model/cluster.h"
#include "query/query.h"

namespace vetta::api {

class Agents;
class EventPump;
class DiagnosisCache;
class JobCountsCache;

/// All functions may be called from any thread.
struct Context {
  const query::Query& query;
  ingest::Ingest& ingest;
  Agents& agents;
  EventPump& events;
  DiagnosisCache& diagnoses;
  JobCountsCache& job_counts;
  std::function<std::string()> cluster;  ///< empty until it is known
  std::function<std::vector<model::Source>()> sources;
  std::function<model::ControllerLoad()> load;
  std::function<http::Meters()> http_meters;
  std::function<std::uint64_t()> records_bytes, series_bytes;
  std::string version;
  Time started;
};

}  // namespace vetta::api
