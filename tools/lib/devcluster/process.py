# SPDX-License-Identifier: Apache-2.0
"""Processes, told apart for sure: a pid alone may be somebody else's by now."""

import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

# These carry the cluster's folder in their arguments as well as in their environment.
WITH_ARGUMENTS = {"munged", "mariadbd", "slurmctld", "slurmd"}
DAEMONS = WITH_ARGUMENTS | {"slurmdbd"}


@dataclass(frozen=True)
class Process:
    """A process since it started: the pair is unique until the machine boots again."""

    pid: int
    start: int


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on; None when it is gone or only a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if not fields or fields[0] in "ZXx" else fields


def find(pid: int) -> Process | None:
    """The living process of that pid."""
    fields = _stat(pid)
    return Process(pid, int(fields[19])) if fields else None


def alive(process: Process | None) -> bool:
    return process is not None and find(process.pid) == process


def parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def environment(pid: int) -> dict[bytes, bytes]:
    pairs = (entry.partition(b"=") for entry in _read(pid, "environ").split(b"\0"))
    return {name: value for name, mark, value in pairs if mark}


def arguments(pid: int) -> list[bytes]:
    return _read(pid, "cmdline").split(b"\0")


def program(pid: int) -> str:
    """The file that runs, which a process cannot choose as it can its title; Debian's -wlm cut."""
    try:
        target = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""  # it has gone, is a kernel thread, or is not ours to look at
    return os.path.basename(target.removesuffix(" (deleted)")).removesuffix("-wlm")


def all_pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def lineage() -> set[int]:
    """This process and its ancestors: they are never ended, whatever they look like."""
    pids, pid = set(), os.getpid()
    while pid > 0 and pid not in pids:
        pids.add(pid)
        pid = parent(pid)
    return pids


def _folder(pid: int) -> bytes:
    try:
        return os.readlink(f"/proc/{pid}/cwd".encode())
    except OSError:
        return b""


def _belongs(pid: int, slurm_conf: bytes, root: bytes) -> bool:
    name = program(pid)
    if name == "slurmstepd":
        # Its title may have overwritten its environment; it stays in slurmd's working folder.
        if _folder(pid).startswith(root + b"/"):
            return True
    env = environment(pid)
    if env.get(b"SLURM_CONF") != slurm_conf:
        return False
    if name in WITH_ARGUMENTS:
        return root + b"/" in _read(pid, "cmdline")
    if name in ("slurmdbd", "slurmstepd", "srun"):
        return True  # an srun whose cluster has gone would wait for ever
    # A job's process; a shell of `devcluster run` or salloc has no SLURMD_NODENAME.
    return b"SLURMD_NODENAME" in env and b"SLURM_JOB_ID" in env


def below(tops: set[int]) -> set[int]:
    """The descendants of some processes."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        children.setdefault(parent(pid), []).append(pid)
    found: set[int] = set()
    waiting = list(tops)
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def living(pids: set[int]) -> list[Process]:
    """The processes of these pids, without this one and its ancestors."""
    found = (find(pid) for pid in pids - lineage())
    return [process for process in found if process is not None]


def owned(root: Path, slurm_conf: Path) -> list[Process]:
    """Every process of the cluster in `root`: its daemons, and whatever its jobs have started."""
    conf, folder = os.fsencode(slurm_conf), os.fsencode(root)
    mine = {pid for pid in all_pids() if _belongs(pid, conf, folder)}
    # A job may give its processes another environment, but not other ancestors.
    return living(mine | below({pid for pid in mine if program(pid) == "slurmstepd"}))


def of_node(root: Path, slurm_conf: Path, node: str) -> list[Process]:
    """What the jobs on one node run; a step manager is known by its socket in the node's folder."""
    spool = os.fsencode(root / "spool" / node) + b"/"
    inodes = set()
    for line in Path("/proc/net/unix").read_bytes().splitlines():
        fields = line.split(None, 7)
        if len(fields) == 8 and fields[7].startswith(spool):
            inodes.add(b"socket:[" + fields[6] + b"]")
    found = set()
    for process in owned(root, slurm_conf):
        name = program(process.pid)
        if name == "slurmstepd" and inodes & _open_files(process.pid):
            found.add(process.pid)
        if name in DAEMONS or name == "slurmstepd":
            continue
        if environment(process.pid).get(b"SLURMD_NODENAME") == os.fsencode(node):
            found.add(process.pid)
    return living(found | below(found))


def _open_files(pid: int) -> set[bytes]:
    folder, found = f"/proc/{pid}/fd".encode(), set()
    try:
        for name in os.listdir(folder):
            found.add(os.readlink(folder + b"/" + name))
    except OSError:
        pass  # it is ending
    return found


def send(process: Process, number: signal.Signals) -> bool:
    """Signals this very process, not one that has inherited its pid meanwhile."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def wait_gone(processes: list[Process], seconds: float) -> list[Process]:
    """Waits until they have ended; gives back those that have not."""
    deadline = time.monotonic() + seconds
    handles: list[int] = []
    for process in processes:
        try:
            handle = os.pidfd_open(process.pid)
        except OSError:
            continue
        if alive(process):
            handles.append(handle)
        else:
            os.close(handle)
    left = set(handles)
    try:
        poll = select.poll()
        for handle in handles:
            poll.register(handle, select.POLLIN)
        while left and (rest := deadline - time.monotonic()) > 0:
            for handle, _ in poll.poll(rest * 1000):
                poll.unregister(handle)
                left.discard(handle)
    finally:
        for handle in handles:
            os.close(handle)
    return [process for process in processes if alive(process)]


def end(processes: list[Process], grace: float) -> list[Process]:
    """Asks them to end, then makes them; gives back those that are still there."""
    for process in processes:
        send(process, signal.SIGTERM if grace > 0 else signal.SIGKILL)
    left = wait_gone(processes, grace) if grace > 0 else processes
    for process in left:
        send(process, signal.SIGKILL)
    return wait_gone(left, 10)
