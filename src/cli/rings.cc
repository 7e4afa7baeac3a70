// SPDX-License-Identifier: Apache-2.0
#include "cli/rings.h"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include "sys/files.h"
#include "sys/ring.h"

namespace vetta::cli {
namespace {

std::string this_node() {
  std::string name(256, '\0');
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  name.resize(name.find('\0'));
  return name;
}

model::Mark mark_of(const sys::RingStep& step) {
  model::Mark mark;
  mark.sequence = step.sequence;
  mark.step = step.step;
  mark.start = from_epoch_nanoseconds(step.start_wall_ns);
  mark.duration = Duration(step.duration_ns);
  for (std::size_t i = 0; i < model::phase_count; ++i)
    mark.phases.at(i) = Duration(step.phases_ns.at(i));
  mark.samples = step.samples;
  mark.loss = step.loss;
  mark.source = step.source == 2 ? model::MarkSource::injected : model::MarkSource::hand;
  return mark;
}

struct OneRing {
  sys::RingHeader header;
  model::RankSteps steps;
};

Result<OneRing> read_one(const std::string& path, const std::string& node) {
  const auto reader = VETTA_TRY(sys::RingReader::open(path));
  OneRing ring;
  ring.header = VETTA_TRY(reader.header());
  ring.steps.rank = ring.header.rank;
  ring.steps.node = node;
  const auto content = VETTA_TRY(reader.read(0, sys::ring_slots_max, true));
  for (const sys::RingStep& step : content.steps) ring.steps.marks.push_back(mark_of(step));
  std::ranges::stable_sort(ring.steps.marks, {}, &model::Mark::step);
  return ring;
}

}  // namespace

Result<model::StepTable> read_rings(const std::string& folder) {
  const std::string node = this_node();
  std::vector<OneRing> rings;
  std::uint32_t newest = 0;
  for (const std::string& name : VETTA_TRY(sys::list_folder(folder))) {
    if (!name.ends_with(".ring")) continue;
    auto ring = read_one(fmt::format("{}/{}", folder, name), node);
    if (!ring || ring->steps.marks.empty()) continue;
    newest = std::max(newest, ring->header.elastic_restart);
    rings.push_back(std::move(*ring));
  }
  model::StepTable table;
  table.incarnation = newest;
  for (OneRing& ring : rings) {
    if (ring.header.elastic_restart != newest) continue;
    table.world_size = std::max(table.world_size, ring.header.world_size);
    table.ranks.push_back(std::move(ring.steps));
  }
  std::ranges::stable_sort(table.ranks, {}, &model::RankSteps::rank);
  return table;
}

}  // namespace vetta::cli
