// SPDX-License-Identifier: Apache-2.0
#include "slurm/partitions.h"

#include "slurm/fields.h"
#include "slurm/gres.h"
#include "slurm/keyvalue.h"

namespace vetta::slurm {

Parsed<std::vector<model::Partition>> parse_partitions(std::string_view text) {
  Parsed<std::vector<model::Partition>> parsed;
  auto records = read_key_values(text, "PartitionName=");
  parsed.refused = std::move(records.refused);
  for (const KeyValues& record : records.value) {
    model::Partition partition;
    partition.name = record.get("PartitionName");
    if (partition.name.empty()) {
      parsed.refused.push_back({record.line(), "a partition without a name"});
      continue;
    }
    partition.is_default = record.get("Default") == "YES";
    partition.state = known(record.get("State"));
    partition.nodes = known(record.get("Nodes"));
    partition.node_count = read_count(record.get("TotalNodes"));
    partition.cpus = read_count(record.get("TotalCPUs"));
    partition.priority_tier = read_count(record.get("PriorityTier"));
    partition.time_limit = read_span(record.get("MaxTime"));
    partition.preempt_mode = known(record.get("PreemptMode"));
    if (const auto gpus = parse_tres(record.get("TRES")).gpus; gpus && *gpus <= 0xFFFF'FFFFU)
      partition.gpus = static_cast<std::uint32_t>(*gpus);
    parsed.value.push_back(std::move(partition));
  }
  return parsed;
}

}  // namespace vetta::slurm
