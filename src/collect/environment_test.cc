// SPDX-License-Identifier: Apache-2.0
#include "collect/environment.h"

#include <gtest/gtest.h>

namespace vetta::collect {
namespace {

sys::ProcessEnvironment env(std::initializer_list<std::string> entries) {
  std::string block;
  for (const std::string& entry : entries) block += entry + '\0';
  return sys::ProcessEnvironment(block);
}

TEST(SlurmTask, OfAStepOfABatchScriptAndOfNothing) {
  const auto step = slurm_task_of(env({"SLURM_JOB_ID=4711", "SLURM_STEP_ID=0", "SLURM_PROCID=5",
                                       "SLURM_LOCALID=1", "SLURM_NTASKS=8", "SLURMD_NODENAME=n1",
                                       "SLURM_RESTART_COUNT=2", "SLURM_STEP_GPUS=0,3"}));
  ASSERT_TRUE(step);
  EXPECT_EQ(step->job_id, 4711U);
  EXPECT_EQ(step->step_id, "0");
  EXPECT_EQ(step->task, 5);
  EXPECT_EQ(step->tasks, 8);
  EXPECT_EQ(step->restart, 2U);
  EXPECT_EQ(step->node, "n1");
  EXPECT_EQ(step->devices, "0,3");
  const auto batch = slurm_task_of(env({"SLURM_JOB_ID=4711", "SLURM_PROCID=0", "SLURM_NTASKS=8"}));
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->step_id, "batch");
  EXPECT_EQ(batch->tasks, 1);
  EXPECT_EQ(
      slurm_task_of(env({"SLURM_JOB_ID=1", "SLURM_PROCID=0", "SLURM_STEP_ID=4294967290"}))->step_id,
      "interactive");
  EXPECT_FALSE(slurm_task_of(env({"SLURM_JOB_ID=4711"}))) << "salloc's shell is no task";
  EXPECT_FALSE(slurm_task_of(env({"SLURM_JOB_ID=x", "SLURM_PROCID=0"})));
}

TEST(FrameworkRank, OfTorchrunMpirunAndPmi) {
  const FrameworkRank torchrun{3, 1, 4, 2};
  EXPECT_EQ(framework_rank_of(
                env({"RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=4", "TORCHELASTIC_RESTART_COUNT=2"})),
            torchrun);
  const FrameworkRank mpirun{3, 1, 4, 0};
  EXPECT_EQ(framework_rank_of(env({"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                                   "OMPI_COMM_WORLD_SIZE=4"})),
            mpirun);
  EXPECT_EQ(framework_rank_of(env({"PMI_RANK=0", "PMI_SIZE=2"}))->world_size, 2);
}

TEST(FrameworkRank, NeedsRankAndWorldSizeThatGoTogether) {
  EXPECT_FALSE(framework_rank_of(env({"RANK=3"})));
  EXPECT_FALSE(framework_rank_of(env({"WORLD_SIZE=3"})));
  EXPECT_FALSE(framework_rank_of(env({"RANK=3", "WORLD_SIZE=3"})));
  EXPECT_FALSE(framework_rank_of(env({"RANK=-1", "WORLD_SIZE=3"})));
}

TEST(JobOf, TitlesOfSlurmstepd) {
  EXPECT_EQ(job_of_title("slurmstepd: [4711.0]"), 4711U);
  EXPECT_EQ(job_of_title("slurmstepd: [4711.batch]"), 4711U);
  EXPECT_EQ(job_of_title("slurmstepd: [4711.0+1]"), 4711U);
  for (const char* text : {"", "slurmstepd", "slurmstepd: [", "slurmstepd: []", "slurmstepd: [.0]",
                           "slurmstepd: [4711", "slurmstepd: [x4711.0]", "x slurmstepd: [1.0]",
                           "slurmstepd: [99999999999999999999999.0]"})
    EXPECT_FALSE(job_of_title(text)) << text;
}

TEST(JobOf, CgroupsOfBothKinds) {
  EXPECT_EQ(job_of_cgroups(
                {{5, "memory", "/user.slice"}, {4, "freezer", "/slurm/uid_1000/job_4711/step_0"}}),
            4711U);
  EXPECT_EQ(job_of_cgroups({{0, "", "/system.slice/n1_slurmstepd.scope/job_12/step_batch/user"}}),
            12U);
  EXPECT_FALSE(job_of_cgroups({{0, "", "/user.slice/job_4711"}})) << "not Slurm's";
  EXPECT_FALSE(job_of_cgroups({{0, "", "/slurm/job_x"}}));
  EXPECT_FALSE(job_of_cgroups({}));
}

}  // namespace
}  // namespace vetta::collect
