// SPDX-License-Identifier: Apache-2.0
// New events to live subscribers through bounded queues.
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "model/judgement.h"

namespace vetta::query {

/// One reader. If it is too slow the oldest are dropped and it is told how many; it can ask the
/// records for them by id.
class Subscription {
 public:
  struct Batch {
    std::vector<model::Event> events;
    std::uint64_t lost = 0;  ///< dropped before the first of `events`
  };

  ~Subscription();
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  /// What has come since the last call; does not wait.
  [[nodiscard]] Batch take();
  /// Waits until something has come, the time is over, or the hub is closed.
  [[nodiscard]] Batch wait(Duration at_most);

 private:
  friend class EventHub;
  struct State;
  explicit Subscription(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// publish() never blocks on a reader; connect it to ingest's event hook.
class EventHub {
 public:
  explicit EventHub(std::size_t queue_max = 1024, std::size_t subscribers_max = 256);
  ~EventHub();
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  void publish(const model::Event& event);
  /// `wants` chooses events; `wake` is called on the publisher's thread, without locks held, when
  /// the first event comes after the subscriber took all, and on close; it must not block. Too many
  /// subscribers: Code::exhausted.
  [[nodiscard]] Result<std::unique_ptr<Subscription>> subscribe(
      std::function<bool(const model::Event&)> wants = {}, std::function<void()> wake = {});
  /// Ends all waits; no more subscriptions.
  void close();
  [[nodiscard]] std::size_t subscribers() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace vetta::query
