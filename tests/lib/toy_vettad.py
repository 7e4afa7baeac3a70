# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the suites that ask a vettad on a fake Slurm, from outside."""

from collections.abc import Iterator

import fake_agent
import pytest
from daemon import Vettad, running_job, simple_cluster
from told import tell_rank


@pytest.fixture
def fresh() -> Iterator[Vettad]:
    """Not started yet."""
    vettad = Vettad()
    try:
        yield vettad
    finally:
        vettad.remove()


@pytest.fixture(scope="module")
def vettad() -> Iterator[Vettad]:
    """Started, with job 4711 (two ranks, rank 1 slow in its data phase) and pending job 4712."""
    vettad = Vettad()
    try:
        jobs = [
            running_job(4711, "n001,n002", Name="train ddp", NumNodes=2),
            {"JobID": 4712, "State": "PENDING", "Reason": "Resources", "UserName": "grace"},
        ]
        vettad.set_cluster(simple_cluster(jobs))
        vettad.start()
        vettad.wait_ready()
        vettad.wait_job(4711)
        agents = [fake_agent.Agent(str(vettad.socket), node, "toy") for node in ("n001", "n002")]
        for number, agent in enumerate(agents):
            tell_rank(agent, 4711, number)
        yield vettad
        for agent in agents:
            agent.close()
    finally:
        vettad.remove()
