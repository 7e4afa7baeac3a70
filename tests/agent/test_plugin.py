# SPDX-License-Identifier: Apache-2.0
"""The rank plugin loaded by a made-up Slurm: what it says to the agent, what it sets for the task,
and that nothing makes it fail."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, Node
from waiting import wait_until

PLUGIN = BUILD / "lib/spank_vetta.so"


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("driver") / "plugin_driver"
    source = Path(__file__).with_name("plugin_driver.c")
    argv = [
        "cc",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-rdynamic",
        "-o",
        str(program),
        str(source),
    ]
    subprocess.run([*argv, "-ldl"], check=True)
    return program


def load(driver: Path, *options: str, tasks: int = 1, env: tuple[str, ...] = ()) -> list[str]:
    argv = [str(driver), str(PLUGIN), str(tasks), "0", *options, "--", "SLURMD_NODENAME=n001", *env]
    got = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert got.returncode == 0, got.stderr
    lines: list[str] = got.stdout.splitlines()
    assert "init 0" in lines and not [line for line in lines if line.startswith("failed")], lines
    return lines


def environment(lines: list[str]) -> dict[str, str]:
    return dict(line[4:].split("=", 1) for line in lines if line.startswith("env "))


def test_it_exports_slurms_symbols_only() -> None:
    text = subprocess.run(
        ["nm", "-D", "--defined-only", PLUGIN], check=True, capture_output=True, text=True
    ).stdout
    names = {line.split()[-1].split("@")[0] for line in text.splitlines()}
    assert {"plugin_name", "plugin_type", "plugin_version", "slurm_spank_init"} <= names
    stray = [n for n in names if not n.startswith(("slurm_spank_", "plugin_", "spank_plugin"))]
    assert not stray


def test_the_agent_hears_of_start_and_end(node: Node, driver: Path) -> None:
    node.start_agent()
    load(driver, f"rundir={node.rundir}", env=("SLURM_STEP_GPUS=0,2",))
    rank = node.rank(job_id=4711)
    assert (rank["step_id"], rank["slurm_restart"], rank["task"]) == ("3", 2, 0)
    assert rank["world_size"] == 64 and rank["devices"] == "0,2"
    wait_until("the end", lambda: node.vettad.ends)
    assert node.vettad.ends[rank["rank_id"]]["exit_code"] == 1


@pytest.mark.parametrize("what", ["nothing there", "a file", "a full socket", "a long path"])
def test_a_broken_agent_never_fails_a_job(tmp_path: Path, driver: Path, what: str) -> None:
    folder = tmp_path / "n001"
    rundir = tmp_path
    if what != "nothing there":
        folder.mkdir()
    if what == "a file":
        (folder / "agent.sock").write_text("")
    if what == "a long path":
        rundir = Path("/" + "x" * 4000)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as full:
        if what == "a full socket":
            full.bind(str(folder / "agent.sock"))
        lines = load(driver, f"rundir={rundir}", tasks=64)
    assert "VETTA_SOCKET" in environment(lines)


def test_the_probe_is_switched_on_by_job_or_site(driver: Path) -> None:
    python = ("python_dir=/opt/vetta/python",)
    off = environment(load(driver, *python))
    assert "VETTA_PROBE" not in off and "PYTHONPATH" not in off
    on = environment(load(driver, *python, env=("PROBE=", "PYTHONPATH=/mine")))
    assert on["VETTA_PROBE"] == "1"
    assert on["PYTHONPATH"].split(":")[0].startswith("/opt/vetta/python")
    assert on["PYTHONPATH"].endswith(":/mine")
    assert environment(load(driver, *python, "probe=on"))["VETTA_PROBE"] == "1"
    assert "VETTA_PROBE" not in environment(load(driver, *python, "probe=on", env=("PROBE=off",)))
    assert "VETTA_PROBE" not in environment(load(driver, *python, "probe=off", env=("PROBE=",)))
    refused = environment(load(driver, *python, "probe=on", env=("VETTA_PROBE=0",)))
    assert refused.get("VETTA_PROBE", "0") == "0" and "PYTHONPATH" not in refused


@pytest.mark.parametrize("context", ["local", "allocator"])
def test_a_probe_that_cannot_be_is_told_to_who_asks(driver: Path, context: str) -> None:
    def told(*options: str, probe: str) -> list[str]:
        lines = load(driver, *options, env=(f"CONTEXT={context}", f"PROBE={probe}"))
        return [line for line in lines if line.startswith("info ")]

    (said,) = told(probe="")
    assert "names no python_dir=" in said and "the job goes on" in said
    assert not told(probe="off")
    assert not told("python_dir=/opt/vetta/python", probe="on")
    on_the_node = load(driver, env=("PROBE=",))  # it was said where the job was submitted
    assert not [line for line in on_the_node if line.startswith("info ")]


def test_odd_settings_and_names_do_no_harm(driver: Path) -> None:
    lines = load(driver, "nonsense", "rundir=", "probe=perhaps", "python_dir=" + "x" * 9999)
    assert any("'nonsense' is not known" in line for line in lines)
    load(driver, env=("PYTHONPATH=" + "x" * 20000, "PROBE=", "SLURM_STEP_GPUS=0\npid=1"))
    assert os.path.exists(PLUGIN)
