// SPDX-License-Identifier: Apache-2.0
// What comes in becomes records and series, once: Slurm's snapshots and accounting, agents'
// batches. Everything is idempotent: the same thing told twice, in another order or again after a
// restart changes nothing. A batch is acknowledged only when it is on disk.
//
// Ranks are placed by (cluster, job id, restart, time, user, node); those of a job that Slurm has
// not shown yet stay `unplaced`: their marks stay with the agent, all else is kept here until the
// job is known. An empty or failed answer never means that a job is gone: a job that Slurm lists no
// longer is kept open, with the reason, until accounting tells its end. Thread-safety: all
// functions may be called from any thread; they queue.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "model/wire.h"
#include "records/records.h"
#include "series/attempt_file.h"
#include "series/store.h"
#include "slurm/snapshot.h"

namespace vetta::ingest {

struct Hooks {
  /// A rank of a job that is not known has come: Slurm should be asked soon.
  std::function<void(const std::string& cluster)> nudge;
  /// Called with each new event once it is kept, in rising order of ids, on the thread that brought
  /// it; must not block and must not call Ingest.
  std::function<void(const model::Event&)> event;
};

struct Options {
  Duration seal_grace = std::chrono::seconds(60);    ///< after an attempt's end, if all ranks ended
  Duration rank_grace = std::chrono::minutes(15);    ///< then ranks whose end nobody saw are ended
  Duration clock_slack = std::chrono::seconds(120);  ///< between node, controller and vettad
  Duration keep = std::chrono::hours(24 * 90);       ///< attempts, events and findings
  Duration keep_series = std::chrono::hours(24 * 30);
  Duration keep_unplaced = std::chrono::hours(24 * 7);
  std::size_t unplaced_rest_max = 60;       ///< batches kept of a rank that waits; samples of each
  std::size_t unplaced_rows_max = 100'000;  ///< of all ranks that wait in one cluster
  std::size_t events_max = 10'000;    ///< of agents, of one attempt; of a rank that waits, a tenth
  std::size_t retention_slice = 200;  ///< attempts deleted in one tick
};

/// What one call changed, for logs and /api/v1/status.
struct Taken {
  std::uint64_t attempts_new = 0, attempts_changed = 0;
  std::uint64_t events = 0;
  std::uint64_t ranks_placed = 0, ranks_unplaced = 0;
  std::uint64_t events_dropped = 0;    ///< of agents, beyond Options::events_max
  std::uint64_t unplaced_dropped = 0;  ///< of what ranks that wait have told, for want of room
  /// Offers of ranks that were refused: their job is another user's, or does not hold their node.
  std::uint64_t ranks_of_other_user = 0, ranks_off_node = 0;
  std::uint64_t marks = 0, duplicates = 0;
  /// Marks and samples beyond a file's cap, or of a node for whose series there is no room.
  std::uint64_t refused = 0;
};

/// Totals since the start of this process.
struct Meters {
  Taken taken;
  std::uint64_t snapshots = 0, batches = 0, batches_known = 0, errors = 0;
};

class Ingest {
 public:
  /// `records`, `files` and `store` must outlive it.
  Ingest(records::Records& records, series::AttemptFiles& files, series::Store& store, Hooks hooks,
         Options options = {});
  ~Ingest();
  Ingest(const Ingest&) = delete;
  Ingest& operator=(const Ingest&) = delete;

  [[nodiscard]] Result<Taken> take(const slurm::Snapshot& snapshot);
  /// Success means kept durably: the poller may move its watermark.
  [[nodiscard]] Result<Taken> take(const slurm::Accounting& accounting);
  /// `agent` is the Hello of the connection that brought the batch. After an error nothing of the
  /// batch is acknowledged: close the connection, the agent will send again.
  [[nodiscard]] Result<model::Ack> take(const model::Hello& agent, const model::Batch& batch);
  /// An event that vettad itself saw (agent lost, source back, …).
  [[nodiscard]] Result<Taken> take(const std::string& cluster, const model::Event& event);

  /// Housekeeping, cheap when nothing is due; call it every few seconds: seals files, ends ranks
  /// that nobody will report any more, retention in slices. All of it is tried, whatever fails;
  /// the first error comes back.
  [[nodiscard]] Result<void> tick(Time now);

  /// Up to where accounting of this cluster is kept: the poller starts there.
  [[nodiscard]] Result<std::optional<Time>> accounting_watermark(const std::string& cluster) const;
  [[nodiscard]] Meters meters() const;
  /// Why the newest snapshot could not be kept; nothing where it was. Does not wait for a take.
  [[nodiscard]] std::optional<Error> snapshot_unkept() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vetta::ingest
