# SPDX-License-Identifier: Apache-2.0
"""examples/train_ddp runs as its README says, and its truth is true: without Slurm
(train_ddp/local.sh, train_ddp/slow_cgroup.py), and with a made one for train_ddp/job_torchrun.sh.
The jobs themselves run on a real Slurm in tests/cluster."""

from __future__ import annotations

import glob
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "train_ddp"
PYTHON = "/usr/bin/python3"
RANKS = 4


def environment(**extra: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("VETTA_", "SLURM_"))}
    return {**clean, "PYTHON": PYTHON, "RANKS": str(RANKS), **extra}


def local(port: int, *options: str, **extra: str) -> str:
    done = subprocess.run(
        [str(EXAMPLE / "local.sh"), *options],
        env=environment(MASTER_PORT=str(port), **extra),
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def truth(folder: Path, slow_rank: int, healthy: str = "") -> dict[str, Any]:
    command = [PYTHON, str(EXAMPLE / "truth.py"), str(folder / "slow")]
    command += ["--slow-rank", str(slow_rank)]
    command += ["--healthy", str(folder / healthy)] if healthy else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rings(folder: Path) -> dict[int, dict[str, Any]]:
    """rank → what the probe wrote."""
    command = [PYTHON, "-m", "vetta_probe.dump", "--json", *glob.glob(str(folder / "*.ring"))]
    done = subprocess.run(command, cwd=ROOT / "python", capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {ring["rank"]: ring for ring in found}


def test_slow_loader_by_hand_and_its_truth(tmp_path: Path) -> None:
    out = local(29611, "--steps", "30", "--truth", str(tmp_path / "healthy"))
    assert "step 20 loss" in out
    marks = str(tmp_path / "rings")
    options = ("--slow-rank", "2", "--slow-by", "loader", "--truth", str(tmp_path / "slow"))
    local(29612, "--steps", "30", *options, VETTA_RING_DIR=marks)
    found = truth(tmp_path, 2, "healthy")
    assert found["ranks"] == RANKS and 0.3 < found["wait"] < 0.8
    assert found["what_if"] == pytest.approx(found["wait"], rel=0.2)
    assert found["paired"] > 0.2
    assert truth(tmp_path, 0)["wait"] < 0.05  # the others held nobody
    written = rings(tmp_path / "rings")
    assert sorted(written) == list(range(RANKS))
    data = {rank: sum(s["phases"]["data"] for s in ring["steps"]) for rank, ring in written.items()}
    assert all(len(ring["steps"]) == 30 for ring in written.values())
    assert data[2] > 5 * max(data[rank] for rank in (0, 1, 3))


def test_injected_ddp(tmp_path: Path) -> None:
    path = str(ROOT / "python" / "vetta_probe" / "inject")
    probe = {"VETTA_PROBE": "1", "VETTA_RING_DIR": str(tmp_path / "rings"), "PYTHONPATH": path}
    local(29613, "--steps", "20", "--warmup", "5", "--marks", "none", "--ddp", **probe)
    written = rings(tmp_path / "rings")
    assert sorted(written) == list(range(RANKS))
    for ring in written.values():
        assert len(ring["steps"]) == 25 and ring["notes"][0]["kind"] == "ended"
        assert all(step["source"] == "injected" for step in ring["steps"])


def test_slow_cgroup_holds_a_process() -> None:
    """CPU time of a busy process over a second, held to 20 % of a core, and then let go."""
    if os.geteuid() != 0 or not Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").exists():
        pytest.skip("needs root and the cpu controller of cgroup v1")
    busy = subprocess.Popen([PYTHON, "-c", "while True: pass"])
    try:
        command = [PYTHON, str(EXAMPLE / "slow_cgroup.py"), str(busy.pid)]
        held = subprocess.Popen([*command, "--percent", "20", "--seconds", "3"])
        group = Path(f"/sys/fs/cgroup/cpu/vetta_slow_{busy.pid}")
        deadline = time.monotonic() + 10
        while not (group / "cgroup.procs").exists() or not (group / "cgroup.procs").read_text():
            assert time.monotonic() < deadline
        start, used = time.monotonic(), cpu_seconds(busy.pid)
        time.sleep(1.5)
        share = (cpu_seconds(busy.pid) - used) / (time.monotonic() - start)
        assert 0.01 < share < 0.3
        assert held.wait(20) == 0 and not group.exists()
        assert busy.poll() is None
    finally:
        busy.send_signal(signal.SIGKILL)
        busy.wait()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SCONTROL = """#!/bin/sh
case "$2" in
job) echo "   Command={script}" ;;
hostnames) printf 'n001\\nn002\\n' ;;
node) echo "   NodeAddr=127.0.0.1 NodeHostName=x" ;;
esac
"""
SRUN = """#!/bin/bash
shift # --kill-on-bad-exit=1
for node in 0 1; do SLURM_NODEID=$node SLURM_PROCID=$node "$@" & done
wait -n && wait -n
"""


def test_job_torchrun(tmp_path: Path) -> None:
    """job_torchrun.sh with two made nodes: four ranks meet, and LAUNCH stands before torchrun."""
    script = EXAMPLE / "job_torchrun.sh"
    for name, text in (("scontrol", SCONTROL.format(script=script)), ("srun", SRUN)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [str(script), "--steps", "3", "--warmup", "1", "--ddp"],
        env=environment(
            PATH=f"{tmp_path}:{os.environ['PATH']}",
            SLURM_JOB_ID="4711",
            SLURM_JOB_NODELIST="n[001-002]",
            SLURM_NNODES="2",
            LAUNCH=f"env VETTA_RING_DIR={tmp_path / 'rings'}",
        ),
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    written = rings(tmp_path / "rings")
    assert sorted(written) == [0, 1, 2, 3]
    assert [written[rank]["local_rank"] for rank in range(4)] == [0, 1, 0, 1]
    assert all(ring["job"] == "4711" and len(ring["steps"]) == 3 for ring in written.values())
