# SPDX-License-Identifier: Apache-2.0
"""A job of faulty.py, and what its ranks say of themselves."""

import json
import os
from pathlib import Path
from typing import Any

from vetta_stack import ROOT, Stack, StackError
from waiting import wait_until

FAULTY = ROOT / "tests" / "spine" / "faulty.py"


class Job:
    """One run of faulty.py over four nodes, two ranks each."""

    def __init__(self, stack: Stack, fault: str, *options: str, more: str = "", srun: str = ""):
        self.stack = stack
        self.state = ""  # the final one, once it is known
        self.out = Path(stack.dir) / f"out-{fault}-{os.urandom(3).hex()}"
        self.out.mkdir(mode=0o777)
        self.script = self.out / "job.sh"
        command = f"srun {srun} /usr/bin/python3 {FAULTY} --fault {fault} --out {self.out} {more}"
        self.script.write_text(f"#!/bin/bash\nexport PYTHONPATH={ROOT}/python\n{command}\n")
        if "swallow" in options:
            self.script.write_text(self.script.read_text().rstrip() + " || true\nexit 0\n")
        flags = ["-N4", "--ntasks-per-node=2", "--no-requeue", f"--output={self.out}/log", "-t5"]
        flags += [option for option in options if option.startswith("-")]
        self.id = stack.sbatch(*flags, str(self.script))

    def start(self) -> int:
        """When it started, seconds since the epoch, as slurmctld says."""
        argv = ["squeue", "-h", "-j", self.id, "-O", "StartTime:30"]
        done = self.stack.run(argv, env={"SLURM_TIME_FORMAT": "%s"})
        return int(done.stdout.strip())

    def rank(self, rank: int) -> dict[str, Any]:
        """What the rank itself wrote last."""
        found: dict[str, Any] = json.loads((self.out / f"{rank}.json").read_text())
        return found

    def steps_reach(self, step: int, rank: int = 0) -> None:
        def reached() -> bool:
            path = self.out / f"{rank}.json"
            return path.exists() and int(self.rank(rank)["step"]) >= step

        wait_until(f"rank {rank} of job {self.id} at step {step}", reached, 60)

    def ended(self, seconds: float = 60) -> str:
        self.state = self.stack.wait_job(self.id, seconds=seconds)
        return self.state

    def why(
        self, until: str, seconds: float = 60, kind: str = "", says: str = ""
    ) -> dict[str, Any]:
        """Asks until the answer is the awaited one (its first event of that kind, its headline with
        those words) or time is up, and gives back the last answer: a job's end reaches Vetta with
        the next poll, what the probe wrote last with the agent's next batch, and what only
        accounting knows within half a minute."""
        last: dict[str, Any] = {}

        def answered() -> bool:
            try:
                reply = self.stack.vetta_json("why", self.id)
                found = reply["why"]
            except StackError:  # vettad has not polled since the job was submitted
                return False
            last.clear()
            last.update(found)
            is_over = reply["job"]["state"] == self.state or not self.state
            is_kind = not kind or bool(last["first"] and last["first"]["kind"] == kind)
            is_said = says.lower() in last["headline"].lower()
            return bool(last["answer"] == until and is_over and is_kind and is_said)

        try:
            wait_until(f"vetta why {self.id}", answered, seconds)
        except StackError:
            path = self.out / "log"
            log = path.read_text(errors="replace")[-1500:] if path.exists() else ""
            last.pop("diagnosis", None)
            raise AssertionError(
                f"job {self.id}: answer is not {until} {says}: {json.dumps(last, indent=1)}\n{log}"
            ) from None
        return last
