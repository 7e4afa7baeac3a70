# SPDX-License-Identifier: Apache-2.0
"""The rank plugin under real srun and sbatch: who is registered, what the tasks see, and that no
state of the agent or of plugstack.conf ever fails a job."""

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Cluster

PLUGIN = Path(os.environ.get("VETTA_BUILD", ROOT / "build" / "release")) / "lib" / "spank_vetta.so"
Message = dict[str, str]


class Agent:
    """The receiving end of a node's agent.sock."""

    def __init__(self, rundir: Path, node: str) -> None:
        path = rundir / node / "agent.sock"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(str(path))
        path.chmod(0o666)
        self.messages: list[Message] = []

    def receive(self, kind: str, count: int) -> list[Message]:
        """Waits for so many messages of that kind; each must come from uid 0."""
        self.socket.settimeout(20)
        while sum(1 for message in self.messages if message["kind"] == kind) < count:
            text, extra, _, _ = self.socket.recvmsg(4096, 256)
            assert struct.unpack("3i", extra[0][2])[1] == 0
            pairs = (line.partition("=") for line in text.decode().splitlines())
            self.messages.append({key: value for key, _, value in pairs})
        return [message for message in self.messages if message["kind"] == kind]


@pytest.fixture
def rundir(cluster: Cluster) -> Iterator[Path]:
    """The plugin is switched on for the test, with a run folder of its own."""
    folder = cluster.dir / f"run-{os.urandom(3).hex()}"
    folder.mkdir()
    config = cluster.plugstack_dir / "vetta.conf"
    config.write_text(f"optional {PLUGIN} rundir={folder} python_dir={ROOT / 'python'}\n")
    yield folder
    config.unlink()


def test_tasks_are_registered_and_their_ends_are_told(cluster: Cluster, rundir: Path) -> None:
    agent = Agent(rundir, "n002")
    cluster.run("srun -w n002 -n3 --gres=gpu:2 sh -c 'exit $SLURM_PROCID'", check=False)
    starts = agent.receive("start", 3)
    assert {message["task"] for message in starts} == {"0", "1", "2"}
    assert all(message["tasks"] == "3" and message["uid"] == "0" for message in starts)
    assert all(message["devices"] == "0,1" and message["step"] == "0" for message in starts)
    assert all(int(message["start_ticks"]) > 0 for message in starts)
    ends = {message["task"]: int(message["status"]) for message in agent.receive("exit", 3)}
    assert {task: os.waitstatus_to_exitcode(status) for task, status in ends.items()} == {
        "0": 0,
        "1": 1,
        "2": 2,
    }


def test_each_node_is_told_of_its_own_tasks_from_inside_a_batch_job(
    cluster: Cluster, rundir: Path
) -> None:
    """Steps inherit SLURMD_NODENAME of the node that runs the batch script."""
    agents = {node: Agent(rundir, node) for node in ("n002", "n003")}
    job = cluster.sbatch("srun -N2 -n2 /usr/bin/env", "-w", "n[002-003]", "-N2")
    cluster.wait(job, "COMPLETED")
    tasks = {
        node: [m["task"] for m in agent.receive("start", 2 if node == "n002" else 1)]
        for node, agent in agents.items()
    }
    assert tasks == {"n002": ["0", "0"], "n003": ["1"]}  # the batch script's is n002's other one
    assert f"VETTA_SOCKET={rundir}/n003/probe.sock" in cluster.output(job)


def test_a_signal_is_told(cluster: Cluster, rundir: Path) -> None:
    agent = Agent(rundir, "n002")
    cluster.run("srun -w n002 -n1 sh -c 'kill -9 $$'", check=False)
    assert os.WTERMSIG(int(agent.receive("exit", 1)[0]["status"])) == 9


@pytest.mark.parametrize("export", ["ALL", "NONE"])
def test_probe_by_sbatch_reaches_the_batch_script(
    cluster: Cluster, rundir: Path, export: str
) -> None:
    job = cluster.sbatch("/usr/bin/env", "--probe", f"--export={export}")
    cluster.wait(job, "COMPLETED")
    seen = cluster.output(job)
    assert "VETTA_PROBE=1" in seen
    assert f"PYTHONPATH={ROOT}/python/vetta_probe/inject:{ROOT}/python" in seen


def test_probe_by_sbatch_reaches_the_steps_once(cluster: Cluster, rundir: Path) -> None:
    job = cluster.sbatch("#SBATCH --probe\nsrun -n1 env")
    cluster.wait(job, "COMPLETED")
    seen = cluster.output(job)
    assert "VETTA_PROBE=1" in seen
    assert seen.count("vetta_probe/inject") == 1


def test_steps_of_a_batch_script_speak_to_their_own_node(cluster: Cluster, rundir: Path) -> None:
    """srun hands on the batch script's environment, which names the job's first node."""
    job = cluster.sbatch("srun sh -c 'echo $SLURMD_NODENAME $VETTA_SOCKET'", "-N3", "-n3")
    cluster.wait(job, "COMPLETED")
    pairs = [line.split() for line in cluster.output(job).splitlines()]
    assert len({node for node, _ in pairs}) == 3
    assert all(path == f"{rundir}/{node}/probe.sock" for node, path in pairs)


def test_off_is_off(cluster: Cluster, rundir: Path) -> None:
    assert "VETTA_PROBE=1" not in cluster.run("srun -n1 env").stdout
    assert "VETTA_PROBE=1" not in cluster.run("srun --probe=off -n1 env").stdout
    seen = cluster.run("VETTA_PROBE=0 srun --probe -n1 env").stdout
    assert "VETTA_PROBE=0" in seen and "inject" not in seen
    refused = cluster.run("srun --probe=perhaps -n1 true", check=False)
    assert refused.returncode != 0
    assert "--probe=perhaps is not known" in refused.stderr


def test_no_state_of_the_agent_fails_a_job(cluster: Cluster, rundir: Path) -> None:
    cluster.run("srun -w n003 -n8 true")  # absent
    full = Agent(rundir, "n003")  # nobody reads: its queue fills
    for _ in range(3):
        cluster.run("srun -w n003 -n16 true")
    full.socket.close()  # the path is there, nobody listens
    cluster.run("srun -w n003 -n8 true")


def test_a_broken_plugin_or_setting_fails_no_job(cluster: Cluster, rundir: Path) -> None:
    config = cluster.plugstack_dir / "vetta.conf"
    config.write_text(f"optional {PLUGIN} rundir=/{'x' * 300} nonsense=1 probe=maybe\n")
    cluster.run("srun -n2 true")
    config.write_text("optional /nonexistent/spank_vetta.so\n")
    cluster.run("srun -n2 true")
    broken = rundir / "broken.so"
    broken.write_bytes(b"not a library")
    config.write_text(f"optional {broken}\n")
    cluster.run("srun -n2 true")
