// SPDX-License-Identifier: Apache-2.0
#include "slurm/fields.h"

#include <gtest/gtest.h>

#include "slurm/answer.h"
#include "slurm/keyvalue.h"
#include "slurm/nodes.h"

namespace vetta::slurm {
namespace {

using namespace std::chrono_literals;

TEST(Fields, ReadsTimesAndLeavesOutWhatIsNone) {
  EXPECT_EQ(read_time("1796047451"), from_epoch_seconds(1796047451));
  EXPECT_EQ(read_time("2026-03-10T12:34:28"), from_epoch_seconds(1773146068));
  for (const char* none :
       {"", "N/A", "Unknown", "NONE", "(null)", "0", "4294967294", "4294967295", "14:24:22",
        "2026-13-10T12:34:28", "2026-02-30T12:34:28", "9223372036854775807", "-5"})
    EXPECT_EQ(read_time(none), std::nullopt) << none;
}

TEST(Fields, ReadsNumbersSpansSizesAndExits) {
  EXPECT_EQ(read_count("4294967294"), std::nullopt);
  EXPECT_EQ(read_count("12"), 12U);
  EXPECT_EQ(read_memory("500M"), 500U << 20U);
  EXPECT_EQ(read_memory("16000"), 16000ULL << 20U);
  EXPECT_EQ(read_memory("64Gn"), 64ULL << 30U);
  EXPECT_EQ(read_span("365-00:00:00"), 365 * 24h);
  EXPECT_EQ(read_span("UNLIMITED"), std::nullopt);
  EXPECT_EQ(read_span("Partition_Limit"), std::nullopt);
  EXPECT_EQ(read_exit("3:0").code, 3);
  EXPECT_EQ(read_exit("0:9").signal, 9);
  EXPECT_EQ(read_exit("768").code, 3);
  EXPECT_EQ(read_exit("9").signal, 9);
  EXPECT_EQ(read_exit("").code, std::nullopt);
}

TEST(Fields, ReadsJobIds) {
  const auto id = [](std::string_view text) { return parse_job_id(text).value(); };
  EXPECT_EQ(id("123").id, 123U);
  EXPECT_EQ(id("123_4").task, 4U);
  EXPECT_EQ(id("42271120_[7-8%1]").tasks, "7-8%1");
  EXPECT_EQ(id("15+1.0").het_offset, 1U);
  EXPECT_EQ(id("15+1.0").step, "0");
  EXPECT_EQ(id("6_0.batch").step, "batch");
  for (const char* bad :
       {"", "x", "0", "12x", "12_", "12_x", "12_[3", "12.", "-1", "12_5000000000"})
    EXPECT_FALSE(parse_job_id(bad)) << bad;
}

TEST(NodeStates, ReadsEverySpelling) {
  using States = std::vector<std::string>;
  EXPECT_EQ(parse_node_states("IDLE"), States{"IDLE"});
  EXPECT_EQ(parse_node_states("MIXED+DRAIN"), (States{"MIXED", "DRAIN"}));
  EXPECT_EQ(parse_node_states("DOWN*+DRAIN"), (States{"DOWN", "NOT_RESPONDING", "DRAIN"}));
  EXPECT_EQ(parse_node_states("IDLE+CLOUD+POWERED_DOWN"),
            (States{"IDLE", "CLOUD", "POWERED_DOWN"}));
  EXPECT_EQ(parse_node_states("mixed-"), (States{"MIXED", "PLANNED"}));
  EXPECT_EQ(parse_node_states("drained$"), (States{"DRAINED", "MAINTENANCE"}));
  EXPECT_EQ(parse_node_states("idle~"), (States{"IDLE", "POWERED_DOWN"}));
  EXPECT_EQ(parse_node_states("alloc#"), (States{"ALLOCATED", "POWERING_UP"}));
  EXPECT_EQ(parse_node_states("idle!"), (States{"IDLE", "POWER_DOWN"}));
  EXPECT_EQ(parse_node_states("idle%"), (States{"IDLE", "POWERING_DOWN"}));
  EXPECT_EQ(parse_node_states("mix@"), (States{"MIXED", "REBOOT"}));
  EXPECT_EQ(parse_node_states("down^*"), (States{"DOWN", "REBOOT_ISSUED", "NOT_RESPONDING"}));
  EXPECT_TRUE(parse_node_states("").empty());
}

TEST(KeyValues, KeepsBlanksInValuesAndTheFirstOfEqualKeys) {
  const auto read = read_key_values(
      "NodeName=n1 OS=Linux 6.1 #1 SMP a=b State=IDLE Reason=x State=DOWN\n"
      "NodeName=n2 State=DOWN Reason=a\nb [root@5]\n",
      "NodeName=");
  ASSERT_EQ(read.value.size(), 2U);
  EXPECT_EQ(read.value[0].get("OS"), "Linux 6.1 #1 SMP a=b");
  EXPECT_EQ(read.value[0].get("State"), "IDLE");
  EXPECT_EQ(read.value[1].line(), 2);
  EXPECT_EQ(read.value[1].get("Reason"), "a\nb [root@5]");
  EXPECT_TRUE(read_key_values("No nodes in the system\n", "NodeName=").refused.empty());
  EXPECT_EQ(read_key_values("garbage\n", "NodeName=").refused.size(), 1U);
}

TEST(Nodes, TakesTheReasonApart) {
  const auto nodes = parse_nodes(
      "NodeName=n1 State=IDLE+DRAIN Reason=bad State=IDLE [x@y] (see Gres=gpu:0) "
      "[root@1796048807]\n"
      "NodeName=n2 State=\n");
  ASSERT_EQ(nodes.value.size(), 1U);
  EXPECT_EQ(nodes.value[0].reason, "bad State=IDLE [x@y] (see Gres=gpu:0)");
  EXPECT_EQ(nodes.value[0].reason_user, "root");
  EXPECT_EQ(nodes.value[0].reason_since, from_epoch_seconds(1796048807));
  ASSERT_EQ(nodes.refused.size(), 1U);
  EXPECT_EQ(nodes.refused[0].reason, "node n2 has no state");
}

TEST(Answer, ExplainsWhatSlurmsProgramsSay) {
  const auto why = [](std::string_view error) {
    return explain_failure("squeue", "exit code 1", error);
  };
  const Error down =
      why("slurm_load_jobs error: Unable to contact slurm controller (connect failure)");
  EXPECT_EQ(down.code, Code::unavailable);
  EXPECT_TRUE(down.text().starts_with("run squeue: slurmctld does not answer; see scontrol ping"));
  EXPECT_EQ(knowledge_of(down), model::Knowledge::could_not_ask);
  EXPECT_EQ(why("squeue: error: Munge encode failed: Failed to access \"/x\"").code, Code::denied);
  EXPECT_EQ(knowledge_of(why("slurm_load_jobs error: Invalid job id specified")),
            model::Knowledge::gone);
  EXPECT_EQ(knowledge_of(why("Node nosuch not found")), model::Knowledge::gone);
  // A file that is missing is no statement about the cluster.
  EXPECT_EQ(knowledge_of(why("plugin x.so not found")), model::Knowledge::could_not_ask);
  EXPECT_TRUE(why("").text().contains("exit code 1 and said nothing"));
  EXPECT_TRUE(why("sacct: error: Problem talking to the database: Connection refused")
                  .text()
                  .contains("slurmdbd does not answer"));
}

}  // namespace
}  // namespace vetta::slurm
