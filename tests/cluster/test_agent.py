# SPDX-License-Identifier: Apache-2.0
"""Agents on two nodes of a real Slurm, with the rank plugin and the real probe: every rank of a job
is registered once, with its marks, its samples and its end, whoever submits it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Cluster
from waiting import wait_until

sys.path.insert(0, str(ROOT / "tests" / "agent"))
from fake_vettad import FakeVettad  # noqa: E402

BUILD = Path(os.environ.get("VETTA_BUILD", ROOT / "build" / "release"))
TRAINER = ROOT / "tests" / "agent" / "trainer.py"
NODES = ("n001", "n002")
PYTHON = "/usr/bin/python3"
UNIT = ROOT / "etc" / "systemd" / "vetta-agent.service"


def as_a_service() -> list[str]:
    """What comes before the agent's command so that it may do what its unit lets it do."""
    found = re.search(r"^CapabilityBoundingSet=(.+)$", UNIT.read_text(), re.MULTILINE)
    assert found
    names = [name.removeprefix("CAP_").lower() for name in found[1].split()]
    bounds = ",".join(["-all", *(f"+{name}" for name in names)])
    return ["setpriv", f"--bounding-set={bounds}", "--inh-caps=-all", "--no-new-privs", "--"]


class Agents:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.rundir = cluster.dir / f"run-{os.urandom(3).hex()}"
        self.rundir.mkdir()
        self.vettad = FakeVettad(cluster.dir / f"vettad-{os.urandom(3).hex()}.sock", "").start()
        self.vettad.token = "secret"
        self.token = self.rundir.with_suffix(".token")
        self.token.write_text("secret")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.config = cluster.plugstack_dir / "vetta.conf"
        plugin = BUILD / "lib" / "spank_vetta.so"
        words = f"rundir={self.rundir} python_dir={ROOT / 'python'}"
        self.config.write_text(f"optional {plugin} {words}\n")
        # Ordinary users may not see the checkout: the trainer lies with the cluster.
        self.trainer = self.rundir.with_suffix(".py")
        self.trainer.write_text(TRAINER.read_text())

    def start(self, node: str) -> None:
        argv = [*as_a_service(), str(BUILD / "bin" / "vetta-agent"), "--node", node]
        argv += ["--rundir", str(self.rundir)]
        argv += ["--vettad", f"unix:{self.vettad.path}", "--token-file", str(self.token)]
        log = open(self.cluster.dir / f"agent-{node}.log", "ab")
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        self.running[node] = subprocess.Popen([*argv, "--sample-period", "2s"], **pipes)
        socket = self.rundir / node / "probe.sock"
        wait_until(f"the agent of {node} listens", socket.exists)

    def ranks(self, job: int) -> list[dict[str, Any]]:
        with self.vettad.lock:
            return [rank for rank in self.vettad.ranks.values() if rank["job_id"] == job]

    def close(self) -> None:
        self.config.unlink()
        for agent in self.running.values():
            agent.terminate()
            agent.wait(10)
        self.vettad.stop()


@pytest.fixture
def agents(cluster: Cluster) -> Iterator[Agents]:
    made = Agents(cluster)
    yield made
    made.close()


def probed(agents: Agents, job: int, count: int) -> list[dict[str, Any]]:
    def found() -> list[dict[str, Any]]:
        ranks = [rank for rank in agents.ranks(job) if rank["is_probed"]]
        return ranks if len(ranks) == count else []

    ranks: list[dict[str, Any]] = wait_until(f"{count} ranks with a probe", found, 60)
    return ranks


def ended(agents: Agents, ranks: list[dict[str, Any]]) -> None:
    ids = {rank["rank_id"] for rank in ranks}
    wait_until("all ends", lambda: ids <= set(agents.vettad.ends), 60)
    for each in ids:
        steps = [mark["step"] for _, mark in sorted(agents.vettad.marks[each].items())]
        assert steps == list(range(len(steps))) and len(steps) > 10
        assert agents.vettad.overwritten[each] == 0


@pytest.mark.parametrize("user", [None, "games"])
def test_every_rank_of_a_step_once(cluster: Cluster, agents: Agents, user: str | None) -> None:
    for node in NODES:
        agents.start(node)
    script = f"export PYTHONPATH={ROOT / 'python'}\nsrun {PYTHON} {agents.trainer} 6 20"
    options = ("-N2", "--ntasks-per-node=2", f"--nodelist={','.join(NODES)}")
    job = int(cluster.sbatch(script, *options, user=user))
    ranks = probed(agents, job, 4)
    assert sorted(rank["rank"] for rank in ranks) == [0, 1, 2, 3]
    assert {rank["node"] for rank in ranks} == set(NODES)
    assert all(rank["world_size"] == 4 and rank["step_id"] == "0" for rank in ranks)
    uid = 0 if user is None else 5
    assert {rank["uid"] for rank in ranks} == {uid}
    ended(agents, ranks)
    assert all(agents.vettad.ends[rank["rank_id"]]["exit_code"] == 0 for rank in ranks)
    assert all(agents.vettad.rank_samples[rank["rank_id"]] for rank in ranks)
    ids = {rank["rank_id"] for rank in ranks}
    rest = [rank for rank in agents.ranks(job) if rank["rank_id"] not in ids]
    others = {(rank["step_id"], rank["rank"]) for rank in rest}
    assert others <= {("batch", 0)}
    assert all(hello["shared_host"] for hello in agents.vettad.hellos[1:])


def test_a_users_ring_outlives_an_agent(cluster: Cluster, agents: Agents) -> None:
    agents.start(NODES[0])
    script = f"export PYTHONPATH={ROOT / 'python'}\nsrun {PYTHON} {agents.trainer} 12 20"
    job = int(cluster.sbatch(script, "-N1", "-n1", "-w", NODES[0], user="games"))
    ranks = probed(agents, job, 1)
    ring = agents.rundir / NODES[0] / "rings" / f"{ranks[0]['rank_id']:016x}.ring"
    made = ring.stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (5, os.getegid(), 0o660)
    agents.running[NODES[0]].kill()
    agents.running[NODES[0]].wait(10)
    agents.start(NODES[0])
    ended(agents, ranks)
    assert [rank["rank_id"] for rank in agents.ranks(job) if rank["is_probed"]] == [
        ranks[0]["rank_id"]
    ]


def test_a_job_that_began_without_an_agent_is_taken_up(cluster: Cluster, agents: Agents) -> None:
    script = f"export PYTHONPATH={ROOT / 'python'}\nsrun {PYTHON} {agents.trainer} 25 20"
    job = int(cluster.sbatch(script, "-N1", "-n2", "-w", NODES[0]))
    cluster.wait(str(job), "RUNNING")
    wait_until("the step runs", lambda: cluster.run(["squeue", "-hs", "-j", str(job)]).stdout)
    agents.start(NODES[0])
    ranks = probed(agents, job, 2)
    assert sorted(rank["rank"] for rank in ranks) == [0, 1]
    ended(agents, ranks)
    codes = [agents.vettad.ends[rank["rank_id"]]["exit_code"] for rank in ranks]
    assert codes == [0, 0], "the plugin told the end that it could tell"


def test_several_workers_below_one_task(cluster: Cluster, agents: Agents) -> None:
    agents.start(NODES[0])
    worker = f"RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 {PYTHON} {agents.trainer} 6 20 &"
    inner = agents.rundir.with_suffix(".sh")
    inner.write_text(f"for r in 0 1; do {worker} done\nwait\n")
    script = f"export PYTHONPATH={ROOT / 'python'}\nsrun -n1 sh {inner}"
    job = int(cluster.sbatch(script, "-N1", "-n1", "-w", NODES[0]))
    ranks = probed(agents, job, 2)
    assert sorted(rank["rank"] for rank in ranks) == [0, 1]
    assert {rank["task"] for rank in ranks} == {0}
    ended(agents, ranks)
    launchers = [r for r in agents.ranks(job) if r["step_id"] == "0" and not r["is_probed"]]
    assert [rank["rank"] for rank in launchers] == [-1]
