# SPDX-License-Identifier: Apache-2.0
"""`vetta job watch`: lines into a pipe, a screen on a terminal, a clean end either way."""

import json
import os
import pty
import signal
import subprocess
import time

from daemon import BUILD, Vettad, running_job, simple_cluster, wait_until


def test_into_a_pipe_it_is_a_line_a_change_and_ends_with_the_signal(vettad: Vettad) -> None:
    env = {**vettad.env, "VETTA_SERVER": f"unix:{vettad.socket}"}
    argv = [str(BUILD / "bin" / "vetta"), "job", "watch", "4711", "--json"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = json.loads(process.stdout.readline())
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
    fresh.set_cluster(simple_cluster([running_job(7)]))
    fresh.start()
    fresh.wait_ready()
    fresh.wait_job(7)
    env = {**fresh.env, "VETTA_SERVER": f"unix:{fresh.socket}"}
    argv = [str(BUILD / "bin" / "vetta"), "job", "watch", "7"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("7 RUNNING")
        end = int(time.time())
        fresh.set_cluster(simple_cluster([running_job(7, State="COMPLETED", EndTime=end)]))
        wait_until("it ends", lambda: process.poll() is not None, 30)
        assert process.returncode == 0
        assert "7 COMPLETED" in process.stdout.read()


def test_it_waits_for_a_vettad_that_is_started_again(fresh: Vettad) -> None:
    fresh.set_cluster(simple_cluster([running_job(7)]))
    fresh.start()
    fresh.wait_ready()
    fresh.wait_job(7)
    env = {**fresh.env, "VETTA_SERVER": f"unix:{fresh.socket}"}
    argv = [str(BUILD / "bin" / "vetta"), "job", "watch", "7"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("7 RUNNING")
        fresh.stop(signal.SIGKILL)
        end = int(time.time())
        fresh.set_cluster(simple_cluster([running_job(7, State="COMPLETED", EndTime=end)]))
        fresh.start()
        wait_until("it ends", lambda: process.poll() is not None, 40)
        assert process.returncode == 0
