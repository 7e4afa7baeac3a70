# SPDX-License-Identifier: Apache-2.0
"""tools/devcluster's beginning and end: two at once, crashes, failures, and nothing left behind."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import DEVCLUSTER, Cluster, devcluster, short_dir
from waiting import wait_until

if os.geteuid() != 0:
    pytest.skip("a dev cluster needs root", allow_module_level=True)


def mentions(folder: Path) -> dict[int, str]:
    """The living processes that have the folder in their arguments or environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        if os.fsencode(folder) in text and stat.rpartition(")")[2].split()[0] != "Z":
            found[int(entry.name)] = stat.partition(" ")[2][:20]
    return found


@pytest.fixture(scope="module")
def second() -> Iterator[Path]:
    """A folder with the longest path that is allowed."""
    base = short_dir()
    folder = base / ("x" * (56 - len(str(base)) - 1))
    try:
        yield folder
    finally:
        devcluster("down", "--purge", "--dir", str(folder), check=False)
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def empty() -> Iterator[Path]:
    """A folder for an `up` that is not to succeed."""
    folder = short_dir()
    try:
        yield folder
    finally:
        devcluster("down", "--purge", "--dir", str(folder), check=False)
        shutil.rmtree(folder, ignore_errors=True)


def small(folder: Path, *options: str) -> Cluster:
    return Cluster(folder, "--nodes", "2", "--gpus", "1", "--name", "second", *options)


def test_two_side_by_side(cluster: Cluster, second: Path, tmp_path: Path) -> None:
    extra = tmp_path / "extra.conf"
    extra.write_text("KillWait=7\n")
    other = small(second, "--conf", str(extra))
    assert not set(other.info["ports"].values()) & set(cluster.info["ports"].values())
    assert other.run("srun -N2 -n2 --mpi=pmix true").returncode == 0
    names = [it.run("scontrol show config").stdout for it in (cluster, other)]
    assert "ClusterName             = second" in names[1]
    assert (
        "KillWait                = 7 sec" in names[1] and "KillWait                = 5 " in names[0]
    )
    assert cluster.run("srun -N8 true").returncode == 0


def test_up_after_a_crash(second: Path) -> None:
    crashed = small(second)
    job = crashed.sbatch("(setsid sleep 1234 &) ; sleep 1234", "-N2")
    crashed.wait(job, "RUNNING")
    sleeper = ["pgrep", "-f", "^sleep 1234$"]
    wait_until("both sleep", lambda: len(crashed.run(sleeper, check=False).stdout.split()) == 2)
    for daemon in crashed.status()["daemons"].values():
        os.kill(daemon["pid"], signal.SIGKILL)
    wait_until("all have ended", lambda: crashed.status()["state"] == "down")
    decoy = _decoy_in_stale_pidfiles(second)
    try:
        again = small(second)
        assert not crashed.run(sleeper, check=False).stdout
        assert decoy.poll() is None
        assert again.run("srun -N2 hostname").stdout
        assert again.run(f"sacct -X -n -j {job} -o JobID").stdout.strip() == job
    finally:
        decoy.kill()
        decoy.wait()


def _decoy_in_stale_pidfiles(folder: Path) -> subprocess.Popen[bytes]:
    """Somebody else's process that has the pids of daemons of an earlier boot."""
    decoy = subprocess.Popen(["/bin/sleep", "4321"], env={"LANG": "C"})
    for path in (folder / "run").glob("*.pid"):
        path.write_text(f"{decoy.pid}\n")
    record = json.loads((folder / "devcluster.json").read_text())
    record["booted"] = "another boot"
    for daemon in record["daemons"].values():
        daemon["pid"] = decoy.pid
    (folder / "devcluster.json").write_text(json.dumps(record))
    return decoy


def test_down_ends_its_own_and_nothing_else(second: Path) -> None:
    ending = small(second)
    job = ending.sbatch("env -i setsid sleep 2345 & sleep 2345")
    ending.wait(job, "RUNNING")
    client = ending.popen("srun sleep 2345", stderr=subprocess.DEVNULL)
    decoy = ending.popen(["sleep", "3456"])  # as from a shell with SLURM_CONF set
    sleeper = ["pgrep", "-f", "^(/usr/bin/)?sleep 2345$"]
    wait_until("jobs sleep", lambda: len(ending.run(sleeper, check=False).stdout.split()) == 3)
    try:
        devcluster("down", "--dir", str(second))
        assert decoy.poll() is None
        client.wait(10)
        assert set(mentions(second)) == {decoy.pid}
        assert not ending.run(sleeper, check=False).stdout
    finally:
        decoy.kill()
        decoy.wait()
    assert devcluster("down", "--dir", str(second)).returncode == 0
    assert devcluster("status", "--dir", str(second), check=False).returncode == 1


def test_a_failed_up_shows_the_log_and_leaves_nothing(second: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.conf"
    bad.write_text("SelectType=select/nonsense\n")
    options = ["--name", "second", "--conf", str(bad), "--dir", str(second)]
    done = devcluster("up", *options, check=False)
    assert done.returncode == 1
    assert "slurmctld" in done.stderr and "select/nonsense" in done.stderr
    assert not mentions(second)


@pytest.mark.skipif(
    not Path("/sys/fs/cgroup/freezer/cgroup.procs").exists(), reason="no cgroup version 1 here"
)
def test_jobs_in_cgroups(second: Path) -> None:
    with_cgroups = small(second, "--cgroup", "--prefix", "cg")
    done = with_cgroups.run("srun -wcg002 --gres=gpu:1 cat /proc/self/cgroup")
    for controller in ("freezer", "memory", "devices"):
        assert f":{controller}:/slurm_cg002/uid_0/job_" in done.stdout
    greedy = ["srun", "--mem=50", "/usr/bin/python3", "-c", "print(len(b'a' * (200 << 20)))"]
    assert with_cgroups.run(greedy, check=False).returncode != 0
    job = with_cgroups.sbatch("env -i setsid sleep 5432 & sleep 5432")
    with_cgroups.wait(job, "RUNNING")
    sleeper = ["pgrep", "-f", "^sleep 5432$"]
    wait_until(
        "they sleep", lambda: len(with_cgroups.run(sleeper, check=False).stdout.split()) == 2
    )
    for pid in with_cgroups.run(["pgrep", "-x", "slurmstepd"]).stdout.split():
        if b"/slurm_cg" in Path(f"/proc/{pid}/cgroup").read_bytes():
            os.kill(int(pid), signal.SIGKILL)
    devcluster("down", "--dir", str(second))
    assert not with_cgroups.run(sleeper, check=False).stdout
    assert not list(Path("/sys/fs/cgroup").glob("*/slurm_cg*"))


def test_an_interrupted_up_leaves_nothing(second: Path) -> None:
    assert _interrupt_up(second, signal.SIGINT) == 130
    assert not mentions(second)


def test_up_lets_go_of_a_pipe_and_purge_of_the_folder(second: Path) -> None:
    command = f"{DEVCLUSTER} up --nodes 2 --name second --dir {second} 2>&1 | cat"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert "cluster second is up" in done.stdout
    devcluster("down", "--purge", "--dir", str(second))
    assert not second.exists()
    assert not mentions(second)


def test_up_after_a_killed_up(empty: Path) -> None:
    assert _interrupt_up(empty, signal.SIGKILL) == -signal.SIGKILL
    assert small(empty).run("srun -N2 hostname").stdout


def _interrupt_up(folder: Path, number: signal.Signals) -> int:
    argv = [str(DEVCLUSTER), "up", "--nodes", "2", "--name", "second", "--dir", str(folder)]
    socket = folder / "run" / "mariadb.socket"
    socket.unlink(missing_ok=True)
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until("mariadbd is there", socket.exists)
        process.send_signal(number)
        return process.wait(30)


def test_what_up_refuses(empty: Path) -> None:
    done = devcluster("up", "--dir", "/tmp/" + "x" * 60, check=False)
    assert done.returncode == 2 and "56 bytes" in done.stderr
    (empty / "thesis.tex").touch()
    done = devcluster("up", "--dir", str(empty), check=False)
    assert done.returncode == 1 and "not a dev cluster's" in done.stderr
    done = devcluster("down", "--purge", "--dir", str(empty), check=False)
    assert (empty / "thesis.tex").exists()
    assert devcluster("up", "--nodes", "none", check=False).returncode == 2


def test_ordinary_users_are_told(empty: Path) -> None:
    # A copy, since the repository may lie where only root can enter.
    shutil.copytree(DEVCLUSTER.parent / "lib" / "devcluster", empty / "lib" / "devcluster")
    shutil.copy(DEVCLUSTER, empty / "devcluster")
    began = time.monotonic()
    done = subprocess.run(
        [str(empty / "devcluster"), "up"], capture_output=True, text=True, user="games", cwd="/"
    )
    assert done.returncode == 4
    assert "needs root" in done.stderr and len(done.stderr.splitlines()) == 1
    assert time.monotonic() - began < 5
    for entry in empty.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
