// SPDX-License-Identifier: Apache-2.0
#include "collect/environment.h"

#include <array>

#include "core/text.h"

namespace vetta::collect {
namespace {

template <typename Number>
std::optional<Number> number_of(const sys::ProcessEnvironment& env, std::string_view name) {
  const auto text = env.get(name);
  if (!text) return std::nullopt;
  const auto value = parse_uint(*text);
  if (!value || !std::in_range<Number>(*value)) return std::nullopt;
  return static_cast<Number>(*value);
}

std::string text_of(const sys::ProcessEnvironment& env, std::string_view name,
                    std::size_t size_max) {
  const std::string_view text = env.get(name).value_or("");
  return text.size() <= size_max ? std::string(text) : std::string();
}

std::string step_name(std::optional<std::uint32_t> step) {
  // A batch script has no SLURM_STEP_ID in some releases; the special steps' numbers are slurm.h's.
  if (!step || *step == 0xfffffffbU) return "batch";
  if (*step == 0xfffffffcU) return "extern";
  if (*step == 0xfffffffaU) return "interactive";
  return std::to_string(*step);
}

struct Names {
  const char *rank, *local_rank, *world_size;
};

constexpr std::array framework_names{
    Names{"RANK", "LOCAL_RANK", "WORLD_SIZE"},
    Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
    Names{"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},
};

}  // namespace

std::optional<SlurmTask> slurm_task_of(const sys::ProcessEnvironment& env) {
  const auto job = number_of<std::uint32_t>(env, "SLURM_JOB_ID");
  const auto task = number_of<std::int32_t>(env, "SLURM_PROCID");
  if (!job || *job == 0 || !task) return std::nullopt;
  SlurmTask out;
  out.job_id = *job;
  out.step_id = step_name(number_of<std::uint32_t>(env, "SLURM_STEP_ID"));
  out.task = *task;
  out.local_task = number_of<std::int32_t>(env, "SLURM_LOCALID").value_or(-1);
  out.tasks = out.step_id == "batch" ? 1  // SLURM_NTASKS is the job's there
                                     : number_of<std::int32_t>(env, "SLURM_NTASKS").value_or(-1);
  out.restart = number_of<std::uint32_t>(env, "SLURM_RESTART_COUNT").value_or(0);
  out.node = text_of(env, "SLURMD_NODENAME", 255);
  out.cluster = text_of(env, "SLURM_CLUSTER_NAME", 255);
  out.socket = text_of(env, "VETTA_SOCKET", 255);
  out.is_het = env.get("SLURM_HET_SIZE") || env.get("SLURM_JOB_ID_HET_GROUP_0");
  out.devices = text_of(env, "SLURM_STEP_GPUS", 256);
  if (out.devices.empty()) out.devices = text_of(env, "SLURM_JOB_GPUS", 256);
  return out;
}

std::optional<std::uint64_t> job_of_title(std::string_view title) {
  if (!title.starts_with("slurmstepd: [")) return std::nullopt;
  title.remove_prefix(title.find('[') + 1);
  const std::size_t end = title.find_first_not_of("0123456789");
  if (end == std::string_view::npos || end == 0 || (title[end] != '.' && title[end] != '+'))
    return std::nullopt;
  const auto job = parse_uint(title.substr(0, end));
  return job ? std::optional(*job) : std::nullopt;
}

std::optional<std::uint64_t> job_of_cgroups(const std::vector<sys::CgroupPath>& cgroups) {
  for (const sys::CgroupPath& each : cgroups) {
    // A user who may make groups of his own makes them below Slurm's, so the first one counts.
    const std::size_t at = each.path.find("/job_");
    if (at == std::string::npos || each.path.substr(0, at).find("slurm") == std::string::npos)
      continue;
    std::string_view number = std::string_view(each.path).substr(at + 5);
    number = number.substr(0, number.find('/'));
    if (const auto job = parse_uint(number)) return *job;
  }
  return std::nullopt;
}

std::optional<FrameworkRank> framework_rank_of(const sys::ProcessEnvironment& env) {
  for (const Names& names : framework_names) {
    const auto rank = number_of<std::int32_t>(env, names.rank);
    const auto world_size = number_of<std::int32_t>(env, names.world_size);
    if (!rank || !world_size || *rank >= *world_size) continue;
    FrameworkRank out;
    out.rank = *rank;
    out.world_size = *world_size;
    out.local_rank = number_of<std::int32_t>(env, names.local_rank).value_or(-1);
    out.elastic_restart = number_of<std::uint32_t>(env, "TORCHELASTIC_RESTART_COUNT").value_or(0);
    return out;
  }
  return std::nullopt;
}

}  // namespace vetta::collect
