// SPDX-License-Identifier: Apache-2.0
// Generic resources in all of Slurm's spellings: "gpu:8", "gpu:h100:4(S:0-3)", "(null)",
// "gpu:a:0(IDX:N/A),gpu:b:1(IDX:2)", "gpu:4(IDX:0,3)", "pfsdir:scratch:no_consume:1", MIG types
// ("gpu:1g.5gb:7"), and of TRES texts: "cpu=4,mem=16G,gres/gpu:a100=2". Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "model/cluster.h"

namespace vetta::slurm {

struct GresEntry {
  std::string name, type;  ///< type may be empty
  std::uint64_t count = 0;
  std::vector<std::uint32_t> indices;  ///< of IDX
  bool has_indices = false;            ///< IDX was given (N/A: given and empty)
  bool no_consume = false;
};

/// "(null)", "N/A" and "" are no entries. Errors: invalid, with the entry that could not be read.
[[nodiscard]] Result<std::vector<GresEntry>> parse_gres(std::string_view text);

/// Index lists "0-3,7"; at most `max` indices.
[[nodiscard]] Result<std::vector<std::uint32_t>> parse_indices(std::string_view text,
                                                               std::size_t max = 65'536);

/// Whole GPUs of a list: entries named "gpu" (any letter case) that are not MIG slices.
struct GpuCount {
  std::uint64_t all = 0;  ///< whole GPUs and slices, entries named gpu
  std::uint64_t mig = 0;  ///< of these, MIG slices (types like 1g.5gb or ending in it)
};

[[nodiscard]] GpuCount count_gpus(const std::vector<GresEntry>& entries);
[[nodiscard]] bool is_mig_type(std::string_view type);

/// What a node has joined with what is in use of it, by name and type. A used text of "" or
/// "(null)" leaves `allocated` unknown.
[[nodiscard]] std::vector<model::Gres> join_gres(const std::vector<GresEntry>& total,
                                                 const std::optional<std::vector<GresEntry>>& used);

struct Tres {
  std::optional<std::uint64_t> cpus, memory_bytes, nodes, gpus, billing;
};

/// Unknown and malformed entries are left out; gpus is gres/gpu, else the sum of gres/gpu:TYPE.
[[nodiscard]] Tres parse_tres(std::string_view text);

}  // namespace vetta::slurm
