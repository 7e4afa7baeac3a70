// SPDX-License-Identifier: Apache-2.0
#include "slurm/gres.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace vetta::slurm {
namespace {

/// "name/type=count@indices" of each entry.
std::string read(std::string_view text) {
  const auto entries = parse_gres(text);
  if (!entries) return entries.error().message;
  std::string out;
  for (const GresEntry& entry : *entries)
    out += fmt::format("{}{}/{}={}{}", out.empty() ? "" : " ", entry.name, entry.type, entry.count,
                       entry.has_indices ? fmt::format("@{}", fmt::join(entry.indices, ",")) : "");
  return out;
}

TEST(Gres, ReadsEverySpelling) {
  EXPECT_EQ(read("gpu:8"), "gpu/=8");
  EXPECT_EQ(read("gpu"), "gpu/=1");
  EXPECT_EQ(read("gpu:h100:4(S:0-3)"), "gpu/h100=4");
  EXPECT_EQ(read("gpu:(null):0(IDX:N/A)"), "gpu/=0@");
  EXPECT_EQ(read("gpu:a:0(IDX:N/A),gpu:b:1(IDX:2)"), "gpu/a=0@ gpu/b=1@2");
  EXPECT_EQ(read("gpu:model_a:2(IDX:0,3)"), "gpu/model_a=2@0,3");
  EXPECT_EQ(read("gpu:v:13(IDX:0-3,5-7,9)"), "gpu/v=13@0,1,2,3,5,6,7,9");
  EXPECT_EQ(read("gpu:1g.5gb:7"), "gpu/1g.5gb=7");
  EXPECT_EQ(read("gpu:1g.5gb"), "gpu/1g.5gb=1");
  EXPECT_EQ(read("gpu:8,pfsdir:scratch:no_consume:1"), "gpu/=8 pfsdir/scratch=1");
  EXPECT_EQ(read("craynetwork:4K"), "craynetwork/=4096");
  EXPECT_EQ(read("gres:gpu:2"), "gpu/=2");
  EXPECT_EQ(read("gres/gpfs:ess:1"), "gpfs/ess=1");
  EXPECT_EQ(read("gpu(IDX:0-1)"), "gpu/=1@0,1");
  for (const char* none : {"", "(null)", "N/A", " (null) "}) EXPECT_EQ(read(none), "") << none;
}

TEST(Gres, RefusesWithTheEntry) {
  EXPECT_EQ(read("gpu:a:b"), "'gpu:a:b' is not a generic resource: its count is not a number");
  EXPECT_EQ(read(":4"), "':4' is not a generic resource: it has no name");
  EXPECT_EQ(read("gpu:4(S:0-3"),
            "'gpu:4(S:0-3' is not a generic resource: a bracket is not closed");
  EXPECT_EQ(read("gpu:1(IDX:5-1)"), "'5-1' is not a list of indices");
  EXPECT_EQ(parse_gres("gpu:1(IDX:0-4000000000)").error().code, Code::exhausted);
}

TEST(Gres, CountsWholeGpusAndSlices) {
  const auto count = [](std::string_view text) { return count_gpus(parse_gres(text).value()); };
  EXPECT_EQ(count("gpu:a:4,gpu:b:2").all, 6U);
  EXPECT_EQ(count("gpu:nvidia_a100_1g.5gb:21").mig, 21U);
  EXPECT_EQ(count("mig:nvidia_a100_3g.40gb:7").all, 0U);  // a resource of another name
  EXPECT_EQ(count("gpu:tesla_v100-sxm3-32gb:16").mig, 0U);
  for (const char* mig : {"1g.5gb", "a100_3g.40gb", "h100-1g.10gb"}) EXPECT_TRUE(is_mig_type(mig));
  for (const char* whole : {"h100", "32gb", "g.5gb", "a100_80gb", "xg.5gb", ""})
    EXPECT_FALSE(is_mig_type(whole)) << whole;
}

TEST(Gres, JoinsWhatThereIsWithWhatIsUsed) {
  const auto join = [](std::string_view total, std::string_view used) {
    return join_gres(parse_gres(total).value(), parse_gres(used).value());
  };
  auto gres = join("gpu:a:2(S:0),gpu:b:2", "gpu:a:0(IDX:N/A),gpu:b:1(IDX:2)");
  ASSERT_EQ(gres.size(), 2U);
  EXPECT_EQ(gres[0].allocated, 0U);
  EXPECT_EQ(gres[1].allocated, 1U);
  EXPECT_EQ(gres[1].allocated_indices, std::vector<std::uint32_t>{2});
  gres = join("gpu:h100:4", "gpu:0");  // nothing used is printed without a type
  EXPECT_EQ(gres[0].allocated, 0U);
  EXPECT_EQ(join_gres(parse_gres("gpu:4").value(), std::nullopt)[0].allocated, std::nullopt);
}

TEST(Gres, ReadsTres) {
  const Tres tres = parse_tres("cpu=4,mem=1280.50G,node=2,billing=4,gres/gpu=4,gres/gpu:a=4");
  EXPECT_EQ(tres.cpus, 4U);
  EXPECT_EQ(tres.memory_bytes, 1374926405632U);
  EXPECT_EQ(tres.gpus, 4U);
  EXPECT_EQ(parse_tres("gres/gpu:a100=2,gres/gpu:h100=1").gpus, 3U);
  EXPECT_EQ(parse_tres("gres/gpu=0").gpus, 0U);
  EXPECT_EQ(parse_tres("gres/gpfs:ess:1,cpu=x,=,").gpus, std::nullopt);
}

}  // namespace
}  // namespace vetta::slurm
