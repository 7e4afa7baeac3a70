// SPDX-License-Identifier: Apache-2.0
#include "diagnose/slow_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <rapidcheck.h>

#include "diagnose/test_simulator.h"

namespace vetta::diagnose {
namespace {

using model::CauseClass;
using model::Diagnosis;
using model::Outcome;
using model::Phase;
using test::Fault;
using test::Marks;
using test::simulate;
using test::Simulated;
using test::Training;
using ::testing::Contains;
using ::testing::HasSubstr;

double pick(std::mt19937_64& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

int pick_int(std::mt19937_64& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

Training random_training(std::mt19937_64& random, std::uint64_t seed) {
  constexpr int worlds[] = {2, 3, 4, 8, 8, 12, 24};
  Training t;
  t.ranks = worlds[pick_int(random, 0, 6)];
  t.ranks_per_node = t.ranks >= 8 ? pick_int(random, 1, 4) * 2 : 1;
  t.steps = pick_int(random, 60, 140);
  t.noise = pick(random, 0.005, 0.3);
  t.common_noise = pick_int(random, 0, 1) == 1 ? pick(random, 0, 0.3) : 0;
  t.rank_noise = pick(random, 0, 0.015);
  t.communication = pick(random, 1, 30);
  t.data = pick(random, 0.5, 20);
  t.missing_share = pick_int(random, 0, 2) == 0 ? 0.05 : 0;
  t.pause_share = pick_int(random, 0, 2) == 0 && t.steps >= 100 ? 0.02 : 0;
  t.checkpoint_every = pick_int(random, 0, 2) == 0 ? 50 : 0;
  t.seed = seed;
  return t;
}

std::string describe(const Training& t, const Simulated& s, const Diagnosis& d) {
  std::string text = "seed " + std::to_string(t.seed) + " ranks " + std::to_string(t.ranks) +
                     " steps " + std::to_string(t.steps) + " noise " + std::to_string(t.noise) +
                     " truth " + std::to_string(s.lost_share) + "\n" + d.reason + " share " +
                     std::to_string(d.lost_share) + " confidence " + std::to_string(d.confidence);
  for (const std::string& line : d.evidence) text += "\n  " + line;
  return text;
}

TEST(Diagnose, names_no_rank_in_healthy_training) {
  for (std::uint64_t seed = 0; seed < 240; ++seed) {
    std::mt19937_64 random(seed);
    Training t = random_training(random, seed);
    t.marks = seed % 4 == 3 ? Marks::hidden_waits : Marks::all_phases;
    const Simulated s = simulate(t);
    const Diagnosis d = diagnose(s.table);
    EXPECT_EQ(d.outcome, Outcome::nothing_wrong) << describe(t, s, d);
    EXPECT_EQ(d.rank, -1);
  }
}

TEST(Diagnose, names_no_rank_in_short_healthy_training) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    std::mt19937_64 random(seed + 5000);
    Training t = random_training(random, seed);
    t.steps = pick_int(random, 16, 30);
    t.checkpoint_every = 0;
    const Simulated s = simulate(t);
    const Diagnosis d = diagnose(s.table);
    EXPECT_NE(d.outcome, Outcome::slow_rank) << describe(t, s, d);
  }
}

struct Score {
  int named = 0, big = 0, small = 0;
};

void check_slow(const Training& t, CauseClass cause, Score& score) {
  const Simulated s = simulate(t);
  const Diagnosis d = diagnose(s.table);
  if (s.lost_share < 0.08) {
    ++score.small;
    EXPECT_NE(d.outcome, Outcome::slow_rank) << describe(t, s, d);
    return;
  }
  if (d.outcome == Outcome::slow_rank) {
    ++score.named;
    EXPECT_EQ(d.rank, t.fault.ranks[0]) << describe(t, s, d);
    EXPECT_GE(d.lost_share, 0.10);
  }
  if (s.lost_share < 0.15) return;
  ++score.big;
  ASSERT_EQ(d.outcome, Outcome::slow_rank) << describe(t, s, d);
  EXPECT_EQ(d.cause, cause) << describe(t, s, d);
  EXPECT_NEAR(d.lost_share, s.lost_share, 0.2 * s.lost_share) << describe(t, s, d);
  EXPECT_EQ(d.node, s.table.ranks[static_cast<std::size_t>(d.rank)].node);
}

TEST(Diagnose, names_the_rank_with_a_slow_loader) {
  Score score;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed + 100);
    Training t = random_training(random, seed);
    t.fault.ranks = {pick_int(random, 0, t.ranks - 1)};
    t.fault.data_extra = pick(random, 2, 150);
    check_slow(t, CauseClass::data, score);
  }
  EXPECT_GT(score.big, 50);
  EXPECT_GT(score.small, 2);
}

TEST(Diagnose, names_the_rank_that_computes_slowly) {
  Score score;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed + 200);
    Training t = random_training(random, seed);
    t.fault.ranks = {pick_int(random, 0, t.ranks - 1)};
    t.fault.compute_factor = pick(random, 1.05, 4);
    if (seed % 2 == 0) t.fault.data_factor = t.fault.compute_factor;  // a throttled process
    check_slow(t, CauseClass::compute, score);
  }
  EXPECT_GT(score.big, 50);
}

TEST(Diagnose, names_the_rank_where_waits_hide_in_backward) {
  for (const bool loader : {true, false}) {
    Score score;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      std::mt19937_64 random(seed + 300);
      Training t = random_training(random, seed);
      t.marks = Marks::hidden_waits;
      t.noise = pick(random, 0.005, 0.1);
      t.common_noise = 0;
      t.fault.ranks = {pick_int(random, 0, t.ranks - 1)};
      if (loader)
        t.fault.data_extra = pick(random, 20, 150);
      else
        t.fault.compute_factor = t.fault.data_factor = pick(random, 1.3, 4);
      check_slow(t, loader ? CauseClass::data : CauseClass::compute, score);
    }
    EXPECT_GT(score.big, 30);
  }
}

TEST(Diagnose, names_the_rank_in_bursts) {
  Score score;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed + 400);
    Training t = random_training(random, seed);
    t.steps = 250;
    t.noise = pick(random, 0.005, 0.15);
    t.checkpoint_every = 0;
    t.pause_share = 0;
    t.fault.ranks = {pick_int(random, 0, t.ranks - 1)};
    t.fault.burst_share = pick(random, 0.2, 0.5);
    t.fault.compute_factor = pick(random, 2, 4);
    check_slow(t, CauseClass::compute, score);
  }
  EXPECT_GT(score.big, 25);
}

TEST(Diagnose, tells_since_which_step) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    std::mt19937_64 random(seed + 500);
    Training t = random_training(random, seed);
    t.steps = 300;
    t.noise = pick(random, 0.005, 0.12);
    t.fault.ranks = {pick_int(random, 0, t.ranks - 1)};
    t.fault.compute_factor = 2;
    t.fault.from = pick_int(random, 30, 280);
    const Simulated s = simulate(t);
    const Diagnosis d = diagnose(s.table);
    ASSERT_EQ(d.outcome, Outcome::slow_rank) << t.fault.from << " " << describe(t, s, d);
    EXPECT_EQ(d.rank, t.fault.ranks[0]);
    ASSERT_TRUE(d.since_step);
    EXPECT_NEAR(static_cast<double>(*d.since_step), t.fault.from, 3) << describe(t, s, d);
  }
}

TEST(Diagnose, a_late_fault_is_judged_from_its_beginning) {
  Training t;
  t.steps = 2000;
  t.fault = {.ranks = {5}, .compute_factor = 2, .from = 1900};
  const Diagnosis d = diagnose(simulate(t).table);
  ASSERT_EQ(d.outcome, Outcome::slow_rank);
  EXPECT_EQ(d.rank, 5);
  EXPECT_EQ(d.steps, 100);
  EXPECT_GT(d.lost_share, 0.3);
  EXPECT_THAT(d.evidence, Contains(HasSubstr("began at step 1900")));
}

TEST(Diagnose, core_mates_of_the_slow_rank_are_not_named) {
  Score score;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    std::mt19937_64 random(seed + 600);
    Training t = random_training(random, seed);
    if (t.ranks < 8) t.ranks = 8;
    t.ranks_per_node = 2;
    t.noise = pick(random, 0.005, 0.1);
    t.fault = {.ranks = {pick_int(random, 0, t.ranks - 1)},
               .data_extra = pick(random, 60, 150),
               .mates_factor = 1.3};
    check_slow(t, CauseClass::data, score);
  }
  EXPECT_GT(score.big, 20);
}

TEST(Diagnose, explains_a_slow_loader) {
  Training t;
  t.fault = {.ranks = {5}, .data_extra = 100};
  const Simulated s = simulate(t);
  const Diagnosis d = diagnose(s.table);
  ASSERT_EQ(d.outcome, Outcome::slow_rank);
  EXPECT_EQ(d.rank, 5);
  EXPECT_EQ(d.node, "n102");
  EXPECT_EQ(d.phase, Phase::data);
  EXPECT_GT(d.persistence, 0.97);
  EXPECT_GT(d.confidence, 0.9);
  EXPECT_EQ(d.since_step, 5);
  EXPECT_EQ(d.steps, 195);
  EXPECT_THAT(d.reason, HasSubstr("rank 5 on n102 holds the others: 5"));
  EXPECT_THAT(d.reason, HasSubstr("it waits for its data"));
  EXPECT_THAT(d.evidence, Contains(HasSubstr("data: 10")));
  EXPECT_THAT(d.evidence, Contains(HasSubstr("they wait for it")));
  ASSERT_EQ(d.ranks.size(), 8U);
  EXPECT_GT(d.ranks[5].own, 2);
  EXPECT_NEAR(d.ranks[4].own, 1, 0.05);
  ASSERT_TRUE(d.ranks[5].phases[0]);
  EXPECT_GT(*d.ranks[5].phases[0], 20);
  EXPECT_GT(d.ranks[5].share_last, 0.97);
  EXPECT_NEAR(seconds(d.lost_rank_time), 7 * seconds(d.lost_time), 1e-6);
}

TEST(Diagnose, names_two_equally_slow_ranks_as_a_set) {
  Training t;
  t.ranks = 16;
  t.fault = {.ranks = {6, 7}, .compute_factor = 1.8};
  const Simulated s = simulate(t);
  const Diagnosis d = diagnose(s.table);
  ASSERT_EQ(d.outcome, Outcome::slow_rank) << d.reason;
  EXPECT_TRUE(d.rank == 6 || d.rank == 7);
  EXPECT_EQ(d.node, "n103");
  EXPECT_THAT(d.reason, HasSubstr("ranks 6 and 7 on n103 are slow together"));
  EXPECT_NEAR(d.lost_share, s.lost_share, 0.2 * s.lost_share);
}

TEST(Diagnose, half_of_the_ranks_slow_is_not_one_ranks_fault) {
  Training t;
  t.fault = {.ranks = {0, 1, 2, 3}, .compute_factor = 1.6};
  const Diagnosis d = diagnose(simulate(t).table);
  EXPECT_EQ(d.outcome, Outcome::not_distinguishable);
  EXPECT_THAT(d.reason, HasSubstr("4 of 8 ranks (0, 1, 2, 3)"));
}

TEST(Diagnose, the_whole_job_equally_slow_names_nobody) {
  Training t;
  t.fault = {.ranks = {0, 1, 2, 3, 4, 5, 6, 7}, .compute_factor = 3, .from = 100};
  EXPECT_EQ(diagnose(simulate(t).table).outcome, Outcome::nothing_wrong);
}

TEST(Diagnose, a_slow_link_is_communication) {
  Training t;
  t.fault = {.ranks = {3}, .from = 100, .link_extra = 60};
  Diagnosis d = diagnose(simulate(t).table);
  EXPECT_EQ(d.outcome, Outcome::not_distinguishable);
  EXPECT_EQ(d.cause, CauseClass::communication);
  EXPECT_EQ(d.since_step, 100);
  t.fault = {.ranks = {3}, .link_extra = 200};
  d = diagnose(simulate(t).table);
  EXPECT_EQ(d.outcome, Outcome::nothing_wrong);
  EXPECT_EQ(d.cause, CauseClass::communication);
  EXPECT_THAT(d.reason, HasSubstr("goes into collectives even for the last rank to arrive"));
}

TEST(Diagnose, rare_pauses_and_checkpoints_name_nobody) {
  Training t;
  t.steps = 400;
  t.pause_share = 0.02;
  t.checkpoint_every = 40;
  const Diagnosis d = diagnose(simulate(t).table);
  EXPECT_EQ(d.outcome, Outcome::nothing_wrong) << d.reason;
  EXPECT_THAT(d.evidence, Contains(HasSubstr("longer than three medians")));
}

TEST(Diagnose, says_why_it_cannot_tell) {
  EXPECT_THAT(diagnose({}).reason, HasSubstr("no rank has marked a step"));
  Training t;
  t.fault = {.ranks = {5}, .data_extra = 100};
  t.marks = Marks::no_phases;
  Diagnosis d = diagnose(simulate(t).table);
  EXPECT_EQ(d.outcome, Outcome::not_distinguishable);
  EXPECT_THAT(d.reason, HasSubstr("the marks carry no phases"));

  t.marks = Marks::only_allreduce;  // enough to name, not to say where
  d = diagnose(simulate(t).table);
  EXPECT_EQ(d.outcome, Outcome::slow_rank);
  EXPECT_EQ(d.rank, 5);
  EXPECT_EQ(d.cause, CauseClass::unknown);

  t.marks = Marks::outside;  // the all-reduce lies between the marks
  d = diagnose(simulate(t).table);
  EXPECT_EQ(d.outcome, Outcome::slow_rank) << d.reason;
  EXPECT_EQ(d.rank, 5);

  t.marks = Marks::all_phases;
  t.steps = 12;
  EXPECT_THAT(diagnose(simulate(t).table).reason,
              HasSubstr("too few steps: 7 after 5 of warm-up, at least 10"));
  t.steps = 100;
  model::StepTable table = simulate(t).table;
  table.ranks.resize(1);
  EXPECT_THAT(diagnose(table).reason, HasSubstr("only rank 0 on n100 of 8 ranks has marks"));
  table.world_size = 1;
  EXPECT_THAT(diagnose(table).reason, HasSubstr("a single rank"));
}

TEST(Diagnose, ranks_that_do_not_wait_for_each_other_are_told) {
  Training t;
  t.ranks = 4;
  model::StepTable table = simulate(t).table;
  for (model::Mark& mark : table.ranks[2].marks) {
    mark.duration *= 2;
    mark.start = Time(mark.start.time_since_epoch() * 2);
  }
  const Diagnosis d = diagnose(table);
  EXPECT_EQ(d.outcome, Outcome::not_distinguishable);
  EXPECT_THAT(d.reason, HasSubstr("do not step together: a step of rank 2 on n101 takes"));
}

TEST(Diagnose, an_unseen_rank_may_be_the_one) {
  Training t;
  t.fault = {.ranks = {5}, .data_extra = 100};
  model::StepTable table = simulate(t).table;
  table.ranks.erase(table.ranks.begin() + 5);
  const Diagnosis d = diagnose(table);
  EXPECT_EQ(d.outcome, Outcome::not_distinguishable);
  EXPECT_THAT(d.reason, HasSubstr("one of the 1 ranks without marks"));
}

TEST(Diagnose, epochs_that_count_from_zero_again_are_told_apart) {
  Training t;
  t.steps = 200;
  t.fault = {.ranks = {3}, .data_extra = 100, .from = 100};
  model::StepTable table = simulate(t).table;
  for (model::RankSteps& rank : table.ranks) {
    for (model::Mark& mark : rank.marks) mark.step %= 50;
  }
  const Diagnosis d = diagnose(table);
  EXPECT_EQ(d.outcome, Outcome::slow_rank);
  EXPECT_EQ(d.rank, 3);
  EXPECT_EQ(d.steps, 195);
}

TEST(Diagnose, ranks_that_start_late_or_stop_early_are_compared_where_they_were) {
  Training t;
  t.fault = {.ranks = {3}, .compute_factor = 2};
  model::StepTable table = simulate(t).table;
  auto& marks = table.ranks[3].marks;
  marks.erase(marks.begin(), marks.begin() + 60);
  table.ranks[1].marks.resize(90);
  const Diagnosis d = diagnose(table);
  EXPECT_EQ(d.outcome, Outcome::slow_rank);
  EXPECT_EQ(d.rank, 3);
}

// Everything that a verdict says of the culprit, without the sentences.
std::string verdict(const Diagnosis& d) {
  return std::string(model::name(d.outcome)) + " " + std::to_string(d.rank) + " " +
         std::string(model::name(d.cause)) + " " + std::to_string(d.lost_share) + " " +
         std::to_string(d.since_step.value_or(-1));
}

Training arbitrary_training() {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  Training t = random_training(random, random());
  if (t.ranks > 8) t.ranks = 8;
  t.steps = pick_int(random, 20, 50);
  t.fault.ranks = {pick_int(random, 0, t.ranks - 1)};
  t.fault.compute_factor = pick(random, 1, 3);
  t.marks = random() % 2 == 0 ? Marks::all_phases : Marks::hidden_waits;
  return t;
}

TEST(DiagnoseProperty, the_order_of_ranks_does_not_matter) {
  rc::check([] {
    model::StepTable table = simulate(arbitrary_training()).table;
    const std::string before = verdict(diagnose(table));
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    std::shuffle(table.ranks.begin(), table.ranks.end(), random);
    for (model::RankSteps& rank : table.ranks)
      std::shuffle(rank.marks.begin(), rank.marks.end(), random);
    RC_ASSERT(verdict(diagnose(table)) == before);
  });
}

TEST(DiagnoseProperty, the_unit_of_time_does_not_matter) {
  rc::check([] {
    model::StepTable table = simulate(arbitrary_training()).table;
    const std::string before = verdict(diagnose(table));
    for (model::RankSteps& rank : table.ranks) {
      for (model::Mark& mark : rank.marks) {
        mark.duration *= 4;
        mark.start = Time(mark.start.time_since_epoch() * 4);
        for (Duration& phase : mark.phases) phase = phase.count() < 0 ? phase : phase * 4;
      }
    }
    RC_ASSERT(verdict(diagnose(table)) == before);
  });
}

std::int64_t odd_number(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0: return std::numeric_limits<std::int64_t>::min();
    case 1: return std::numeric_limits<std::int64_t>::max();
    case 2: return -1;
    case 3: return 0;
    case 4: return static_cast<std::int64_t>(random());
    default: return static_cast<std::int64_t>(random() % 1000);
  }
}

TEST(DiagnoseProperty, any_table_gets_an_answer) {
  rc::check([] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    model::StepTable table;
    table.world_size = static_cast<std::int32_t>(odd_number(random));
    for (std::uint64_t r = random() % 6; r > 0; --r) {
      model::RankSteps rank;
      rank.rank = static_cast<std::int32_t>(odd_number(random));
      for (std::uint64_t m = random() % 40; m > 0; --m) {
        model::Mark mark;
        mark.step = odd_number(random) %
                    (random() % 2 == 0 ? 30 : std::numeric_limits<std::int64_t>::max());
        mark.start = Time(Duration(odd_number(random)));
        mark.duration = Duration(odd_number(random));
        for (Duration& phase : mark.phases) phase = Duration(odd_number(random));
        rank.marks.push_back(mark);
      }
      table.ranks.push_back(std::move(rank));
    }
    Options options;
    options.warm_up_steps = odd_number(random);
    options.least_steps = odd_number(random);
    const Diagnosis d = diagnose(table, options);
    RC_ASSERT(!d.reason.empty());
    RC_ASSERT(d.lost_share >= 0 && d.lost_share <= 1);
    RC_ASSERT(d.confidence >= 0 && d.confidence <= 1);
  });
}

}  // namespace
}  // namespace vetta::diagnose
