// SPDX-License-Identifier: Apache-2.0
// Made failures told rightly: what the headline says is a feature, so it is tested to the word.
#include "diagnose/why.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <rapidcheck.h>

#include "diagnose/message_detail.h"
#include "diagnose/test_job.h"

namespace vetta::diagnose {
namespace {

using namespace std::chrono_literals;
using model::Answer;
using model::Event;
using model::EventKind;
using model::JobState;
using model::Why;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Why, python_exception_on_one_rank_wins_over_its_consequences) {
  Job job;
  job.event(EventKind::exception, 599s + 100ms, 2,
            "RuntimeError: [../gloo/pair.cc:589] Connection closed by peer [127.0.0.1]:4711");
  job.event(EventKind::exception, 599s, 3,
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 4x3)")
      .detail =
      "Traceback (most recent call last):\n  File \"train.py\", line 88, in main\n  File "
      "\"/users/ada/net.py\", line 12, in f";
  job.ends(3, 599s + 500ms, 1).others_end(3, 600s, 0, 15).ends(2, 599s + 300ms, 1);
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::code);
  EXPECT_EQ(why.headline,
            "rank 3 on n002: an exception that nobody caught: RuntimeError: mat1 and mat2 shapes "
            "cannot be "
            "multiplied (4x3 and 4x3)");
  ASSERT_TRUE(why.first);
  EXPECT_EQ(why.first->kind, EventKind::exception);
  EXPECT_EQ(why.first->rank, 3);
  EXPECT_EQ(why.first->node, "n002");
  EXPECT_THAT(why.evidence, Contains("the traceback ends at /users/ada/net.py:12"));
  EXPECT_THAT(why.evidence, Contains("the rank ended with exit code 1"));
  EXPECT_THAT(
      why.evidence,
      Contains("7 other ranks ended after it, as a consequence: 6 by SIGTERM, 1 with exit code 1"));
}

TEST(Why, consequence_seen_earlier_than_the_cause_still_loses) {
  Job job;
  job.event(EventKind::exception, 598s, 2,
            "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a "
            "network error");
  job.event(EventKind::exception, 599s, 3, "ZeroDivisionError: division by zero");
  EXPECT_EQ(job.why().first->rank, 3);
}

TEST(Why, nccl_timeout_is_a_consequence_of_the_rank_that_died_before) {
  Job job;
  job.ends(5, 100s, 0, 11);
  job.event(EventKind::exception, 400s, 2,
            "RuntimeError: [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(...)");
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::code);
  EXPECT_EQ(why.headline, "rank 5 on n003 crashed in native code (SIGSEGV)");
}

TEST(Why, sigkill_from_outside) {
  Job job;
  job.ends(3, 500s, 0, 9).others_end(3, 501s, 0, 15);
  job.event(EventKind::exception, 500s + 200ms, 2, "RuntimeError: Connection closed by peer");
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::cannot_tell);
  EXPECT_EQ(why.headline,
            "rank 3 on n002 was killed from outside (SIGKILL); no out-of-memory kill was seen");
  EXPECT_EQ(why.first->exit_signal, 9);
  EXPECT_EQ(why.first->rank, 3);
}

// Accounting cuts seconds off, so that a step seems to end before its ranks did.
TEST(Why, what_ranks_tell_comes_before_what_slurm_adds_up) {
  Job job(JobState::failed, 500s);
  job.ends(3, 500s + 400ms, 0, 9).others_end(3, 500s + 600ms, 0, 15);
  model::Step step;
  step.step_id = "0";
  step.name = "python3";
  step.end = start + 500s;
  step.exit_code = 143;
  job.input.steps = {step};
  const Why why = job.why();
  ASSERT_TRUE(why.first);
  EXPECT_EQ(why.first->rank, 3);
  EXPECT_EQ(why.first->exit_signal, 9);
}

TEST(Why, oom_kill_by_the_kernel) {
  Job job;
  job.ends(3, 500s, 0, 9).others_end(3, 502s, 0, 15);
  Event& oom =
      job.node_event(EventKind::oom_kill, 503s, "n002",
                     "Memory cgroup out of memory: Killed process 5003 (python3) total-vm:9000kB");
  oom.source = "kernel";
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::code);
  EXPECT_EQ(why.headline,
            "rank 3 on n002 was killed because it used more memory than the job may have");
  EXPECT_EQ(why.first->kind, EventKind::oom_kill);
  EXPECT_EQ(why.first->rank, 3);
  EXPECT_THAT(why.evidence, Contains(HasSubstr("Killed process 5003")));
}

TEST(Why, oom_by_slurms_accounting_alone) {
  Job job(JobState::out_of_memory);
  job.ends(6, 500s, 0, 9).others_end(6, 502s, 0, 15);
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::code);
  EXPECT_THAT(why.headline, StartsWith("rank 6 on n004 was killed because it used more memory"));
  EXPECT_THAT(why.evidence, Contains("Slurm's accounting says OUT_OF_MEMORY"));
}

TEST(Why, a_full_node_is_the_machines_matter) {
  Job job;
  job.ends(3, 500s, 137).others_end(3, 502s, 0, 15);
  job.node_event(EventKind::oom_kill, 500s, "n002", "Out of memory: Killed process 5003 (python3)");
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::machine);
  EXPECT_THAT(why.headline, HasSubstr("the whole node was out of memory"));
}

TEST(Why, time_limit) {
  Job job(JobState::timeout, 3600s);
  job.others_end(-1, 3600s, 0, 15);
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::limit);
  EXPECT_EQ(why.headline, "the job reached its time limit of 1h00m");
  EXPECT_THAT(why.evidence, Contains(HasSubstr("it got to step 1999, at 300 ms a step")));
  EXPECT_THAT(why.advice, Contains("each further 1000 steps need about 5m00s"));
}

TEST(Why, an_exception_long_before_the_time_limit_is_the_cause) {
  Job job(JobState::timeout, 3600s);
  job.others_end(3, 3600s, 0, 15).ends(3, 700s, 1);
  job.event(EventKind::exception, 700s, 3, "KeyError: 'label'");
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::code);
  EXPECT_EQ(
      why.headline,
      "rank 3 on n002: an exception that nobody caught: KeyError: 'label'; Slurm says TIMEOUT");
}

TEST(Why, a_hang_before_the_time_limit_is_told) {
  Job job(JobState::timeout, 3600s);
  job.others_end(-1, 3600s, 0, 15);
  for (LastMark& mark : job.input.last_marks) mark.time = start + 1000s;
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::limit);
  EXPECT_THAT(why.evidence, Contains(HasSubstr("before that it may have hung")));
}

TEST(Why, scancel) {
  Job job(JobState::cancelled);
  job.input.attempt.state_text = "CANCELLED by 0";
  job.others_end(-1, 600s, 0, 15);
  job.event(EventKind::exception, 600s, 1, "KeyboardInterrupt");
  Why why = job.why();
  EXPECT_EQ(why.answer, Answer::cancelled);
  EXPECT_EQ(why.headline,
            "the job was cancelled by root: an operator, or Slurm itself, 10m00s after its start");
  job.input.attempt.state_text = "CANCELLED by 1000";
  EXPECT_THAT(job.why().headline, HasSubstr("by its owner, ada"));
  job.input.attempt.state_text = "CANCELLED by 1001";
  EXPECT_THAT(job.why().headline, HasSubstr("by another user, uid 1001"));
  job.input.attempt.state_text = "CANCELLED";
  EXPECT_THAT(job.why().headline, HasSubstr("Slurm did not say who"));

  WhyInput pending;
  pending.attempt = job.input.attempt;
  pending.attempt.start.reset();
  pending.now = job.input.now;
  why = explain(pending);
  EXPECT_EQ(why.answer, Answer::cancelled);
  EXPECT_THAT(why.headline, HasSubstr("before it started"));
}

TEST(Why, node_failure) {
  Job job(JobState::node_fail);
  for (int r : {2, 3}) {
    job.input.ranks[static_cast<std::size_t>(r)].end.reset();
    job.input.ranks[static_cast<std::size_t>(r)].exit_code.reset();
  }
  job.node_event(EventKind::agent_lost, 300s, "n002", "the agent of n002 fell silent");
  job.event(EventKind::exception, 301s, 5, "RuntimeError: Connection reset by peer");
  job.node_event(EventKind::node_state, 595s, "n002", "ALLOCATED -> DOWN*");
  job.node_event(EventKind::node_state, 599s, "n009", "IDLE -> DOWN");
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::machine);
  EXPECT_EQ(why.headline, "node n002 failed; Slurm says NODE_FAIL");
  EXPECT_THAT(why.evidence, Contains(StartsWith("its agent fell silent at ")));
  EXPECT_THAT(why.unknown,
              Contains(HasSubstr("n002 since 2027-01-15T08:05:00Z: its agent is not connected")));
}

TEST(Why, node_failure_that_only_slurms_state_tells) {
  Job job(JobState::node_fail);
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::machine);
  EXPECT_EQ(why.headline, "node n[001-004] failed");
}

TEST(Why, a_node_that_comes_back_did_not_fail) {
  Job job(JobState::completed);
  job.node_event(EventKind::node_state, 100s, "n002", "DOWN -> ALLOCATED");
  EXPECT_EQ(job.why().answer, Answer::fine);
}

TEST(Why, a_node_that_came_back_while_the_job_ran_is_not_blamed) {
  Job running(JobState::running);
  running.node_event(EventKind::node_state, 100s, "n002", "usable → NOT_RESPONDING");
  running.node_event(EventKind::node_state, 130s, "n002", "NOT_RESPONDING → usable");
  EXPECT_EQ(running.why().answer, Answer::fine);
  Job failed;
  failed.input.events = running.input.events;
  failed.event(EventKind::exception, 599s, 3, "ValueError: shapes differ");
  EXPECT_EQ(failed.why().answer, Answer::code);
}

TEST(Why, a_node_that_goes_down_after_a_good_end_is_not_blamed) {
  Job job(JobState::completed);
  job.node_event(EventKind::node_state, 630s, "n002", "usable → POWERED_DOWN");
  EXPECT_EQ(job.why().answer, Answer::fine);
}

TEST(Why, the_reason_of_a_node_is_prose_not_its_state) {
  Job down(JobState::node_fail);
  down.node_event(EventKind::node_state, 600s, "n002",
                  "usable → DOWN: unable to kill a process that is to end");
  EXPECT_EQ(down.why().answer, Answer::machine);
  EXPECT_EQ(down.why().first->node, "n002");
  Job drained(JobState::running);
  drained.node_event(EventKind::node_state, 100s, "n003", "usable → DRAIN: GPU FAILED, XID 79");
  EXPECT_EQ(drained.why().answer, Answer::fine);
}

TEST(Why, what_slurm_dates_into_the_second_of_the_start_was_not_recovered_from) {
  Job job(JobState::cancelled, 10s);
  job.input.attempt.state_text = "CANCELLED by 1000";
  for (model::Rank& rank : job.input.ranks) {
    rank.incarnation = 1;
    rank.start = start + 10s + 620ms;
    Job::end(rank, 11s, 0, 15);
  }
  model::Rank script;
  script.rank_id = 99;
  script.node = "n001";
  script.start = start;
  job.input.ranks.push_back(script);
  EXPECT_EQ(job.why().answer, Answer::cancelled);
}

TEST(Why, requeued_after_a_node_failure) {
  Job job(JobState::running);
  model::Attempt earlier = job.input.attempt;
  earlier.state = JobState::node_fail;
  earlier.nodes = "n007";
  earlier.start = start - 8000s;
  earlier.end = start - 800s;
  job.input.earlier = {earlier};
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::fine);
  ASSERT_EQ(why.lost.size(), 2U);
  EXPECT_EQ(why.lost[0].what, "waiting in the queue");
  EXPECT_EQ(why.lost[0].time, 60s);
  EXPECT_EQ(why.lost[1].what, "1 earlier attempt");
  EXPECT_EQ(why.lost[1].time, 7200s);
  EXPECT_THAT(why.lost[1].note, HasSubstr("NODE_FAIL on n007 after 2h00m"));
}

TEST(Why, hang_names_the_rank_that_is_behind) {
  Job job(JobState::running);
  for (LastMark& mark : job.input.last_marks) mark.time = start + 400s;
  job.input.last_marks[3].step = 1998;
  Why why = job.why();
  EXPECT_EQ(why.answer, Answer::code);
  EXPECT_EQ(
      why.headline,
      "rank 3 on n002 hangs, and the others wait: the last step is 1998, the others' 1999; the job "
      "still holds its nodes");
  EXPECT_EQ(why.first->kind, EventKind::hang);
  EXPECT_EQ(why.first->rank, 3);
  EXPECT_EQ(why.first->time, start + 400s);

  // All stopped at the same step: marks alone do not tell at whom.
  job.input.last_marks[3].step = 1999;
  why = job.why();
  EXPECT_EQ(why.answer, Answer::cannot_tell);
  EXPECT_THAT(why.headline, HasSubstr("no rank has marked a step since step 1999"));
}

TEST(Why, no_hang_where_marks_cannot_arrive) {
  Job job(JobState::running);
  for (LastMark& mark : job.input.last_marks) mark.time = start + 400s;
  for (const char* node : {"n001", "n002", "n003", "n004"})
    job.node_event(EventKind::agent_lost, 410s, node, "");
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::fine);
  EXPECT_THAT(why.unknown, Contains(HasSubstr("its agent is not connected")));
}

TEST(Why, a_short_silence_is_no_hang) {
  Job job(JobState::running);
  for (LastMark& mark : job.input.last_marks) mark.time = job.input.now - 20s;
  EXPECT_EQ(job.why().answer, Answer::fine);
}

TEST(Why, swallowed_exit_code) {
  Job job(JobState::completed);
  job.input.attempt.exit_code = 0;
  job.ends(3, 500s, 3).others_end(3, 502s, 0, 15);
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::code);
  EXPECT_EQ(why.headline,
            "rank 3 on n002 ended with exit code 3; Slurm says COMPLETED, for the job script ended "
            "with 0 all the same");
  EXPECT_EQ(why.first->kind, EventKind::rank_exit);
  EXPECT_EQ(why.first->exit_code, 3);
  EXPECT_THAT(why.advice, Contains(HasSubstr("set -euo pipefail")));
}

TEST(Why, swallowed_exit_code_of_a_step_without_ranks) {
  WhyInput input = Job(JobState::completed).input;
  input.ranks.clear();
  input.last_marks.clear();
  input.attempt.derived_exit_code = 1;
  const Why why = explain(input);
  EXPECT_EQ(why.answer, Answer::code);
  EXPECT_THAT(why.headline,
              StartsWith("one of its steps ended with exit code 1; Slurm says COMPLETED"));
}

TEST(Why, full_disk) {
  Job job;
  job.ends(3, 600s, 1).others_end(3, 601s, 0, 15);
  job.event(EventKind::exception, 599s, 3,
            "OSError: [Errno 28] No space left on device: '/scratch/ada/checkpoint.pt'");
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::data);
  EXPECT_EQ(
      why.headline,
      "rank 3 on n002: the disk it writes to is full: OSError: [Errno 28] No space left on device: "
      "'/scratch/ada/checkpoint.pt'");
  EXPECT_THAT(why.evidence, Contains("the path is /scratch/ada/checkpoint.pt"));
}

TEST(Why, waiting_in_plain_words) {
  WhyInput input;
  input.attempt.key = {"alps", 1, start};
  input.attempt.state = JobState::pending;
  input.now = start + 100s;
  const auto headline = [&](const char* reason) {
    input.attempt.reason = reason;
    const Why why = explain(input);
    EXPECT_EQ(why.answer, Answer::waiting);
    return why.headline;
  };
  EXPECT_EQ(headline("BeginTime"),
            "the job waits: it was submitted with --begin, and that time has not come (BeginTime)");
  EXPECT_EQ(
      headline("Resources"),
      "the job waits: enough nodes of the kind that it asked for are not free now (Resources)");
  EXPECT_EQ(headline("DependencyNeverSatisfied"),
            "the job will not start as it is: it waits for a job that ended otherwise than the "
            "dependency asks "
            "(DependencyNeverSatisfied)");
  EXPECT_THAT(headline("QOSMaxJobsPerUserLimit"),
              HasSubstr("its owner has reached a limit of the QOS"));
  EXPECT_THAT(headline("AssocGrpGRES"), HasSubstr("a limit that its users share"));
  EXPECT_THAT(headline("BrandNewReason"), HasSubstr("Vetta has no words for (BrandNewReason)"));
  EXPECT_THAT(headline("ReqNodeNotAvail, UnavailableNodes:n001"),
              HasSubstr("down, drained or reserved"));
  input.attempt.expected_start = start + 3700s;
  const Why why = explain(input);
  EXPECT_THAT(why.evidence,
              Contains("Slurm expects it to start at 2027-01-15T09:01:40Z, in 1h00m"));
  ASSERT_EQ(why.lost.size(), 1U);
  EXPECT_EQ(why.lost[0].time, 100s);
}

TEST(Why, running_and_fine) {
  const Why why = Job(JobState::running).why();
  EXPECT_EQ(why.answer, Answer::fine);
  EXPECT_EQ(why.headline, "the job runs, and nothing that went wrong was seen");
  EXPECT_FALSE(why.first);
  EXPECT_THAT(why.evidence, Contains(HasSubstr("49m50s of its time limit of 1h00m are left")));
  EXPECT_THAT(why.evidence, Contains("step 1999, 300 ms a step"));
  EXPECT_THAT(why.unknown, IsEmpty());
}

TEST(Why, running_with_a_slow_rank) {
  Job job(JobState::running);
  model::Diagnosis diagnosis;
  diagnosis.outcome = model::Outcome::slow_rank;
  diagnosis.reason = "rank 5 on n003 holds the others";
  diagnosis.rank = 5;
  diagnosis.node = "n003";
  diagnosis.cause = model::CauseClass::data;
  diagnosis.lost_time = 200s;
  diagnosis.lost_share = 0.4;
  job.input.diagnosis = diagnosis;
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::slow_rank);
  EXPECT_EQ(why.headline, "rank 5 on n003 holds the others");
  EXPECT_THAT(why.advice, ElementsAre(HasSubstr("the loader of rank 5")));
  ASSERT_EQ(why.lost.size(), 2U);
  EXPECT_EQ(why.lost[1].what, "waiting for rank 5 on n003, which waits for data");
  EXPECT_EQ(why.lost[1].time, 200s);
}

TEST(Why, states_that_slurm_decided) {
  EXPECT_EQ(Job(JobState::preempted).why().answer, Answer::cancelled);
  EXPECT_EQ(Job(JobState::deadline).why().answer, Answer::limit);
  EXPECT_EQ(Job(JobState::boot_fail).why().answer, Answer::machine);
}

TEST(Why, the_script_failed_before_any_step) {
  WhyInput input = Job().input;
  input.ranks.clear();
  input.last_marks.clear();
  model::Step batch;
  batch.step_id = "batch";
  batch.exit_code = 127;
  batch.end = start + 1s;
  input.steps = {batch};
  const Why why = explain(input);
  EXPECT_EQ(why.answer, Answer::code);
  EXPECT_EQ(why.headline,
            "the job script, which started no step, ended with exit code 127: the shell did not "
            "find the command");
  EXPECT_THAT(why.unknown, Contains(HasSubstr("none was registered")));
}

TEST(Why, a_failure_of_which_only_the_state_is_known) {
  WhyInput input = Job().input;
  input.ranks.clear();
  input.last_marks.clear();
  input.attempt.std_out = "/users/ada/slurm-4711.out";
  input.sources = {{"slurmdbd", model::Knowledge::could_not_ask, "connection refused", {}}};
  const Why why = explain(input);
  EXPECT_EQ(why.answer, Answer::cannot_tell);
  EXPECT_EQ(why.headline, "the job ended as FAILED, and what went wrong was not seen");
  EXPECT_THAT(why.unknown, Contains("what slurmdbd knows: connection refused"));
  EXPECT_THAT(why.advice, Contains("see its output: /users/ada/slurm-4711.out"));
}

TEST(Why, only_consequences_were_seen) {
  Job job;
  for (model::Rank& rank : job.input.ranks) Job::end(rank, 601s, 1, 0);
  job.event(EventKind::exception, 600s, 2, "RuntimeError: Connection closed by peer");
  for (int r : {0, 1, 3, 4, 5, 6, 7})
    job.event(EventKind::exception, 600s, r, "RuntimeError: Connection closed by peer");
  Why why = job.why();
  EXPECT_EQ(why.answer, Answer::cannot_tell);
  EXPECT_THAT(why.headline, HasSubstr("which rank failed first was not seen"));

  job.ends(6, 500s, 0);  // sys.exit(0) on one rank in the middle of the training
  why = job.why();
  EXPECT_EQ(why.answer, Answer::code);
  EXPECT_EQ(why.headline, "rank 6 on n004 ended on its own (exit code 0) while the others went on");
}

TEST(Why, restarted_ranks_are_a_loss_not_the_answer) {
  Job job(JobState::completed);
  job.event(EventKind::exception, 100s, 3, "ValueError: bad batch").rank_id = 7;
  for (model::Rank old : std::vector(job.input.ranks)) {
    old.rank_id -= 93;
    Job::end(old, 101s, 1, 0);
    job.input.ranks.push_back(old);
  }
  for (std::size_t r = 0; r < 8; ++r) {
    job.input.ranks[r].incarnation = 1;
    job.input.ranks[r].start = start + 110s;
  }
  const Why why = job.why();
  EXPECT_EQ(why.answer, Answer::fine);
  EXPECT_THAT(why.evidence,
              Contains(HasSubstr("started again before, after: rank 3 on n002: an exception")));
  EXPECT_THAT(why.lost.back().what, "1 restart of the ranks");
  EXPECT_EQ(why.lost.back().time, 110s);
}

TEST(Why, TheBatchScriptBeforeTheStepIsNoRestart) {
  Job job(JobState::completed);
  model::Rank batch = job.input.ranks.front();
  batch.rank_id = 4242;
  batch.step_id = "batch";
  batch.is_probed = false;
  for (model::Rank& rank : job.input.ranks) {
    rank.step_id = "0";
    rank.incarnation = 1;
    rank.start = batch.start + 5s;
  }
  job.input.ranks.push_back(batch);
  for (const model::Loss& loss : job.why().lost) EXPECT_THAT(loss.what, Not(HasSubstr("restart")));
}

TEST(Why, other_attempts_and_other_nodes_are_not_blamed) {
  Job job(JobState::completed);
  Event& event = job.event(EventKind::exception, 100s, 3, "ValueError: x");
  event.attempt->submit = start - 9999s;
  job.node_event(EventKind::node_state, 100s, "n077", "IDLE -> DOWN");
  EXPECT_EQ(job.why().answer, Answer::fine);
}

TEST(Meaning, of_messages) {
  const auto answer = [](const char* text) { return meaning_of(text).answer; };
  EXPECT_EQ(answer("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),
            Answer::code);
  EXPECT_EQ(answer("ModuleNotFoundError: No module named 'torch'"), Answer::code);
  EXPECT_EQ(answer("FileNotFoundError: [Errno 2] No such file or directory: '/data/a'"),
            Answer::data);
  EXPECT_EQ(answer("RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is "
                   "possible that "
                   "dataloader's workers are out of shared memory."),
            Answer::code);
  EXPECT_EQ(answer("OSError: [Errno 5] Input/output error"), Answer::machine);
  EXPECT_EQ(answer("RuntimeError: No CUDA GPUs are available"), Answer::machine);
  EXPECT_EQ(answer("RuntimeError: PytorchStreamReader failed reading zip archive"), Answer::data);
  EXPECT_FALSE(meaning_of("RuntimeError: my own").is_consequence);
  EXPECT_TRUE(meaning_of("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:")
                  .is_consequence);
  EXPECT_EQ(path_in("x 'a b' y '/tmp/z'"), "/tmp/z");
  EXPECT_EQ(path_in("can't open \"/tmp/z\""), "/tmp/z");
  EXPECT_EQ(path_in("it's"), "");
  EXPECT_EQ(place_in("File \"a.py\", line 3, in f\nFile \"b.py\", line 14, in g"), "b.py:14");
  EXPECT_EQ(place_in("File \"a.py"), "");
  EXPECT_EQ(signal_of_exit(137), 9);
  EXPECT_EQ(signal_of_exit(128), std::nullopt);
  EXPECT_EQ(signal_text(40), "signal 40");
}

std::string odd_text(std::mt19937_64& random) {
  static const char* const texts[] = {"",
                                      "by ",
                                      "CANCELLED by 99999999999999999999",
                                      "File \"",
                                      "'",
                                      "[Errno 28]",
                                      "\xff\xfe",
                                      "IDLE -> DOWN",
                                      "Out of memory: Killed process 5003 (",
                                      "→"};
  return texts[random() % std::size(texts)];
}

TEST(WhyProperty, any_input_gets_an_answer) {
  rc::check([] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    Job job(static_cast<JobState>(random() % 21));
    WhyInput& input = job.input;
    input.attempt.state_text = odd_text(random);
    input.attempt.reason = odd_text(random);
    if (random() % 3 == 0) input.attempt.start.reset();
    if (random() % 3 == 0) input.attempt.end.reset();
    if (random() % 3 == 0) input.ranks.clear();
    if (random() % 3 == 0) input.last_marks.clear();
    if (random() % 3 == 0) input.median_step.reset();
    for (std::uint64_t i = random() % 12; i > 0; --i) {
      Event event;
      event.kind = static_cast<EventKind>(random() % 13);
      event.time = start + Duration(static_cast<std::int64_t>(random() % 4'000'000'000'000));
      if (random() % 2 == 0) event.attempt = input.attempt.key;
      event.rank = static_cast<std::int32_t>(random() % 12) - 2;
      event.node = random() % 2 == 0 ? "n001" : odd_text(random);
      if (random() % 2 == 0) event.exit_code = static_cast<int>(random());
      if (random() % 2 == 0) event.exit_signal = static_cast<int>(random());
      event.message = odd_text(random);
      event.detail = odd_text(random);
      input.events.push_back(event);
    }
    const Why before = explain(input);
    RC_ASSERT(!before.headline.empty());
    RC_ASSERT(before.answer != Answer::fine || !before.first);
    std::shuffle(input.ranks.begin(), input.ranks.end(), random);
    RC_ASSERT(explain(input).answer == before.answer);
  });
}

}  // namespace
}  // namespace vetta::diagnose
