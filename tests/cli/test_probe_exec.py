# SPDX-License-Identifier: Apache-2.0
"""`vetta probe exec`: the program's own exit code, its own stdout, and a diagnosis afterwards."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from daemon import BUILD, ROOT, Vettad, run_vetta

MARKS = """
import os, sys, time
sys.path.insert(0, os.environ["PROBE_ROOT"])
import vetta_probe as probe
slow = os.environ["RANK"] == "1"
for i in range(40):
    with probe.step(i) as step:
        with step.phase("data"):
            time.sleep(0.012 if slow else 0.002)
        with step.phase("allreduce"):
            time.sleep(0.001 if slow else 0.011)
"""


def vetta(fresh: Vettad, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    base = {**fresh.env, "PROBE_ROOT": str(ROOT / "python")}
    done = run_vetta(["probe", "exec", *words], {**base, **env})
    return done


@pytest.mark.parametrize("code", [0, 1, 2, 77, 255])
def test_the_exit_code_is_the_programs(fresh: Vettad, code: int) -> None:
    assert vetta(fresh, "--", "sh", "-c", f"exit {code}").returncode == code


def test_a_signal_is_128_and_its_number(fresh: Vettad) -> None:
    assert vetta(fresh, "--", "sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM


def test_a_program_that_is_not_there_or_cannot_run(fresh: Vettad) -> None:
    missing = vetta(fresh, "--", "/nonexistent/program")
    assert missing.returncode == 127
    assert "/nonexistent/program" in missing.stderr
    plain = fresh.dir / "plain"
    plain.write_text("no program")
    assert vetta(fresh, "--", str(plain)).returncode == 126


def test_our_own_failure_is_125(fresh: Vettad) -> None:
    done = vetta(fresh, "--", "true", VETTA_PYTHON_DIR="/nonexistent")
    assert done.returncode == 125
    assert "VETTA_PYTHON_DIR" in done.stderr


def test_without_a_program_it_is_a_usage_error(fresh: Vettad) -> None:
    assert vetta(fresh).returncode == 2
    assert vetta(fresh, "--").returncode == 2


def test_the_programs_words_are_its_own(fresh: Vettad) -> None:
    done = vetta(fresh, "--", "printf", "%s|", "--json", "--", "-h")
    assert done.stdout == "--json|--|-h|"
    assert vetta(fresh, "echo", "--json").stdout == "--json\n"


def test_the_environment_of_the_probe(fresh: Vettad) -> None:
    script = 'echo "$VETTA_PROBE"; echo "$PYTHONPATH"; test -d "$VETTA_RING_DIR" && echo there'
    done = vetta(fresh, "--", "sh", "-c", script, PYTHONPATH="/mine")
    probe, path, there = done.stdout.splitlines()
    assert probe == "1"
    assert path.split(":")[0].endswith("/vetta_probe/inject")
    assert path.endswith(":/mine")
    assert there == "there"
    untouched = vetta(fresh, "--", "sh", "-c", script, PYTHONPATH="/mine", VETTA_PROBE="0")
    assert untouched.stdout.splitlines()[:2] == ["0", "/mine"]


def test_with_an_agent_it_becomes_the_program(fresh: Vettad) -> None:
    script = 'echo "$VETTA_SOCKET"; echo "${VETTA_RING_DIR-none}"'
    done = vetta(fresh, "--", "sh", "-c", script, VETTA_SOCKET="/run/vetta/n1/probe.sock")
    assert done.stdout.splitlines() == ["/run/vetta/n1/probe.sock", "none"]
    assert done.stderr == ""


def test_a_job_without_the_plugin_finds_its_agent(fresh: Vettad) -> None:
    script = 'echo "$VETTA_SOCKET"; echo "${VETTA_RING_DIR-none}"'
    (fresh.dir / "n1").mkdir()
    job = {"SLURM_JOB_ID": "4711", "SLURMD_NODENAME": "n1", "VETTA_RUNDIR": str(fresh.dir)}
    absent = vetta(fresh, "--", "sh", "-c", script, **job).stdout.splitlines()
    assert absent[0] == "" and absent[1] != "none"
    socket = fresh.dir / "n1" / "probe.sock"
    socket.touch()
    found = vetta(fresh, "--", "sh", "-c", script, **job)
    assert found.stdout.splitlines() == [str(socket), "none"]


def test_a_program_that_failed_before_any_step_is_not_called_without_optimizer(
    fresh: Vettad,
) -> None:
    failed = vetta(fresh, "--", "sh", "-c", "exit 77")
    assert failed.stderr == "vetta: the program ended with exit code 77 before any step\n"
    assert "no PyTorch optimizer" in vetta(fresh, "--", "true").stderr


def two_ranks(fresh: Vettad) -> str:
    script = fresh.dir / "train.py"
    script.write_text(MARKS)
    run = f"{sys.executable} {script}"
    return f"RANK=0 WORLD_SIZE=2 {run} & RANK=1 WORLD_SIZE=2 {run}; wait"


def test_outside_slurm_the_slow_rank_is_named_on_stderr(fresh: Vettad) -> None:
    done = vetta(fresh, "--json", "--", "sh", "-c", two_ranks(fresh))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    diagnosis = json.loads(done.stderr)["diagnosis"]
    assert diagnosis["outcome"] == "slow_rank"
    assert diagnosis["rank"] == 1
    assert diagnosis["phase"] == "data"


def test_the_folder_of_rings_goes_or_stays(fresh: Vettad) -> None:
    env = {"TMPDIR": str(fresh.dir / "tmp")}
    (fresh.dir / "tmp").mkdir()
    vetta(fresh, "--", "true", **env)
    assert os.listdir(fresh.dir / "tmp") == []
    done = vetta(fresh, "--keep-rings", "--", "sh", "-c", two_ranks(fresh), **env)
    (folder,) = Path(fresh.dir / "tmp").iterdir()
    assert len(list(folder.glob("*.ring"))) == 2
    assert str(folder) in done.stderr


def test_sigterm_reaches_the_program(fresh: Vettad) -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    argv = [str(BUILD / "bin" / "vetta"), "probe", "exec", "--", "sh", "-c", script]
    with subprocess.Popen(argv, env=fresh.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(10) == 9
