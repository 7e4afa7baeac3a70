# SPDX-License-Identifier: Apache-2.0
"""The daemons: how each is started, and how it is known to be ready."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from devcluster import ports
from devcluster.layout import DevclusterError, Layout
from devcluster.process import alive, find
from devcluster.record import SERVICES, Record, save

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOG_LIMIT = 8 << 20
LOG_KEEP = 1 << 20
TAIL_LINES = 12
# Small and quick: the accounting of a test cluster may lose its last second in a power cut.
MARIADB_OPTIONS = [
    "--innodb-log-file-size=8M",
    "--innodb-buffer-pool-size=64M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-lock-wait-timeout=900",
]


class PortTaken(DevclusterError):
    """Somebody took a port between two of our looks: worth another try with others."""


@dataclass(frozen=True)
class Daemon:
    """How to start one daemon, and the question that is true once it serves."""

    name: str
    argv: list[str]
    ready: Callable[[], bool]


def environment(layout: Layout) -> dict[str, str]:
    """Nothing of the caller's; SLURM_CONF is also the mark by which our processes are found."""
    return {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "HOME": "/",
        "SLURM_CONF": str(layout.slurm_conf),
        "MYSQL_UNIX_PORT": str(layout.db_socket),
    }


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
            return True
        except OSError:
            return False


def program(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if not found:
        raise DevclusterError(
            f"the program {name} is not installed: install the packages of the group 'run' in "
            "packaging/packages.txt"
        )
    return found


def describe(layout: Layout, record: Record, name: str) -> Daemon:
    """All daemons stay in the foreground of their own session: their pid is known at once."""
    if name == "munged":
        argv = [program("munged"), "--foreground", f"--key-file={layout.munge_key}"]
        argv += [f"--socket={layout.munge_socket}", f"--pid-file={layout.run}/munged.pid"]
        argv += [f"--seed-file={layout.run}/munged.seed", "--num-threads=4"]
        return Daemon(name, argv, lambda: _accepts(layout.munge_socket))
    if name == "mariadbd":
        argv = [program("mariadbd"), "--no-defaults", f"--datadir={layout.db}", "--user=root"]
        argv += [f"--socket={layout.db_socket}", f"--pid-file={layout.run}/mariadbd.pid"]
        argv += [f"--tmpdir={layout.db}", "--skip-networking", *MARIADB_OPTIONS]
        return Daemon(name, argv, lambda: _accepts(layout.db_socket))
    port = record.ports()[name]
    if name == "slurmdbd":
        argv = [program("slurmdbd"), "-D"]
    elif name == "slurmctld":
        argv = [program("slurmctld"), "-D", "-f", str(layout.slurm_conf)]
    else:
        argv = [program("slurmd"), "-D", "-f", str(layout.slurm_conf), "-N", name]
    return Daemon(name, argv, lambda: port in ports.listening())


def trim_logs(layout: Layout) -> None:
    """Keeps each log small; the daemons append, so cutting a log under them is safe."""
    for path in layout.log.glob("*.log"):
        if path.stat().st_size > LOG_LIMIT:
            with open(path, "r+b") as log:
                log.seek(-LOG_KEEP, os.SEEK_END)
                rest = log.read(LOG_KEEP)
                log.seek(0)
                log.write(rest)
                log.truncate()


def spawn(layout: Layout, record: Record, daemon: Daemon) -> None:
    """Starts a daemon with no descriptor of the caller's, and records it at once."""
    with open(layout.log_of(daemon.name), "ab") as log:
        child = subprocess.Popen(
            daemon.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=layout.log,
            env=environment(layout),
            start_new_session=True,
            umask=0o022,
        )
    child.returncode = 0  # It outlives this command: nobody waits for it here.
    process = find(child.pid)
    if process:
        record.daemons[daemon.name] = process
    else:
        record.daemons.pop(daemon.name, None)
    save(layout, record)


def tail(layout: Layout, name: str) -> str:
    """The end of a daemon's log, for an error message."""
    try:
        lines = layout.log_of(name).read_text(errors="replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return ""
    return "".join(f"\n  {line}" for line in lines)


def wait_ready(layout: Layout, record: Record, daemons: list[Daemon], seconds: float) -> None:
    """Returns when all serve; a daemon that ended or is late becomes an error with its log."""
    deadline = time.monotonic() + seconds
    waiting = list(daemons)
    while waiting:
        name = waiting[0].name
        if waiting[0].ready():
            waiting.pop(0)
            continue
        for daemon in waiting:
            if not alive(record.daemons.get(daemon.name)):
                fail(layout, daemon.name, "ended while starting")
        if time.monotonic() > deadline:
            fail(layout, name, f"was not ready after {seconds:.0f} s")
        time.sleep(0.02)


def fail(layout: Layout, name: str, what: str) -> None:
    end = tail(layout, name)
    kind = PortTaken if "already in use" in end.lower() else DevclusterError
    raise kind(f"{name} {what}; the end of {layout.log_of(name)}:{end or ' it is empty'}")


def order(names: list[str]) -> list[str]:
    """Services first and in the order in which they need each other."""
    return [name for name in SERVICES if name in names] + [n for n in names if n not in SERVICES]
