# SPDX-License-Identifier: Apache-2.0
"""examples/train_ddp on a stack, healthy or with one rank slowed, and what Vetta says of it."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vetta_stack import ROOT, Stack, StackError
from waiting import wait_until

EXAMPLE = ROOT / "examples" / "train_ddp"
RANKS = 8
QUOTA_FROM = 10  # the step of the slow rank at which its quota begins


@dataclass
class Training:
    """One run of the example over four nodes; `start()` submits it, `finish()` waits for it."""

    stack: Stack
    slow_rank: int = -1
    slow_by: str = ""  # "loader", "quota" or nothing
    torchrun: bool = False
    injected: bool = False  # the probe is injected; the code has no marks of its own
    steps: int = 60
    env: Mapping[str, str] = field(default_factory=dict)
    job: str = ""
    folder: Path = field(default_factory=Path)

    def start(self) -> "Training":
        self.folder = Path(self.stack.dir) / f"train-{os.urandom(3).hex()}"
        self.folder.mkdir()
        script = "job_torchrun.sh" if self.torchrun else "job.sh"
        options = ["--steps", str(self.steps), "--truth", str(self.truth)]
        if self.injected:
            options += ["--marks", "none", "--ddp"]
        if self.slow_by == "loader":
            options += ["--slow-rank", str(self.slow_rank), "--slow-by", "loader"]
        flags = ["-t10", f"--output={self.folder}/log", *(["--probe"] if self.injected else [])]
        env = {"TRAIN_DDP": str(EXAMPLE), "PYTHONPATH": str(ROOT / "python"), **self.env}
        self.job = self.stack.sbatch(*flags, str(EXAMPLE / script), *options, env=env)
        return self

    @property
    def truth(self) -> Path:
        return self.folder / "truth"

    def node(self, rank: int) -> str:
        """Two ranks a node, in Slurm's block distribution."""
        return self.stack.nodes[rank // 2]

    def finish(self, seconds: float = 240) -> "Training":
        helper = self._hold_by_quota() if self.slow_by == "quota" else None
        try:
            state = self.stack.wait_job(self.job, seconds=seconds)
        finally:
            if helper is not None:
                helper.terminate()
                helper.wait(10)
        log = (self.folder / "log").read_text(errors="replace")
        if state != "COMPLETED":
            raise AssertionError(f"job {self.job} {state}:\n{log[-3000:]}")
        return self

    def _hold_by_quota(self) -> "subprocess.Popen[bytes]":
        def pid() -> int:
            try:
                ranks = self.stack.api(f"/api/v1/jobs/{self.job}/ranks")["ranks"]
            except StackError:  # the job is not known to vettad yet
                return 0
            for rank in ranks:
                if rank["rank"] == self.slow_rank and rank["is_probed"] and rank["end"] is None:
                    return int(rank["pid"])
            return 0

        found = wait_until(f"the pid of rank {self.slow_rank}", pid, 90)
        path = Path(f"{self.truth}.{self.slow_rank}.csv")

        def reached() -> bool:
            return path.exists() and len(path.read_text().splitlines()) > QUOTA_FROM

        wait_until(f"step {QUOTA_FROM} of rank {self.slow_rank}", reached, 90)
        return subprocess.Popen(
            ["/usr/bin/python3", str(EXAMPLE / "slow_cgroup.py"), str(found), "--percent", "10"]
        )

    def diagnosis(self) -> dict[str, Any]:
        """What Vetta says once it has all marks of all ranks."""

        def complete() -> Any:
            table = self.stack.api(f"/api/v1/jobs/{self.job}/steps?last=100000")
            counts = [len(entry["marks"]) for entry in table["ranks"]]
            return len(counts) == RANKS and min(counts) >= self.steps - (2 if self.injected else 0)

        wait_until(f"all marks of job {self.job}", complete, 40)
        found: dict[str, Any] = self.stack.vetta_json("diagnose", "job", self.job)["diagnosis"]
        return found

    def true_share(self, healthy: "Training | None" = None) -> dict[str, Any]:
        """The example's own clocks around its all-reduce, read by its own script."""
        argv = ["/usr/bin/python3", str(EXAMPLE / "truth.py"), str(self.truth)]
        argv += ["--slow-rank", str(self.slow_rank)]
        if healthy:
            argv += ["--healthy", str(healthy.truth)]
        found: dict[str, Any] = json.loads(subprocess.check_output(argv, text=True))
        return found


def right_causes(slow_by: str) -> set[str]:
    """A quota slows everything that a rank computes, its data loading too."""
    return {"data"} if slow_by == "loader" else {"compute"}
