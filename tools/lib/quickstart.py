# SPDX-License-Identifier: Apache-2.0
"""The second half of tools/quickstart: a cluster with Vetta, two trainings, one verdict.

The truth comes from the job's own clock around its all-reduce and from a healthy run before it
(examples/train_ddp/truth.py); Vetta has no part in it. Exit codes: 0 the verdict agrees with the
truth, 3 it does not, 1 something could not be done, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from devcluster.layout import DevclusterError, claim
from vetta_stack import ENDED, ROOT, Stack, StackError
from waiting import wait_until

EXAMPLE = ROOT / "examples" / "train_ddp"
FOLDER = Path("/tmp/vetta-quickstart")
NODES = 4
RANKS_A_NODE = 2
SLOW_RANK = 5
STEPS = 60
# What is taken from a diagnosis.
NAMED = ("rank", "node", "phase", "cause", "lost_share", "confidence", "outcome")
# A named share may differ from the truth by a fifth of it.
TOLERANCE = 0.2


def say(text: str) -> None:
    print(f"quickstart: {text}", file=sys.stderr, flush=True)


class Progress:
    """Steps done and the job's state: one line on a terminal, else a line now and then."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._last = 0.0

    def show(self, state: str, steps: int) -> None:
        on_terminal = sys.stderr.isatty()
        if time.monotonic() - self._last < (0.5 if on_terminal else 10):
            return
        self._last = time.monotonic()
        text = f"quickstart: {self._what}: {state.lower()}, step {steps} of {STEPS}"
        print(f"\r\033[K{text}" if on_terminal else text, end="" if on_terminal else "\n",
              file=sys.stderr, flush=True)  # fmt: skip

    def end(self) -> None:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Quickstart:
    """One run; everything it makes lies under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        build = Path(os.environ.get("VETTA_BUILD", ROOT / "build" / "release"))
        self.stack = Stack(folder, NODES, build)
        self.truth_dir = folder / "truth"
        self.marker = folder / "made-by-quickstart"
        self.while_running: dict[str, Any] | None = None

    def start(self) -> None:
        """Replaces what an earlier run has left, and only that."""
        claim(self.folder, self.marker, "an earlier quickstart's", "--keep")
        self.stop()
        shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        self.marker.touch()
        self.truth_dir.mkdir()
        self.stack.up()

    def stop(self) -> None:
        """Ends what runs here. In a folder of somebody else nothing is believed."""
        if self.folder.exists():
            claim(self.folder, self.marker, "an earlier quickstart's", "--keep")
            self.stack.down()

    def train(self, name: str, *options: str, ask: bool = False) -> str:
        """Submits the example as a researcher would, waits for its end; returns the job's id.
        With `ask` Vetta is asked once while the job still runs."""
        prefix = self.truth_dir / name
        job = self.stack.sbatch(
            f"--chdir={self.folder}",
            f"--output={self.folder / name}.out",
            str(EXAMPLE / "job.sh"),
            *("--steps", str(STEPS), "--truth", str(prefix), *options),
            env={"MASTER_PORT": str(free_port())},
        )
        progress = Progress(f"job {job} ({name})")
        started = time.monotonic()
        state = ""
        while state not in ENDED:
            if time.monotonic() - started > 300:
                raise StackError(f"job {job} ({name}) did not end within 300 s; it is {state}")
            time.sleep(0.2)
            state = self.stack.job_state(job)
            steps = max(0, lines(Path(f"{prefix}.0.csv")) - 1)
            progress.show(state, steps)
            if ask and steps > STEPS * 2 // 3:
                ask = False
                self.while_running = self.ask_now(job)
        progress.end()
        if state != "COMPLETED":
            tail = (self.folder / f"{name}.out").read_text(errors="replace")[-2000:]
            raise StackError(f"job {job} ({name}) ended as {state}; its output ends with:\n{tail}")
        return job

    def ask_now(self, job: str) -> dict[str, Any] | None:
        """Who holds the others, as far as Vetta can tell now."""
        found = self.stack.vetta_json("why", job)["why"]["diagnosis"]
        return {key: found[key] for key in NAMED} if found else None

    def truth(self) -> dict[str, Any]:
        """What the slow rank cost the others, as the job itself saw it."""
        argv = [str(EXAMPLE / "truth.py"), str(self.truth_dir / "slow")]
        argv += ["--slow-rank", str(SLOW_RANK), "--healthy", str(self.truth_dir / "healthy")]
        done = subprocess.run(["/usr/bin/python3", *argv], capture_output=True, text=True)
        if done.returncode != 0:
            raise StackError(f"truth.py: {done.stderr.strip()}")
        found = json.loads(done.stdout)
        return {
            "rank": SLOW_RANK,
            "node": self.stack.nodes[SLOW_RANK // RANKS_A_NODE],
            "phase": "data",
            "cause": "data",
            "share": found["wait"],
            "paired_share": found["paired"],
            "healthy_step_seconds": found["healthy_step_seconds"],
            "step_seconds": found["step_seconds"],
        }

    def verdict(self, job: str) -> dict[str, Any]:
        """What Vetta says, once it has seen the job's end and its last marks."""

        def answer() -> Any:
            why = self.stack.vetta_json("why", job)["why"]
            diagnosis = why.get("diagnosis") or {}
            ended = self.stack.vetta_json("job", "show", job)["job"]["state"] in ENDED
            return why if ended and diagnosis.get("steps", 0) >= STEPS // 2 else None

        why = wait_until(f"vettad knows that job {job} ended, and its steps", answer, 60)
        found = why["diagnosis"]
        return (
            {"answer": why["answer"], "headline": why["headline"]}
            | {key: found[key] for key in NAMED}
            | {"while_running": self.while_running}
        )


def free_port() -> int:
    """A port that nobody listens on now; job.sh's own choice may meet another cluster's job."""
    for port in random.sample(range(20000, 30000), 100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise StackError("no free port between 20000 and 30000 on 127.0.0.1")


def lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 1


def differences(verdict: dict[str, Any], truth: dict[str, Any]) -> list[str]:
    """Where the verdict leaves the truth; empty if it agrees."""
    found = [
        f"{key} is {verdict[key]}, in truth {truth[key]}"
        for key in ("rank", "node", "phase", "cause")
        if verdict[key] != truth[key]
    ]
    share = verdict["lost_share"]
    for key in ("share", "paired_share"):
        if share is None or abs(share - truth[key]) > TOLERANCE * truth[key]:
            found.append(f"lost_share is {share}, in truth ({key}) {truth[key]:.3f}")
    return found


def run(folder: Path, once: bool, as_json: bool) -> int:
    started = time.monotonic()
    quickstart = Quickstart(folder)
    try:
        say(f"a Slurm of {NODES} nodes with Vetta on it, in {folder}")
        quickstart.start()
        say(f"ready after {time.monotonic() - started:.0f} s; training, healthy")
        quickstart.train("healthy")
        say(f"training again, rank {SLOW_RANK} slowed by its data loader")
        job = quickstart.train(
            "slow", "--slow-rank", str(SLOW_RANK), "--slow-by", "loader", ask=True
        )
        verdict = quickstart.verdict(job)
        truth = quickstart.truth()
        wrong = differences(verdict, truth)
        if as_json:
            seconds = round(time.monotonic() - started, 1)
            whole = {"job": int(job)} | verdict | {"truth": truth, "agrees": not wrong}
            print(json.dumps(whole | {"differences": wrong, "seconds": seconds}))
        else:
            screens(quickstart, job, truth)
    except BaseException:
        if once:
            quickstart.stop()
        else:
            say(f"logs lie in {quickstart.stack.log_dir}; tools/quickstart --stop ends what runs")
        raise
    for difference in wrong:
        say(f"the verdict differs from the truth: {difference}")
    if once:
        quickstart.stop()
    else:
        farewell(quickstart, job)
    return 3 if wrong else 0


def screens(quickstart: Quickstart, job: str, truth: dict[str, Any]) -> None:
    for argv in (("job", "show", job), ("why", job)):
        done = quickstart.stack.vetta(*argv, check=False)
        print(f"$ vetta {' '.join(argv)}\n{done.stdout}", flush=True)
        print(done.stderr, end="", file=sys.stderr)
    print(
        f"The truth, without Vetta: rank {truth['rank']} on {truth['node']};"
        f" {truth['share']:.1%} of a step by the job's own clock,"
        f" {truth['paired_share']:.1%} against the healthy run."
    )


def farewell(quickstart: Quickstart, job: str) -> None:
    stack = quickstart.stack
    say("the cluster and Vetta keep running. To look further:")
    for line in (
        f"export PATH={stack.bin}:$PATH SLURM_CONF={stack.env['SLURM_CONF']}"
        f" VETTA_SERVER={stack.env['VETTA_SERVER']}",
        f"vetta diagnose job {job}",
        "vetta node list",
        "sbatch your-job.sh",
    ):
        print(f"    {line}", file=sys.stderr)
    say("tools/quickstart --stop ends it")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/quickstart")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--stop", action="store_true")
    options = parser.parse_args()
    folder = (options.keep or FOLDER).absolute()
    try:
        if options.stop:
            Quickstart(folder).stop()
            say(f"ended; the state in {folder} can be deleted")
            return 0
        if options.keep and (folder / "truth").exists():
            raise StackError(f"{folder} keeps an earlier run: delete it, or name another --keep")
        code = run(folder, options.once, options.json)
        if options.once and not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        return code
    except (
        StackError,
        DevclusterError,
        OSError,
        subprocess.SubprocessError,
        ValueError,
        KeyError,
    ) as error:
        say(f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main())
