# SPDX-License-Identifier: Apache-2.0
"""The spine's promise: the rank that holds the others is named, with the right cause, and no other
one ever is. Real PyTorch on a real Slurm; ten of each kind run in bench/diagnose_live."""

import random

import pytest
from training import Training, right_causes
from vetta_stack import Stack


@pytest.fixture(scope="module")
def healthy(stack: Stack) -> Training:
    return Training(stack).start().finish()


def assert_no_rank(run: Training) -> None:
    """An uneven machine makes it "not distinguishable", which names nobody either."""
    found = run.diagnosis()
    assert found["outcome"] in ("nothing_wrong", "not_distinguishable"), found
    assert found["rank"] is None, found


def assert_named(run: Training) -> None:
    found = run.diagnosis()
    assert (found["outcome"], found["rank"]) == ("slow_rank", run.slow_rank), found
    assert found["cause"] in right_causes(run.slow_by), found
    assert found["node"] == run.node(run.slow_rank), found


def test_a_healthy_run_names_no_rank(healthy: Training) -> None:
    assert_no_rank(healthy)


def test_loader_work_is_named_with_its_share(stack: Stack, healthy: Training) -> None:
    run = Training(stack, random.randrange(8), "loader").start().finish()
    assert_named(run)
    truth = run.true_share(healthy)
    found = run.diagnosis()
    assert found["phase"] == "data", found
    for kind in ("wait", "paired"):
        assert abs(found["lost_share"] / truth[kind] - 1) < 0.2, (kind, found, truth)


def test_loader_work_under_torchrun_with_the_injected_probe(stack: Stack) -> None:
    run = Training(stack, random.randrange(8), "loader", torchrun=True, injected=True)
    assert_named(run.start().finish())


@pytest.mark.parametrize("torchrun", [False, True], ids=["srun", "torchrun"])
def test_a_cpu_quota_is_named_as_compute(stack: Stack, torchrun: bool) -> None:
    run = Training(stack, random.randrange(8), "quota", torchrun=torchrun, steps=80)
    assert_named(run.start().finish())


def test_a_healthy_run_with_the_injected_probe_names_no_rank(stack: Stack) -> None:
    assert_no_rank(Training(stack, injected=True).start().finish())
