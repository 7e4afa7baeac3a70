# SPDX-License-Identifier: Apache-2.0
"""Ways in which a training job goes wrong, each told rightly by `vetta why`."""

import json
import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spine_job import Job
from vetta_stack import Stack

RANK = 3  # the one that goes wrong; two ranks a node, so it is on the second


def text_of(why: dict[str, Any]) -> str:
    """All that a person would read."""
    return json.dumps(why)


def assert_first(why: dict[str, Any], job: Job, *kinds: str) -> None:
    """The first event names the rank that went wrong, and its node."""
    first = why["first"]
    assert first is not None, why
    assert first["kind"] in kinds, first
    assert first["rank"] == RANK, first
    assert first["node"] == job.rank(RANK)["node"], first


@pytest.fixture(scope="module", autouse=True)
def limited(stack: Stack) -> Job:
    """A small job that reaches its limit of a minute, Slurm's least, while the other tests run."""
    return Job(stack, "none", "-t1", "-N1", "--ntasks-per-node=1", more="--steps 100000 --rest 0.2")


HANGS = {
    "code": ("hang", "", "", "in step 15"),
    "loader": ("loader", "", "", "in the data phase of step 15"),
    "injected": ("hang", "--bare", "--probe", "in step 15"),
}


@pytest.fixture(scope="module", autouse=True)
def hung(stack: Stack, limited: Job) -> dict[str, Job]:
    """One job for each kind, started in turn: they are found to hang while the other tests run."""
    jobs = {}
    for kind, (fault, more, srun, _) in HANGS.items():
        jobs[kind] = Job(stack, fault, more=more, srun=srun)
        jobs[kind].steps_reach(14, RANK)
    return jobs


def test_python_exception_on_one_rank(stack: Stack) -> None:
    job = Job(stack, "exception")
    assert job.ended() == "FAILED"
    why = job.why("code", kind="exception")
    assert_first(why, job, "exception")
    assert "RuntimeError" in text_of(why)
    assert "mat1 and mat2" in text_of(why)


def test_sigkill_of_a_rank(stack: Stack) -> None:
    job = Job(stack, "none", more="--steps 2000", srun="--kill-on-bad-exit=1")
    job.steps_reach(20, RANK)
    os.kill(int(job.rank(RANK)["pid"]), signal.SIGKILL)
    job.ended()
    why = job.why("cannot_tell")
    assert_first(why, job, "signal", "rank_exit")
    assert why["first"]["exit_signal"] == 9
    assert "out-of-memory" in text_of(why) or "out of memory" in text_of(why)


def test_oom_kill(stack: Stack) -> None:
    job = Job(stack, "oom", srun="--kill-on-bad-exit=1")
    job.ended()
    why = job.why("code", kind="oom_kill")
    assert_first(why, job, "oom_kill", "signal")
    assert "memory" in why["headline"].lower()


def test_scancel(stack: Stack) -> None:
    job = Job(stack, "none", more="--steps 2000")
    job.steps_reach(10)
    stack.run(["scancel", job.id])
    assert job.ended() == "CANCELLED"
    job.why("cancelled", says="root")  # which only accounting knows


@pytest.mark.parametrize("kind", HANGS)
def test_hang_while_it_runs(stack: Stack, hung: dict[str, Job], kind: str) -> None:
    job, where = hung[kind], HANGS[kind][3]
    said = f"rank {RANK} on {job.rank(RANK)['node']} hangs {where}"
    others = "and the others wait in the all-reduce of step 15"
    try:
        why = job.why("data" if kind == "loader" else "code", 120, kind="hang")
        assert stack.job_state(job.id) == "RUNNING"
        assert_first(why, job, "hang")
        assert said in why["headline"] and others in why["headline"], why
    finally:
        stack.run(["scancel", job.id])
        job.ended()
    why = job.why("cancelled")
    assert any("it may have hung" in line and said in line for line in why["evidence"]), why


def test_node_failure(stack: Stack) -> None:
    job = Job(stack, "none", more="--steps 4000")
    job.steps_reach(10, RANK)
    node = str(job.rank(RANK)["node"])
    stack.crash_node(node)
    try:
        assert job.ended(120) == "NODE_FAIL"
        why = job.why("machine", 60)
        assert node in why["headline"]
    finally:
        stack.start_node(node)


def test_swallowed_exit_code(stack: Stack) -> None:
    job = Job(stack, "exit", "swallow")
    assert job.ended() == "COMPLETED"
    why = job.why("code")
    assert_first(why, job, "rank_exit")
    assert why["first"]["exit_code"] == 3
    assert "COMPLETED" in text_of(why)


@pytest.fixture
def full_disk(stack: Stack) -> Iterator[Path]:
    """A file system of 2 MiB, real and soon full."""
    mount = Path(stack.dir) / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2M", "tmpfs", str(mount)], check=True)
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_full_disk(stack: Stack, full_disk: Path) -> None:
    job = Job(stack, "disk", more=f"--where {full_disk}/checkpoint.pt")
    assert job.ended() == "FAILED"
    why = job.why("data", kind="exception")
    assert_first(why, job, "exception")
    assert "No space left on device" in text_of(why)


def test_time_limit(limited: Job) -> None:
    assert limited.ended(180) == "TIMEOUT"
    limited.why("limit", says="time limit")


def test_a_healthy_job_is_fine(stack: Stack) -> None:
    job = Job(stack, "none", more="--steps 40")
    assert job.ended() == "COMPLETED"
    why = job.why("fine")
    assert why["first"] is None


def test_a_waiting_job_says_for_what(stack: Stack) -> None:
    job = Job(stack, "none", "--begin=now+1hour")
    why = job.why("waiting")
    assert "begin" in text_of(why).lower()
    stack.run(["scancel", job.id])


def test_a_job_that_is_not_there(stack: Stack) -> None:
    done = stack.vetta("why", "99999999", check=False)
    assert done.returncode == 1
    assert "99999999" in done.stderr
    assert pwd.getpwuid(0).pw_name not in done.stdout
