# SPDX-License-Identifier: Apache-2.0
"""The agent's binary between the real probe and a vettad that only keeps: nothing is lost, nothing
is doubled, whoever dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import AGENT, Node
from fake_vettad import FakeVettad
from small_disk import fill, small_disk
from waiting import wait_until

TRAINER = str(Path(__file__).with_name("trainer.py"))
EXCEPTION, GAP = 4, 8


def trainer(node: Node, task: int, seconds: float, how: str = "fine") -> Any:
    """A task with marks, told to the agent as the plugin would."""
    argv = [sys.executable, TRAINER, str(seconds), "5", how]
    process = node.run(argv, SLURM_JOB_ID="4711", SLURM_STEP_ID="0", SLURM_PROCID=str(task),
                       SLURM_NTASKS="2", SLURMD_NODENAME=node.name)  # fmt: skip
    node.tell("start", task, process.pid)
    return process


def finish(node: Node, task: int, process: Any) -> None:
    code = process.wait(60)
    status = code << 8 if code >= 0 else -code
    node.tell("exit", task, process.pid, status=status)


def sequences(vettad: FakeVettad, rank_id: int) -> list[int]:
    with vettad.lock:
        return sorted(vettad.marks.get(rank_id, {}))


def written(node: Node) -> list[int]:
    """Steps that the trainers counted, by order of their ends."""
    return [int(n) for n in re.findall(r"steps (\d+)", (node.folder / "task.log").read_text())]


def check_complete(node: Node, vettad: FakeVettad, rank_id: int, steps: int) -> None:
    wait_until("the rank's end", lambda: rank_id in vettad.ends)
    got = sequences(vettad, rank_id)
    marks = [vettad.marks[rank_id][each]["step"] for each in got]
    assert marks == list(range(steps))
    assert vettad.overwritten.get(rank_id, 0) == 0


def test_marks_arrive_with_rank_end_and_samples(node: Node) -> None:
    node.start_agent()
    process = trainer(node, 1, 3)
    rank = node.rank(task=1, is_probed=1)
    assert rank["job_id"] == 4711 and rank["step_id"] == "0" and rank["pid"] == process.pid
    assert (rank["rank"], rank["world_size"], rank["source"]) == (1, 2, 1)
    assert rank["uid"] == os.getuid() and rank["node"] == node.name
    finish(node, 1, process)
    vettad = node.vettad
    check_complete(node, vettad, rank["rank_id"], written(node)[0])
    assert vettad.ends[rank["rank_id"]]["exit_code"] == 0
    samples = vettad.rank_samples[rank["rank_id"]]
    assert len(samples) >= 2 and samples[-1]["processes"] == 1
    assert samples[-1]["rss_bytes"] > 1_000_000 and samples[-1]["cpu_seconds"] > 0
    assert vettad.node_samples[-1]["memory_total_bytes"] > 0
    assert vettad.hellos[0]["node"] == node.name and vettad.hellos[0]["cluster"] == "test"
    ring = node.dir / "rings" / f"{rank['rank_id']:016x}.ring"
    wait_until("the ring is removed", lambda: not ring.exists(), 30)


def test_kill_9_of_agent_and_vettad_loses_and_doubles_nothing(node: Node) -> None:
    node.start_agent()
    process = trainer(node, 0, 12)
    rank_id = node.rank(task=0, is_probed=1)["rank_id"]
    for _ in range(2):
        before = len(sequences(node.vettad, rank_id))
        wait_until("more", lambda: len(sequences(node.vettad, rank_id)) > before)  # noqa: B023
        node.kill_agent()
        time.sleep(0.5)
        node.start_agent()
    node.vettad.stop()
    time.sleep(1)
    node.vettad.start()
    finish(node, 0, process)
    check_complete(node, node.vettad, rank_id, written(node)[0])
    assert node.vettad.ends[rank_id]["exit_code"] == 0
    assert list(node.vettad.ranks) == [rank_id], "the restarted agent took up the same rank"
    times = [sample["time"] for sample in node.vettad.rank_samples[rank_id]]
    assert len(times) == len(set(times))
    assert len({hello["agent_id"] for hello in node.vettad.hellos}) == 3


def test_an_end_while_the_agent_was_dead_is_told(node: Node) -> None:
    node.start_agent()
    process = trainer(node, 0, 2)
    rank_id = node.rank(task=0, is_probed=1)["rank_id"]
    node.kill_agent()
    process.wait(30)
    node.start_agent()
    check_complete(node, node.vettad, rank_id, written(node)[0])
    end = node.vettad.ends[rank_id]
    assert end["exit_code"] is None and end["exit_signal"] is None, "nobody saw how"


def test_acknowledged_late_or_unplaced_marks_stay_in_the_ring(node: Node) -> None:
    node.start_agent()
    process = trainer(node, 0, 2)
    rank_id = node.rank(task=0, is_probed=1)["rank_id"]
    node.vettad.unplaced.add(rank_id)
    node.vettad.marks.clear()
    before = len(node.vettad.batches)
    finish(node, 0, process)
    wait_until("it is offered again", lambda: sum(
        1 for batch in node.vettad.batches[before:] for end in batch["ends"]) >= 2)  # fmt: skip
    assert rank_id not in node.vettad.ends
    node.vettad.unplaced.clear()
    wait_until("the end", lambda: rank_id in node.vettad.ends)
    steps = [node.vettad.marks[rank_id][each]["step"] for each in sequences(node.vettad, rank_id)]
    assert steps[-1] == written(node)[0] - 1
    assert steps == list(range(steps[0], steps[-1] + 1))


def test_an_exception_and_a_signal_are_told(node: Node) -> None:
    node.start_agent()
    process = trainer(node, 0, 1, "raise")
    rank_id = node.rank(task=0, is_probed=1)["rank_id"]
    finish(node, 0, process)
    wait_until("the end", lambda: rank_id in node.vettad.ends)
    assert node.vettad.ends[rank_id]["exit_code"] == 1
    events = list(node.vettad.events.values())
    assert [event["kind"] for event in events] == [EXCEPTION]
    assert events[0]["message"] == "RuntimeError: the disk is full of eels"
    assert "trainer.py" in events[0]["detail"] and events[0]["rank_id"] == rank_id
    process = trainer(node, 1, 30)
    rank_id = node.rank(task=1, is_probed=1)["rank_id"]
    process.kill()
    finish(node, 1, process)
    wait_until("the end", lambda: rank_id in node.vettad.ends)
    assert node.vettad.ends[rank_id]["exit_signal"] == signal.SIGKILL


def test_ranks_below_one_task_are_found_as_torchrun_sets_them(node: Node) -> None:
    node.start_agent()
    script = (
        "for r in 0 1; do "
        f"RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 {sys.executable} {TRAINER} 5 5 & done;"
        f"RANK=2 LOCAL_RANK=2 WORLD_SIZE=3 sleep 5 & wait"
    )
    process = node.run(["/bin/sh", "-c", script])
    node.tell("start", 0, process.pid, tasks=1)
    ranks = [node.rank(rank=each, is_probed=1) for each in (0, 1)]
    for each in ranks:
        assert (each["task"], each["world_size"], each["source"]) == (0, 2, 2)
        assert each["pid"] != process.pid and each["job_id"] == 4711
    silent = node.rank(rank=2)  # no probe: found by its environment
    assert silent["source"] == 3 and silent["is_probed"] == 0
    launcher = node.rank(pid=process.pid, rank=-1)
    assert launcher["world_size"] == -1 and launcher["task"] == 0
    finish(node, 0, process)
    steps = written(node)
    for each in ranks:
        wait_until("the rank's end", lambda: each["rank_id"] in node.vettad.ends)
        assert len(sequences(node.vettad, each["rank_id"])) in steps
    assert node.vettad.ends[launcher["rank_id"]]["exit_code"] == 0


STEPD = """
import subprocess, time
open("/proc/self/comm", "w").write("slurmstepd")
task = dict(SLURM_JOB_ID="99", SLURM_STEP_ID="3", SLURM_PROCID="7", SLURM_NTASKS="8")
task["SLURM_STEP_GPUS"] = "0,3"
for node in ("n002", "n001"):
    print(subprocess.Popen(["sleep", "30"], env={**task, "SLURMD_NODENAME": node}).pid, flush=True)
time.sleep(30)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="slurmstepd is root's")
def test_a_task_that_nobody_registered_is_found(node: Node) -> None:
    env = {"SLURM_JOB_ID": "98", "SLURM_STEP_ID": "3", "SLURM_PROCID": "7", "SLURM_NTASKS": "8"}
    node.run(["sleep", "30"], SLURMD_NODENAME=node.name, **env)  # says so, but nobody is above it
    node.run([sys.executable, "-c", STEPD])
    log = node.folder / "task.log"
    wait_until("the tasks", lambda: len(log.read_text().split()) == 2)
    foreign, own = map(int, log.read_text().split())
    try:
        node.start_agent()
        rank = node.rank(job_id=99)
        assert (rank["pid"], rank["task"], rank["step_id"]) == (own, 7, "3")
        assert rank["devices"] == "0,3" and rank["source"] == 3 and rank["world_size"] == 8
        assert [each["pid"] for each in node.vettad.ranks.values()] == [own]
        os.kill(own, signal.SIGTERM)
        wait_until("its end", lambda: rank["rank_id"] in node.vettad.ends)
    finally:
        os.kill(foreign, signal.SIGKILL)


def test_a_probe_outside_every_task_is_refused(node: Node) -> None:
    node.start_agent()
    stranger = node.run([sys.executable, TRAINER, "2", "5"])
    assert stranger.wait(30) == 0, "it never fails the job"
    assert "belongs to no Slurm task" in node.log.read_text()
    assert not node.vettad.ranks


def test_a_ring_that_its_owner_makes_larger_is_cut_and_told(node: Node) -> None:
    node.start_agent()
    process = trainer(node, 0, 12)
    rank_id = node.rank(task=0, is_probed=1)["rank_id"]
    ring = node.dir / "rings" / f"{rank_id:016x}.ring"
    made = ring.stat().st_size
    os.truncate(ring, 1 << 30)
    wait_until("it is cut", lambda: ring.stat().st_size == made)
    event = wait_until("it is told", lambda: list(node.vettad.events.values()))[0]
    assert event["kind"] == GAP and event["rank_id"] == rank_id
    assert event["message"].startswith(
        "no more marks of this rank are read: a ring of 1052672 bytes"
    )
    finish(node, 0, process)
    wait_until("the rank's end", lambda: rank_id in node.vettad.ends)


def test_an_agent_starts_where_a_ring_has_filled_the_file_system(node: Node) -> None:
    with small_disk(node.rundir, "8m"):
        node.start_agent()
        process = trainer(node, 0, 15)
        rank_id = node.rank(task=0, is_probed=1)["rank_id"]
        ring = node.dir / "rings" / f"{rank_id:016x}.ring"
        made = ring.stat().st_size
        node.kill_agent()
        fill(ring)
        assert ring.stat().st_size > made
        node.log.write_text("")
        node.start_agent()
        assert ring.stat().st_size == made
        assert "state_unwritten" not in node.log.read_text(), "there was room again"
        wait_until("it is told", lambda: [e["rank_id"] for e in list(node.vettad.events.values())])
        finish(node, 0, process)
        wait_until("the rank's end", lambda: rank_id in node.vettad.ends)
        node.kill_agent()


def test_an_agent_starts_without_room_and_writes_when_there_is_some(node: Node) -> None:
    with small_disk(node.rundir, "8m"):
        node.start_agent()
        node.kill_agent()
        fill(node.rundir / "ballast")
        node.log.write_text("")
        node.start_agent()
        said = wait_until("it is said", lambda: "state_unwritten" in node.log.read_text())
        assert said and "No space left on device" in node.log.read_text()
        (node.rundir / "ballast").unlink()
        wait_until("it is tried again", lambda: "state_written" in node.log.read_text(), 30)
        node.kill_agent()


def test_a_full_spool_drops_the_oldest_and_counts(node: Node) -> None:
    node.vettad.stop()
    node.start_agent("--spool-max", "1K")
    time.sleep(7)
    node.vettad.start()
    wait_until("samples", lambda: node.vettad.node_samples)
    wait_until("the count", lambda: node.vettad.dropped > 0)
    assert "spool_full" in node.log.read_text()


def test_burst_brings_marks_and_samples_every_second(node: Node) -> None:
    node.start_agent("--sample-period", "10s")
    process = trainer(node, 0, 30)
    rank_id = node.rank(task=0, is_probed=1)["rank_id"]
    node.vettad.burst([4711], 60)
    time.sleep(1)
    before = len(node.vettad.rank_samples.get(rank_id, []))
    lags = []
    for _ in range(8):
        time.sleep(0.5)
        last = node.vettad.marks[rank_id][max(sequences(node.vettad, rank_id))]
        lags.append(time.time() - last["start"] / 1e9)
    assert max(lags) < 1.6
    assert len(node.vettad.rank_samples[rank_id]) - before >= 3
    process.kill()


def test_marks_carry_vettads_clock(node: Node) -> None:
    node.vettad.clock_ahead_ns = 3_600_000_000_000
    node.start_agent()
    process = trainer(node, 0, 1)
    rank_id = node.rank(task=0, is_probed=1)["rank_id"]
    finish(node, 0, process)
    wait_until("the end", lambda: rank_id in node.vettad.ends)
    first = node.vettad.marks[rank_id][1]["start"] / 1e9
    assert abs(first - 3600 - time.time()) < 30


def test_two_vettads_both_get_everything_also_the_one_that_was_away(node: Node) -> None:
    other = FakeVettad(node.folder / "other.sock")
    node.start_agent("--vettad", f"unix:{other.path}")
    process = trainer(node, 0, 4)
    rank_id = node.rank(task=0, is_probed=1)["rank_id"]
    time.sleep(2)
    other.start()
    finish(node, 0, process)
    try:
        for vettad in (node.vettad, other):
            check_complete(node, vettad, rank_id, written(node)[0])
    finally:
        other.stop()


def test_a_wrong_token_is_said(node: Node) -> None:
    node.vettad.token = "another"
    node.start_agent()
    wait_until("the refusal", lambda: "it refuses our token" in node.log.read_text())
    assert node.agent is not None and node.agent.poll() is None


def test_a_second_agent_of_the_node_is_refused(node: Node) -> None:
    node.start_agent()
    argv = [str(AGENT), "--node", node.name, "--rundir", str(node.rundir), "--vettad", "unix:/x"]
    second = subprocess.run(argv, capture_output=True, text=True, timeout=10)
    assert second.returncode == 1
    assert f"start the agent of node {node.name}" in second.stderr
    assert f"locked by process {node.agent.pid}" in second.stderr  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--vettad"], "--vettad needs a value"),
        ([], "no vettad is named"),
        (["--vettad", "nonsense"], "write HOST:PORT or unix:"),
        (["--wrong"], "'--wrong' is not known"),
        (["--sample-period"], "--sample-period 10s (for example)"),
        (["--vettad", "h:1", "--spool-max", "x"], "--spool-max"),
        (["--vettad", "h:1", "--sample-period", "1ms"], "between 1s and 10m"),
        (["--vettad", "h:1", "--node", "a/b"], "is no node's name"),
        (["--config", "/nowhere.toml"], "/nowhere.toml"),
    ],
)
def test_usage_errors(argv: list[str], words: str) -> None:
    got = subprocess.run([str(AGENT), *argv], capture_output=True, text=True, timeout=10)
    assert got.returncode == 2 and words in got.stderr, got.stderr


def test_config_file_and_flags_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('node = "n1"\nvettad = ["a:1", "unix:/b"]\nspool_max = "1M"\n')
    argv = [str(AGENT), "--config", str(path), "--node", "n2", "--check-config"]
    got = subprocess.run(argv, capture_output=True, text=True, timeout=10)
    assert got.returncode == 0, got.stderr
    assert 'node = "n2"\n' in got.stdout and 'vettad = ["a:1", "unix:/b"]\n' in got.stdout
    assert "spool_max = 1048576\n" in got.stdout
    path.write_text('vettad = "a:1"\nspol_max = "1M"\n')
    got = subprocess.run(argv, capture_output=True, text=True, timeout=10)
    assert got.returncode == 2 and "spol_max" in got.stderr and "agent.toml:2" in got.stderr
    assert "sample_period" in got.stderr  # the known ones are named


def test_the_dumped_settings_give_themselves(tmp_path: Path) -> None:
    def dump(*flags: str) -> str:
        argv = [str(AGENT), *flags, "--dump-config"]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=10).stdout

    path = tmp_path / "agent.toml"
    some = ["--shared-host", "true", "--token-file", '/a "b"', "--spool-max", "1.5M"]
    for more in (some[:0], some):
        first = dump("--vettad", "[::1]:1", "--sample-period", "1500ms", "--node", "n1", *more)
        path.write_text(first)
        assert dump("--config", str(path)) == first


def test_checking_the_settings_reads_the_token_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    argv = [str(AGENT), "--vettad", "h:1", "--token-file", str(token), "--check-config"]

    def check() -> tuple[int, str]:
        got = subprocess.run(argv, capture_output=True, text=True, timeout=10)
        return got.returncode, got.stderr

    code, said = check()
    assert code == 2 and str(token) in said and "No such file" in said
    token.write_text("\n")
    code, said = check()
    assert code == 2 and f"the token file {token} is empty" in said
    token.write_text("secret\n")
    assert check() == (0, "")
