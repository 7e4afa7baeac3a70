# SPDX-License-Identifier: Apache-2.0
"""A dev cluster for tests: one for the whole session, in a folder of its own."""

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "lib")]
DEVCLUSTER = ROOT / "tools" / "devcluster"
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")

from waiting import wait_until  # noqa: E402


def devcluster(*args: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs tools/devcluster."""
    defaults: dict[str, Any] = {"stdin": subprocess.DEVNULL, "timeout": 120}
    defaults |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    done = subprocess.run([str(DEVCLUSTER), *args], **(defaults | options))
    if check:
        assert done.returncode == 0, f"devcluster {' '.join(args)}:\n{done.stdout}{done.stderr}"
    return cast(subprocess.CompletedProcess[str], done)


class Cluster:
    """A running dev cluster and what tests do with it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.dir = folder
        found = json.loads(devcluster("up", "--json", "--dir", str(folder), *options).stdout)
        self.info: dict[str, Any] = found
        self.nodes: list[str] = found["nodes"]
        self.plugstack_dir = Path(found["plugstack_dir"])
        self.env = {name: value for name, value in os.environ.items() if name[:5] != "SLURM"}
        self.env["SLURM_CONF"] = found["slurm_conf"]
        self.env["VETTA_DEVCLUSTER_DIR"] = found["dir"]

    def popen(
        self,
        command: str | Sequence[str],
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Starts a command (a string: by the shell) on the cluster, as `user` if one is given."""
        settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "text": True}
        settings["cwd"] = cwd if cwd else self.dir / "tmp" / self.nodes[0]
        settings["env"] = {**self.env, **(env or {})}
        if user:
            entry = pwd.getpwnam(user)
            settings |= {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            settings["env"] |= {"USER": user, "LOGNAME": user, "HOME": "/tmp"}
        settings |= {"shell": isinstance(command, str), **options}
        return cast(subprocess.Popen[str], subprocess.Popen(command, **settings))

    def run(
        self,
        command: str | Sequence[str],
        user: str | None = None,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
        cwd: str | Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command (a string: by the shell) to its end; `check` wants exit code 0."""
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.popen(command, user, env, cwd, **pipes) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if check:
            assert process.returncode == 0, f"{command}: {process.returncode}\n{out}{err}"
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def sbatch(self, script: str, *options: str, user: str | None = None) -> str:
        """Submits a script (without its first line) and gives back the job's id."""
        log = self.dir / "tmp" / self.nodes[0] / "%j.out"
        argv = ["sbatch", "--parsable", f"--output={log}", *options]
        process = self.popen(
            argv,
            user,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = process.communicate(f"#!/bin/bash\n{script}\n", timeout=60)
        assert process.returncode == 0, f"sbatch: {err}"
        return out.strip().partition(";")[0]

    def output(self, job: str) -> str:
        """What a job of `sbatch` has printed so far."""
        path = self.dir / "tmp" / self.nodes[0] / f"{job}.out"
        return path.read_text() if path.exists() else ""

    def job_state(self, job: str) -> str:
        """The state as scontrol has it, else as sacct has it, else an empty string."""
        done = self.run(["scontrol", "-o", "show", "job", job], check=False)
        found = re.search(r"\bJobState=(\w+)", done.stdout)
        if found:
            return found[1]
        done = self.run(["sacct", "-X", "-n", "-P", "-j", job, "-o", "State"])
        return done.stdout.split()[0] if done.stdout.split() else ""

    def wait(self, job: str, states: str | Sequence[str] = ENDED, timeout: float = 30) -> str:
        """Waits until the job is in one of the states and gives it back."""
        wanted = (states,) if isinstance(states, str) else tuple(states)

        def reached() -> str:
            state = self.job_state(job)
            return state if state in wanted else ""

        return str(wait_until(f"job {job} {'/'.join(wanted)}", reached, timeout))

    def status(self) -> dict[str, Any]:
        done = devcluster("status", "--json", "--dir", str(self.dir), check=False)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def kill(self, daemon: str, jobs: bool = False) -> None:
        """SIGKILL for one daemon; with `jobs` for all that runs on that node, too."""
        devcluster("kill", "--dir", str(self.dir), *(["--jobs"] if jobs else []), daemon)

    def start(self, daemon: str) -> None:
        devcluster("start", "--dir", str(self.dir), daemon)

    def down(self) -> None:
        devcluster("down", "--purge", "--dir", str(self.dir))


def short_dir() -> Path:
    """A new folder that ordinary users can enter; pytest's own are too deep for Slurm's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="vd-", dir="/tmp"))
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """8 nodes of 64 CPUs and 4 simulated GPUs; ends with the session, whatever happens in it."""
    if os.geteuid() != 0:
        pytest.skip("a dev cluster needs root")
    folder = short_dir()
    try:
        yield Cluster(folder)
    finally:
        devcluster("down", "--purge", "--dir", str(folder), check=False)
        shutil.rmtree(folder, ignore_errors=True)
