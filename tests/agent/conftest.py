# SPDX-License-Identifier: Apache-2.0
"""Fixtures: an agent of the build under test, a fake vettad, tasks as the plugin would tell them,
and the real probe as the writer of marks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_vettad import FakeVettad

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VETTA_BUILD", ROOT / "build/dev"))
AGENT = BUILD / "bin/vetta-agent"

sys.path[:0] = [str(ROOT / "tools" / "lib")]

from waiting import wait_until  # noqa: E402


def start_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


class Node:
    """One node: its run folder, its agent, its tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = "n001"
        self.rundir = folder / "run"
        self.dir = self.rundir / self.name
        (folder / "token").write_text("secret\n")
        self.vettad = FakeVettad(folder / "vettad.sock").start()
        self.agent: subprocess.Popen[bytes] | None = None
        self.tasks: list[subprocess.Popen[bytes]] = []
        self.log = folder / "agent.log"

    def start_agent(self, *flags: str) -> None:
        argv = [str(AGENT), "--node", self.name, "--cluster", "test", "--rundir", str(self.rundir)]
        argv += ["--vettad", f"unix:{self.vettad.path}", "--token-file", str(self.folder / "token")]
        argv += ["--sample-period", "1s", "--verbose", *flags]
        with open(self.log, "ab") as out:
            self.agent = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        probe = self.dir / "probe.sock"
        told = f"node={self.name}"
        wait_until("the agent", lambda: told in self.log.read_text() and probe.exists())

    def kill_agent(self, how: int = signal.SIGKILL) -> int:
        assert self.agent is not None
        self.agent.send_signal(how)
        code = self.agent.wait(10)
        self.agent = None
        return code

    def run(self, argv: list[str], **env: str) -> subprocess.Popen[bytes]:
        """A process as slurmstepd starts it."""
        full = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "python")}
        full["VETTA_SOCKET"] = str(self.dir / "probe.sock")
        task = subprocess.Popen(
            argv,
            env={**full, **env},
            stdin=subprocess.DEVNULL,
            stdout=open(self.folder / "task.log", "ab"),
            stderr=subprocess.STDOUT,
        )
        self.tasks.append(task)
        return task

    def tell(self, kind: str, task: int, pid: int, **more: Any) -> None:
        """What the plugin would say."""
        said = {"vetta": 1, "kind": kind, "job": 4711, "step": "0", "restart": 0, "task": task}
        said |= {"local_task": task, "tasks": 2, "uid": os.getuid(), "pid": pid}
        said |= {"time_ns": time.time_ns(), **more}
        if kind == "start":
            said.setdefault("start_ticks", start_ticks(pid))
        text = "".join(f"{key}={value}\n" for key, value in said.items())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto(text.encode(), str(self.dir / "agent.sock"))

    def rank(self, **want: Any) -> dict[str, Any]:
        """The one rank that vettad has with these fields."""

        def find() -> dict[str, Any] | None:
            for rank in list(self.vettad.ranks.values()):
                if all(rank[key] == value for key, value in want.items()):
                    return rank
            return None

        found: dict[str, Any] = wait_until(f"a rank with {want}", find)
        return found

    def close(self) -> None:
        for task in self.tasks:
            if task.poll() is None:
                task.kill()
            task.wait()
        if self.agent is not None:
            self.kill_agent(signal.SIGTERM)
        self.vettad.stop()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()
    if made.log.exists():
        sys.stderr.write(made.log.read_text()[-4000:])
