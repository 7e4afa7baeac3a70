// SPDX-License-Identifier: Apache-2.0
#include "query/event_hub.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <fmt/format.h>
#include <mutex>

namespace vetta::query {

struct Subscription::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<model::Event> queue;
  std::size_t queue_max = 0;
  std::uint64_t lost = 0;
  bool is_closed = false;
  std::function<bool(const model::Event&)> wants;
  std::function<void()> wake;

  Batch take_locked() {
    Batch batch;
    batch.events.assign(std::make_move_iterator(queue.begin()),
                        std::make_move_iterator(queue.end()));
    queue.clear();
    batch.lost = std::exchange(lost, 0);
    return batch;
  }

  void offer(const model::Event& event) {
    if (wants && !wants(event)) return;
    bool is_first = false;
    {
      const std::lock_guard guard(mutex);
      if (is_closed) return;
      is_first = queue.empty();
      if (queue.size() >= queue_max) {
        queue.pop_front();
        ++lost;
      }
      queue.push_back(event);
    }
    changed.notify_one();
    if (is_first && wake) wake();
  }

  void close() {
    {
      const std::lock_guard guard(mutex);
      is_closed = true;
    }
    changed.notify_all();
    if (wake) wake();
  }
};

struct EventHub::State {
  std::mutex mutex;
  std::size_t queue_max = 0, subscribers_max = 0;
  bool is_closed = false;
  std::vector<std::weak_ptr<Subscription::State>> subscribers;

  std::vector<std::shared_ptr<Subscription::State>> alive() {
    std::vector<std::shared_ptr<Subscription::State>> out;
    std::erase_if(subscribers, [&](const auto& weak) {
      auto strong = weak.lock();
      if (strong) out.push_back(std::move(strong));
      return weak.expired();
    });
    return out;
  }
};

Subscription::Subscription(std::shared_ptr<State> state) : state_(std::move(state)) {}

Subscription::~Subscription() {
  const std::lock_guard guard(state_->mutex);
  state_->is_closed = true;
}

Subscription::Batch Subscription::take() {
  const std::lock_guard guard(state_->mutex);
  return state_->take_locked();
}

Subscription::Batch Subscription::wait(Duration at_most) {
  std::unique_lock guard(state_->mutex);
  state_->changed.wait_for(guard, at_most,
                           [&] { return !state_->queue.empty() || state_->is_closed; });
  return state_->take_locked();
}

EventHub::EventHub(std::size_t queue_max, std::size_t subscribers_max)
    : state_(std::make_shared<State>()) {
  state_->queue_max = std::max<std::size_t>(queue_max, 1);
  state_->subscribers_max = subscribers_max;
}

EventHub::~EventHub() {
  close();
}

void EventHub::publish(const model::Event& event) {
  std::vector<std::shared_ptr<Subscription::State>> subscribers;
  {
    const std::lock_guard guard(state_->mutex);
    subscribers = state_->alive();
  }
  for (const auto& subscriber : subscribers) subscriber->offer(event);
}

Result<std::unique_ptr<Subscription>> EventHub::subscribe(
    std::function<bool(const model::Event&)> wants, std::function<void()> wake) {
  auto subscriber = std::make_shared<Subscription::State>();
  subscriber->queue_max = state_->queue_max;
  subscriber->wants = std::move(wants);
  subscriber->wake = std::move(wake);
  const std::lock_guard guard(state_->mutex);
  if (state_->is_closed) return fail(Code::unavailable, "events end: vettad is stopping");
  if (state_->alive().size() >= state_->subscribers_max) {
    return fail(Code::exhausted,
                fmt::format("{} readers follow the events already", state_->subscribers_max),
                "close some, or ask for events by id");
  }
  state_->subscribers.push_back(subscriber);
  return std::unique_ptr<Subscription>(new Subscription(std::move(subscriber)));
}

void EventHub::close() {
  std::vector<std::shared_ptr<Subscription::State>> subscribers;
  {
    const std::lock_guard guard(state_->mutex);
    state_->is_closed = true;
    subscribers = state_->alive();
  }
  for (const auto& subscriber : subscribers) subscriber->close();
}

std::size_t EventHub::subscribers() const {
  const std::lock_guard guard(state_->mutex);
  return state_->alive().size();
}

}  // namespace vetta::query
