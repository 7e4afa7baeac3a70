// SPDX-License-Identifier: Apache-2.0
#include "collect/spool.h"

#include <utility>

namespace vetta::collect {
namespace {

std::size_t memory_of(const model::RankSamples& samples) {
  std::size_t bytes = sizeof samples;
  for (const model::RankSample& sample : samples.samples)
    bytes += sizeof sample + sample.gap.size();
  return bytes;
}

std::size_t memory_of(const model::NodeSample& sample) {
  return sizeof sample + sample.gap.size();
}

std::size_t memory_of(const model::Event& event) {
  return sizeof event + event.message.size() + event.detail.size() + event.dedup.size();
}

}  // namespace

void Spool::put(SpoolItem item) {
  SpoolItem part;
  part.bytes = sizeof(SpoolItem);
  const auto move_all = [this, &part](auto& from, auto SpoolItem::* list) {
    for (auto& each : from) {
      const std::size_t bytes = memory_of(each);
      if (part.bytes > sizeof(SpoolItem) && part.bytes + bytes > item_bytes_max) {
        put_one(std::exchange(part, {}));
        part.bytes = sizeof(SpoolItem);
      }
      part.bytes += bytes;
      (part.*list).push_back(std::move(each));
    }
  };
  move_all(item.node_samples, &SpoolItem::node_samples);
  move_all(item.rank_samples, &SpoolItem::rank_samples);
  move_all(item.events, &SpoolItem::events);
  put_one(std::move(part));
}

void Spool::put_one(SpoolItem item) {
  item.id = first_ + items_.size();
  bytes_ += item.bytes;
  items_.push_back(std::move(item));
  while (bytes_ > bytes_max_ && !items_.empty()) pop();
}

const SpoolItem* Spool::find(std::uint64_t id) const {
  if (id < first_ || id - first_ >= items_.size()) return nullptr;
  return &items_[id - first_];
}

void Spool::release(std::uint64_t id) {
  while (!items_.empty() && first_ <= id) pop();
}

void Spool::pop() {
  bytes_ -= items_.front().bytes;
  items_.pop_front();
  ++first_;
}

}  // namespace vetta::collect
