// SPDX-License-Identifier: Apache-2.0
#include "collect/spool.h"

namespace vetta::collect {
namespace {

std::size_t size_of(const SpoolItem& item) {
  std::size_t bytes = sizeof(SpoolItem);
  for (const model::RankSamples& samples : item.rank_samples) {
    bytes += sizeof samples;
    for (const model::RankSample& sample : samples.samples)
      bytes += sizeof sample + sample.gap.size();
  }
  for (const model::NodeSample& sample : item.node_samples)
    bytes += sizeof sample + sample.gap.size();
  for (const model::Event& event : item.events)
    bytes += sizeof event + event.message.size() + event.detail.size() + event.dedup.size();
  return bytes;
}

}  // namespace

void Spool::put(SpoolItem item) {
  item.id = first_ + items_.size();
  item.bytes = size_of(item);
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
