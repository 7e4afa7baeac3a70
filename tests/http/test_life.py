# SPDX-License-Identifier: Apache-2.0
"""vettad itself: start, stop, settings, what it refuses, rung L0 without a Slurm that answers."""

import json
import os
import resource
import stat
import subprocess
import time

import pytest
from daemon import BUILD, Vettad, running_job, simple_cluster
from small_disk import fill, small_disk
from waiting import wait_until


def run(vettad: Vettad, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BUILD / "bin" / "vettad"), *words],
        env=vettad.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_sigterm_ends_it_soon_and_cleanly(fresh: Vettad) -> None:
    fresh.start()
    fresh.wait_ready()
    begin = time.monotonic()
    assert fresh.stop() == 0
    assert time.monotonic() - begin < 2
    assert not fresh.socket.exists()


def test_it_opens_as_many_files_as_it_may(fresh: Vettad) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        fresh.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert fresh.process is not None
    soft, hard = resource.prlimit(fresh.process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard > 256


def test_a_slow_slurm_does_not_hold_the_stop(fresh: Vettad) -> None:
    for name in ("squeue", "scontrol"):
        (fresh.bin / name).write_text("#!/bin/sh\nsleep 60\n")
    fresh.start()
    begin = time.monotonic()
    assert fresh.stop() == 0
    assert time.monotonic() - begin < 2


def test_two_on_one_state_are_refused(fresh: Vettad) -> None:
    fresh.start()
    done = run(fresh, "--state", str(fresh.dir / "state"), "--listen", f"unix:{fresh.dir}/other")
    assert done.returncode == 1
    assert "lock" in done.stderr


def test_the_token_is_made_once_and_private(fresh: Vettad) -> None:
    fresh.start()
    token = fresh.token
    assert len(token) == 64
    assert stat.S_IMODE(fresh.token_file.stat().st_mode) == 0o600
    fresh.stop()
    fresh.start()
    assert fresh.token == token
    fresh.stop()
    fresh.token_file.chmod(0o644)
    done = run(
        fresh,
        *("--state", str(fresh.dir / "state"), "--token-file", str(fresh.token_file)),
        *("--listen", f"unix:{fresh.socket}"),
    )
    assert done.returncode == 4
    assert f"chmod 600 {fresh.token_file}" in done.stderr


@pytest.mark.parametrize("address", ["0.0.0.0:6820", "[::]:6820", "192.0.2.7:80", "example.org:80"])
def test_it_listens_on_this_machine_alone(fresh: Vettad, address: str) -> None:
    done = run(fresh, "--state", str(fresh.dir / "state"), "--listen", address)
    assert done.returncode == 4
    assert "needs TLS" in done.stderr
    assert "SSH tunnel" in done.stderr


@pytest.mark.parametrize(
    "words, code, text",
    [
        (["--nonsense"], 2, "there is no flag '--nonsense'"),
        (["--state"], 2, "--state needs a value\n        try: --state /var/lib/vetta"),
        (["--state", "relative"], 2, "must be an absolute path"),
        (["--visibility", "none"], 2, 'write "open"'),
        (["--keep", "soon"], 2, "soon"),
        (["--threads", "0"], 2, "between 1 and 64"),
        (["--config", "/nonexistent.toml"], 2, "/nonexistent.toml"),
    ],
)
def test_bad_settings(fresh: Vettad, words: list[str], code: int, text: str) -> None:
    done = run(fresh, "--check-config", *words)
    assert done.returncode == code, done.stderr
    assert text in done.stderr


def test_a_file_of_settings(fresh: Vettad) -> None:
    path = fresh.dir / "vettad.toml"
    path.write_text('state = "/tmp/x"\nlisten = ["127.0.0.1:0"]\nkeep = "30d"\nthreads = 2\n')
    assert run(fresh, "--config", str(path), "--check-config").returncode == 0
    dumped = run(fresh, "--config", str(path), "--dump-config", "--threads", "3")
    assert dumped.returncode == 0
    assert 'keep = "30d"' in dumped.stdout
    assert "threads = 3" in dumped.stdout
    again = fresh.dir / "again.toml"
    again.write_text(dumped.stdout)
    assert run(fresh, "--config", str(again), "--dump-config").stdout == dumped.stdout
    path.write_text('state = "/tmp/x"\nlisten = ["127.0.0.1:0"]\nkep = "30d"\n')
    wrong = run(fresh, "--config", str(path), "--check-config")
    assert wrong.returncode == 2
    assert f"{path}:3" in wrong.stderr
    assert "kep" in wrong.stderr


def test_help_and_version(fresh: Vettad) -> None:
    assert "Examples:" in run(fresh, "--help").stdout
    assert run(fresh, "--version").stdout.startswith("vettad ")


def test_check_tells_what_it_reached(fresh: Vettad) -> None:
    words = ["--check", "--state", str(fresh.dir / "state"), "--slurm-bin-dir", str(fresh.bin)]
    words += ["--listen", f"unix:{fresh.socket}"]
    done = run(fresh, *words)
    assert done.returncode == 0, done.stdout
    assert "its name is toy" in done.stdout
    found = json.loads(run(fresh, *words, "--json").stdout)
    assert found["is_fine"] is True
    assert [check["name"] for check in found["checks"]] == [
        *("slurm_programs", "cluster", "slurmctld", "slurmdbd", "state", "listen")
    ]


@pytest.mark.parametrize("name", ["flag", "environment"])
def test_check_reads_slurm_conf_before_it_blames_the_controller(fresh: Vettad, name: str) -> None:
    words = ["--check", "--state", str(fresh.dir / "state"), "--slurm-bin-dir", str(fresh.bin)]
    words += ["--listen", f"unix:{fresh.socket}"]
    if name == "flag":
        words += ["--slurm-conf", "/nonexistent/slurm.conf"]
    else:
        fresh.env["SLURM_CONF"] = "/nonexistent/slurm.conf"
    done = run(fresh, *words)
    assert done.returncode == 5
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line[:1] != " "}
    assert set(lines) == {"slurm_conf", "state", "listen"}
    assert "NOT reached" in lines["slurm_conf"]
    assert "/nonexistent/slurm.conf: No such file" in lines["slurm_conf"]
    assert "--slurm-conf FILE" in done.stdout


def test_check_tells_what_stood_in_the_way(fresh: Vettad) -> None:
    fresh.slurm_file.unlink()
    done = run(
        fresh,
        *("--check", "--state", "/proc/nowhere", "--slurm-bin-dir", str(fresh.bin)),
        *("--listen", "unix:/proc/s"),
    )
    assert done.returncode == 5
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line[:1] != " "}
    assert "NOT reached" in lines["slurmctld"]
    assert "NOT reached" in lines["state"]
    assert "NOT reached" in lines["listen"]
    assert "try:" in done.stdout


def test_check_without_slurm(fresh: Vettad) -> None:
    words = ["--check", "--json", "--state", str(fresh.dir / "state")]
    done = run(fresh, *words, "--slurm-bin-dir", "/nonexistent")
    assert done.returncode == 5
    check = json.loads(done.stdout)["checks"][0]
    assert check["name"] == "slurm_programs"
    assert check["is_reached"] is False
    assert "/nonexistent/scontrol" in check["detail"]


def test_without_slurm_it_says_that_it_could_not_ask(fresh: Vettad) -> None:
    fresh.slurm_file.unlink()
    fresh.start()
    ready = wait_until("it has tried", lambda: fresh.ask("/readyz"))
    assert ready.status == 503
    assert ready.json["reasons"]
    assert fresh.ask("/healthz").status == 200
    cluster = fresh.ask("/api/v1/cluster")
    assert cluster.status == 503
    assert cluster.error["code"] == "unavailable"
    assert "vettad --check" in cluster.error["hint"]
    sources = wait_until("it has asked", lambda: fresh.get("/api/v1/status")["sources"])
    assert sources[0]["knowledge"] == "could_not_ask"
    assert sources[0]["reason"]
    fresh.set_cluster(simple_cluster([running_job(1)]))
    wait_until("Slurm is back", lambda: fresh.ask("/readyz").status == 200, 30)
    fresh.wait_job(1)


def test_without_room_for_what_slurm_says_it_is_not_ready(fresh: Vettad) -> None:
    with small_disk(fresh.dir / "state", "4m"):
        fresh.start()
        fresh.wait_ready()
        ballast = fresh.dir / "state" / "ballast"
        fill(ballast)
        fresh.set_cluster(simple_cluster([running_job(n) for n in range(1, 400)]))
        wait_until("it is full", lambda: fresh.ask("/readyz").status == 503, 30)
        reasons = fresh.ask("/readyz").json["reasons"]
        assert "the newest reading of Slurm could not be kept" in reasons[0]
        status = fresh.get("/api/v1/status")
        assert status["is_ready"] is False and status["reasons"] == reasons
        ballast.unlink()
        wait_until("there is room again", lambda: fresh.ask("/readyz").status == 200, 30)
        fresh.wait_job(399)
        assert fresh.stop() == 0


def test_a_slurm_that_goes_away_leaves_what_was_known(fresh: Vettad) -> None:
    fresh.set_cluster(simple_cluster([running_job(1)]))
    fresh.start()
    fresh.wait_ready()
    fresh.wait_job(1)
    fresh.slurm_file.unlink()

    def lost() -> bool:
        return any(
            event["kind"] == "source_lost" for event in fresh.get("/api/v1/events")["events"]
        )

    wait_until("the loss is an event", lost, 30)
    assert fresh.get("/api/v1/jobs/1")["job"]["state"] == "RUNNING"
    assert len(fresh.get("/api/v1/nodes")["nodes"]) == 4
    # A restart without Slurm still knows what it knew.
    fresh.stop()
    fresh.start()
    assert fresh.get("/api/v1/jobs/1")["job"]["state"] == "RUNNING"


def test_each_list_is_as_old_as_its_own_answer(fresh: Vettad) -> None:
    fresh.set_cluster(simple_cluster([running_job(1)]))
    fresh.start()
    fresh.wait_ready()
    fresh.wait_job(1)
    (fresh.slurm_file / "nodes").unlink()  # from now on the question for nodes fails

    def as_of(what: str) -> float:
        return float(fresh.get(f"/api/v1/{what}")["as_of"])

    wait_until("nodes fall behind jobs", lambda: as_of("jobs") > as_of("nodes") + 4, 30)
    assert as_of("partitions") > as_of("nodes")
    assert as_of("cluster") <= as_of("nodes")
    assert len(fresh.get("/api/v1/nodes")["nodes"]) == 4


def test_counts_follow_what_slurm_tells(fresh: Vettad) -> None:
    fresh.set_cluster(simple_cluster([running_job(1)]))
    fresh.start()
    fresh.wait_ready()

    def count(state: str) -> int:
        counts = fresh.get("/api/v1/jobs")["counts"]
        return sum(int(c["jobs"]) for c in counts["states"] if c["state"] == state)

    wait_until("one runs", lambda: count("RUNNING") == 1)
    fresh.set_cluster(simple_cluster([running_job(1, State="FAILED"), running_job(2)]))
    wait_until(
        "one has failed, another runs", lambda: (count("FAILED"), count("RUNNING")) == (1, 1), 60
    )
    counts = fresh.get("/api/v1/jobs?state=FAILED")["counts"]
    assert counts["total"] == 1


def test_an_ordinary_user_runs_it(fresh: Vettad) -> None:
    """Rung L0: no root, nothing on any node."""
    if os.geteuid() != 0:
        pytest.skip("this test gives up root")
    fresh.dir.chmod(0o777)
    process = subprocess.Popen(
        [
            str(BUILD / "bin" / "vettad"),
            *("--state", str(fresh.dir / "home" / "state"), "--slurm-bin-dir", str(fresh.bin)),
            *("--listen", f"unix:{fresh.socket}"),
        ],
        env=fresh.env,
        user=65534,
        group=65534,
        extra_groups=[],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until("it listens", fresh.socket.exists)
        fresh.wait_ready()
        assert len(fresh.get("/api/v1/nodes")["nodes"]) == 4
    finally:
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
def test_with_own_visibility_users_see_their_own_jobs(fresh: Vettad) -> None:
    jobs = [running_job(1), running_job(2, UserName="grace", UserID=1001)]
    fresh.set_cluster(simple_cluster(jobs))
    fresh.start("--visibility", "own")
    fresh.wait_ready()
    fresh.wait_job(2)
    own: dict[int, list[str]] = {1000: ["1"], 1001: ["2"], 1002: []}
    for uid, ids in own.items():
        found = fresh.ask_as(uid, "/api/v1/jobs").json
        assert [job["id"] for job in found["jobs"]] == ids
        assert found["counts"]["total"] == len(ids)
    assert fresh.ask_as(1000, "/api/v1/jobs?user=grace").json["jobs"] == []
    assert fresh.ask_as(1000, "/api/v1/jobs/2").status == 404
