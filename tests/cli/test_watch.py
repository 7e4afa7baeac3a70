# SPDX-License-Identifier: Apache-2.0
"""`vetta job watch`: lines into a pipe, a screen on a terminal, a clean end either way."""

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from daemon import BUILD, Vettad, running_job, simple_cluster
from waiting import wait_until


@contextmanager
def watching(vettad: Vettad, job: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`vetta job watch` into a pipe."""
    env = {**vettad.env, "VETTA_SERVER": f"unix:{vettad.socket}"}
    argv = [str(BUILD / "bin" / "vetta"), "job", "watch", str(job), *words]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        yield process


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def run_job(vettad: Vettad) -> None:
    vettad.set_cluster(simple_cluster([running_job(7)]))
    vettad.start()
    vettad.wait_ready()
    vettad.wait_job(7)


def end_job(vettad: Vettad) -> None:
    ended = running_job(7, State="COMPLETED", EndTime=int(time.time()))
    vettad.set_cluster(simple_cluster([ended]))


def test_into_a_pipe_it_is_a_line_a_change_and_ends_with_the_signal(vettad: Vettad) -> None:
    with watching(vettad, 4711, "--json") as process:
        line = json.loads(line_of(process))
        assert line["job"]["state"] == "RUNNING"
        assert line["step"] == 59
        assert line["diagnosis"]["rank"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 130


def test_on_a_terminal_it_paints_and_restores(vettad: Vettad) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(vettad.env)
        os.environ.update({"VETTA_SERVER": f"unix:{vettad.socket}", "TERM": "xterm"})
        os.execv(str(BUILD / "bin" / "vetta"), ["vetta", "job", "watch", "4711"])
    got = b""
    deadline = time.monotonic() + 20
    while b"holds the others" not in got and time.monotonic() < deadline:
        got += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    try:
        while piece := os.read(terminal, 4096):
            got += piece
    except OSError:
        pass  # the other end is closed
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert b"\x1b[?1049h" in got and got.rindex(b"\x1b[?1049l") > got.rindex(b"\x1b[?1049h")
    assert got.count(b"\x1b[?25l") == got.count(b"\x1b[?25h")


def test_it_ends_when_the_job_does(fresh: Vettad) -> None:
    run_job(fresh)
    with watching(fresh, 7) as process:
        assert line_of(process).startswith("7 RUNNING")
        end_job(fresh)
        wait_until("it ends", lambda: process.poll() is not None, 30)
        assert process.returncode == 0
        assert process.stdout is not None
        assert "7 COMPLETED" in process.stdout.read()


def test_it_waits_for_a_vettad_that_is_started_again(fresh: Vettad) -> None:
    run_job(fresh)
    with watching(fresh, 7) as process:
        assert line_of(process).startswith("7 RUNNING")
        fresh.stop(signal.SIGKILL)
        end_job(fresh)
        fresh.start()
        wait_until("it ends", lambda: process.poll() is not None, 40)
        assert process.returncode == 0
