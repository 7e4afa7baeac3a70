# SPDX-License-Identifier: Apache-2.0
"""`down` and `kill`: ends what is the cluster's, and nothing else."""

import signal
import subprocess
from pathlib import Path

from devcluster import cgroups
from devcluster.layout import DevclusterError, Layout
from devcluster.process import DAEMONS, Process, end, of_node, owned, program, send, wait_gone
from devcluster.record import Record, load

ROUNDS = 5
GRACE_SECONDS = 6


def _owned(layout: Layout) -> list[Process]:
    """The cluster's processes by their own marks, and by cgroups where it has them."""
    found = set(owned(layout.root, layout.slurm_conf))
    if record := load(layout):
        found.update(cgroups.members(layout, record))
    return sorted(found, key=lambda process: process.pid)


def end_all(layout: Layout) -> int:
    """Ends every process of the cluster, however it came about; gives back how many there were."""
    every = _owned(layout)
    names = {process: program(process.pid) for process in every}
    end([process for process in every if names[process] in ("slurmctld", "slurmd")], GRACE_SECONDS)
    end([process for process in every if names[process] not in DAEMONS], 0)
    # slurmctld writes to slurmdbd while it ends, and slurmdbd to mariadbd.
    end([process for process in every if names[process] == "slurmdbd"], GRACE_SECONDS)
    end([process for process in every if names[process] in ("mariadbd", "munged")], GRACE_SECONDS)
    for _ in range(ROUNDS):
        late = _owned(layout)
        if not late:
            if record := load(layout):
                cgroups.remove(layout, record)
            unmount_below(layout)
            return len(every)
        end(late, 0)
    raise DevclusterError(
        "these processes of the cluster do not end: "
        + ", ".join(f"{process.pid} ({program(process.pid)})" for process in late)
    )


def unmount_below(layout: Layout) -> None:
    """Lets go of what a job has mounted in the folder: deleting must not reach through it."""
    lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    for point in sorted(points, reverse=True):
        if point.startswith(f"{layout.root}/"):
            done = subprocess.run(["umount", "-l", point], capture_output=True, text=True)
            if done.returncode != 0:
                raise DevclusterError(f"{point} is mounted and stays so: {done.stderr.strip()}")


def kill(layout: Layout, record: Record, name: str, jobs: bool) -> bool:
    """SIGKILL for one daemon, as a crash; with `jobs` also for what runs on that node."""
    process = record.living(name)
    if process is None and not jobs:
        return False
    steps = of_node(layout.root, layout.slurm_conf, name) if jobs else []
    targets = ([process] if process else []) + steps
    for target in targets:
        send(target, signal.SIGKILL)
    if wait_gone(targets, 10):
        raise DevclusterError(f"{name} does not end")
    return True
