# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of a job: the record is complete afterwards, and the job never notices."""

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from spine_job import Job
from vetta_stack import Stack, StackError
from waiting import wait_until

RANKS = 8


def marked(stack: Stack, job: str) -> dict[int, Counter[int]]:
    """For each rank, how often each step is on record."""
    table = stack.api(f"/api/v1/jobs/{job}/steps?last=100000")
    return {
        entry["rank"]: Counter(mark["step"] for mark in entry["marks"]) for entry in table["ranks"]
    }


def assert_complete(stack: Stack, job: str, steps: int) -> None:
    """Every step of every rank once, within the time that a reconnecting agent may take."""
    wanted = {rank: Counter(range(steps)) for rank in range(RANKS)}

    def complete() -> bool:
        try:
            return marked(stack, job) == wanted
        except StackError:
            return False

    try:
        wait_until(f"all marks of job {job}", complete, 60)
    except TimeoutError:
        found = marked(stack, job)
        lost = {r: sorted(set(range(steps)) - set(found.get(r, {})))[:5] for r in range(RANKS)}
        doubled = {r: [s for s, n in found.get(r, {}).items() if n > 1][:5] for r in range(RANKS)}
        raise AssertionError(f"lost {lost}, doubled {doubled}") from None


def knowledge(stack: Stack) -> str:
    """Whether vettad could ask slurmctld when it last tried."""
    sources = {source["name"]: source for source in stack.api("/api/v1/status")["sources"]}
    return str(sources["slurmctld"]["knowledge"])


def assert_recorded_end(stack: Stack, job: str, state: str) -> None:
    def recorded() -> bool:
        found = stack.vetta_json("job", "show", job)["job"]
        return bool(found["state"] == state and found["end"])

    wait_until(f"job {job} is {state} on record", recorded, 40)


def test_vettad(stack: Stack) -> None:
    job = Job(stack, "none", more="--steps 300")
    job.steps_reach(60)
    stack.kill("vettad")
    job.steps_reach(120)  # the job goes on while nobody listens
    stack.start_vettad()
    assert job.ended(120) == "COMPLETED"
    assert_complete(stack, job.id, 300)
    assert_recorded_end(stack, job.id, "COMPLETED")


def test_vettad_is_away_when_the_job_ends(stack: Stack) -> None:
    job = Job(stack, "none", more="--steps 120")
    job.steps_reach(30)
    stack.kill("vettad")
    assert job.ended(120) == "COMPLETED"
    stack.start_vettad()
    assert_complete(stack, job.id, 120)
    assert_recorded_end(stack, job.id, "COMPLETED")


@pytest.mark.parametrize("pause", [0.0, 3.0], ids=["at_once", "after_3_s"])
def test_agent(stack: Stack, pause: float) -> None:
    job = Job(stack, "none", more="--steps 300")
    job.steps_reach(60, 2)
    node = str(job.rank(2)["node"])
    stack.kill(f"agent-{node}")
    time.sleep(pause)  # how long the agent is away is what is tested
    stack.start_agent(node)
    assert job.ended(120) == "COMPLETED"
    assert_complete(stack, job.id, 300)


def test_rank(stack: Stack) -> None:
    job = Job(stack, "none", more="--steps 4000", srun="--kill-on-bad-exit=1")
    job.steps_reach(60, 5)
    os.kill(int(job.rank(5)["pid"]), signal.SIGKILL)
    job.ended()
    # The rank wrote its own step number after the mark was acknowledged: none of those may be lost.
    last = int(job.rank(5)["step"])
    wait_until(
        "the marks of the killed rank",
        lambda: set(range(last + 1)) <= set(marked(stack, job.id).get(5, {})),
        30,
    )
    assert max(marked(stack, job.id)[5].values()) == 1


def test_slurmctld(stack: Stack) -> None:
    job = Job(stack, "none", more="--steps 600")
    job.steps_reach(20)
    # Slurm saves its jobs every few seconds: one that it has not saved, it forgets in a crash.
    start = job.start()
    saved = Path(stack.dir) / "slurm" / "state" / "job_state"
    wait_until("slurmctld has saved the job", lambda: saved.stat().st_mtime > start + 1, 60)
    stack.kill_daemon("slurmctld")
    try:
        wait_until("vettad misses slurmctld", lambda: knowledge(stack) == "could_not_ask", 60)
        assert stack.vetta_json("job", "show", job.id)["job"]["state"] == "RUNNING"
        at = int(job.rank(0)["step"])
        job.steps_reach(at + 20)  # the job goes on
    finally:
        stack.start_daemon("slurmctld")
    wait_until("slurmctld answers again", lambda: knowledge(stack) == "known", 60)
    assert job.ended(180) == "COMPLETED"
    assert_complete(stack, job.id, 600)
    assert_recorded_end(stack, job.id, "COMPLETED")
