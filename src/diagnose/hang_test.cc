// SPDX-License-Identifier: Apache-2.0
// Made hangs: who holds the others, and when nobody can be named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/test_job.h"
#include "diagnose/why.h"

namespace vetta::diagnose {
namespace {

using model::Answer;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A job of eight ranks that ended step 1999 at 400 s and then stood, seven of them in the
// all-reduce.
struct Hang : Job {
  explicit Hang(JobState state = JobState::running) : Job(state) {
    for (LastMark& mark : input.last_marks) {
      mark.time = start + 400s;
      stands(mark.rank, 2000, model::Phase::allreduce);
    }
  }

  Hang& stands(int rank, std::optional<std::int64_t> step, std::optional<model::Phase> phase,
               Duration since = 401s) {
    input.last_marks[static_cast<std::size_t>(rank)].now =
        model::RankNow{step, phase, start + since, 2000};
    return *this;
  }

  Hang& unknown(int rank) {
    input.last_marks[static_cast<std::size_t>(rank)].now.reset();
    return *this;
  }

  Hang& all_stand(std::optional<std::int64_t> step, std::optional<model::Phase> phase,
                  Duration since = 401s) {
    for (int r = 0; r < 8; ++r) stands(r, step, phase, since);
    return *this;
  }
};

void expect_named(const Why& why, Answer answer, int rank, const std::string& headline) {
  EXPECT_EQ(why.answer, answer) << why.headline;
  EXPECT_THAT(why.headline, StartsWith(headline));
  ASSERT_TRUE(why.first);
  EXPECT_EQ(why.first->kind, EventKind::hang);
  EXPECT_EQ(why.first->rank, rank);
}

void expect_nobody(const Why& why, Answer answer, const std::string& headline) {
  EXPECT_EQ(why.answer, answer) << why.headline;
  EXPECT_THAT(why.headline, StartsWith(headline));
  ASSERT_TRUE(why.first);
  EXPECT_EQ(why.first->kind, EventKind::hang);
  EXPECT_EQ(why.first->rank, -1);
}

TEST(Hang, the_rank_outside_of_the_all_reduce_is_named) {
  Hang job;
  const Why why = job.stands(3, 2000, model::Phase::forward).why();
  expect_named(why, Answer::code, 3,
               "rank 3 on n002 hangs in the forward phase of step 2000, and the others wait in the "
               "all-reduce of step 2000");
  EXPECT_EQ(why.first->rank_id, 103U);
  EXPECT_THAT(why.evidence,
              Contains("ranks 0, 1, 2, 4, 5, 6, 7: in the all-reduce of step 2000 for 3m29s"));
  EXPECT_THAT(why.advice, Contains(HasSubstr("py-spy dump --pid 5003 on n002")));

  expect_named(job.stands(3, 2000, {}).why(), Answer::code, 3,
               "rank 3 on n002 hangs in step 2000, outside of its marked phases, and the others");
  expect_named(job.stands(3, {}, {}).why(), Answer::code, 3,
               "rank 3 on n002 hangs between two steps, after step 1999, and the others wait");
}

TEST(Hang, a_rank_that_waits_for_data) {
  Hang job;
  expect_named(job.stands(3, 2000, model::Phase::data).why(), Answer::data, 3,
               "rank 3 on n002 hangs in the data phase of step 2000, and the others wait in the");
  expect_named(job.stands(3, {}, model::Phase::data).why(), Answer::data, 3,
               "rank 3 on n002 hangs in the data phase after step 1999, and the others wait in");
}

TEST(Hang, few_ranks_are_named_together) {
  Hang job;
  const Why why =
      job.stands(2, 2000, model::Phase::forward).stands(3, 2000, model::Phase::forward).why();
  expect_named(why, Answer::code, 2, "ranks 2, 3 on n002 hang in the forward phase of step 2000");
}

TEST(Hang, most_ranks_outside_stand_out_from_nobody) {
  Hang job;
  for (int r = 0; r < 5; ++r) job.stands(r, 2000, model::Phase::forward);
  const Why why = job.why();
  expect_nobody(why, Answer::cannot_tell, "no rank has marked a step since step 1999: the job");
  EXPECT_THAT(why.evidence, Contains(StartsWith("ranks 0, 1, 2, 3, 4: in the forward phase of")));
}

TEST(Hang, all_in_the_all_reduce_is_nobodys_fault_that_can_be_seen) {
  const Why why = Hang().why();
  expect_nobody(why, Answer::cannot_tell,
                "all 8 ranks wait in the all-reduce of step 2000: no rank is outside of it, so it "
                "is the network between them, or a collective that they do not call alike");
  EXPECT_THAT(why.advice, Contains(HasSubstr("TORCH_DISTRIBUTED_DEBUG")));
}

TEST(Hang, an_all_reduce_of_an_earlier_step) {
  Hang job;
  const Why why = job.stands(3, 1999, model::Phase::allreduce).why();
  expect_named(why, Answer::code, 3,
               "rank 3 on n002 hangs in the all-reduce of step 1999, and the others wait in the "
               "all-reduce of step 2000");
}

TEST(Hang, a_rank_ahead_holds_nobody) {
  Hang job;
  for (const auto& [step, phase] :
       {std::pair(2001, model::Phase::forward), std::pair(2001, model::Phase::data)}) {
    job.stands(3, step, phase);
    expect_nobody(job.why(), Answer::cannot_tell, "no rank has marked a step since step 1999");
  }
  job.input.last_marks[3].step = 2000;  // has ended the step in which the others wait
  job.stands(3, {}, {});
  EXPECT_NE(job.why().first->rank, 3);
}

TEST(Hang, where_some_are_is_unknown) {
  Hang job;
  expect_nobody(job.unknown(3).unknown(6).why(), Answer::cannot_tell,
                "the job hangs: ranks 0, 1, 2, 4, 5, 7 wait in the all-reduce of step 2000, and "
                "where ranks 3, 6 are is not known");
  const Why why = job.stands(3, 2000, model::Phase::forward).why();
  expect_named(why, Answer::code, 3, "rank 3 on n002 hangs in the forward phase");
  EXPECT_THAT(why.evidence, Contains("rank 6 on n004: where is not known"));
  for (int r = 0; r < 8; ++r) job.unknown(r);
  expect_nobody(job.why(), Answer::cannot_tell, "no rank has marked a step since step 1999");
}

TEST(Hang, a_rank_that_never_said_anything) {
  Hang job;
  job.input.last_marks.erase(job.input.last_marks.begin() + 3);
  expect_nobody(job.why(), Answer::cannot_tell,
                "the job hangs: ranks 0, 1, 2, 4, 5, 6, 7 wait in the all-reduce of step 2000, and "
                "where rank 3 is is not known");
}

TEST(Hang, a_dead_rank_holds_those_that_wait) {
  Hang job;
  job.ends(3, 402s, 0);
  job.unknown(3);
  expect_named(job.why(), Answer::code, 3,
               "rank 3 on n002 has ended, and the others wait in the all-reduce of step 2000 for "
               "it");
  job.stands(3, 2000, model::Phase::allreduce);  // it waited as the others do, and then left
  expect_named(job.why(), Answer::code, 3, "rank 3 on n002 has ended, and the others wait");
}

TEST(Hang, ranks_that_have_ended_are_waited_for_by_nobody_who_works) {
  Hang job;
  job.all_stand({}, {});  // rank 0 writes the last checkpoint
  for (int r = 1; r < 8; ++r) job.ends(r, 402s, 0);
  EXPECT_NE(job.why().answer, Answer::code) << job.why().headline;
}

TEST(Hang, a_wait_that_hides_in_another_phase) {
  Hang job;
  job.all_stand(2000, model::Phase::backward).stands(3, 2000, model::Phase::data);
  expect_named(job.why(), Answer::data, 3,
               "rank 3 on n002 hangs in the data phase of step 2000, and the others wait in the "
               "backward phase of step 2000");
  job.stands(3, {}, {});  // before the step: between 1999 and 2000
  expect_named(job.why(), Answer::code, 3, "rank 3 on n002 hangs between two steps");
  job.stands(3, 2000, model::Phase::optimizer);  // past it
  expect_nobody(job.why(), Answer::cannot_tell, "no rank has marked");
  job.all_stand(2000, {}).stands(3, 2000, model::Phase::data);
  expect_named(job.why(), Answer::data, 3, "rank 3 on n002 hangs in the data phase");
}

TEST(Hang, all_wait_for_data) {
  Hang job;
  job.all_stand({}, model::Phase::data);
  expect_nobody(job.why(), Answer::data, "all 8 ranks wait for data, and none comes");
}

TEST(Hang, a_long_step_in_which_ranks_move_is_none) {
  Hang job;
  job.all_stand(2000, model::Phase::backward, 590s).stands(5, 2000, model::Phase::forward, 420s);
  EXPECT_EQ(job.why().answer, Answer::fine);
  job.all_stand(2000, model::Phase::backward, 401s);
  EXPECT_EQ(job.why().answer, Answer::cannot_tell);
}

TEST(Hang, in_the_first_step) {
  Hang job;
  for (LastMark& mark : job.input.last_marks) {
    mark.step.reset();
    mark.time = start + 10s;
  }
  job.all_stand(0, model::Phase::allreduce, 10s).stands(3, 0, model::Phase::data, 9s);
  job.input.median_step.reset();
  const Why why = job.why();
  expect_named(why, Answer::data, 3, "rank 3 on n002 hangs in the data phase of step 0, and the");
  EXPECT_THAT(why.evidence, Contains(StartsWith("no rank has ended its first step")));
}

TEST(Hang, is_still_told_after_the_job_was_cancelled) {
  Hang job(JobState::cancelled);
  job.stands(3, 2000, model::Phase::forward).others_end(-1, 600s, 0, 15);
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::cancelled);
  EXPECT_THAT(why.evidence,
              Contains(StartsWith("before that it may have hung: rank 3 on n002 hangs in the "
                                  "forward phase of step 2000, and the others wait")));
}

}  // namespace
}  // namespace vetta::diagnose
