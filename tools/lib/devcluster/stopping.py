# SPDX-License-Identifier: Apache-2.0
"""`down` and `kill`: ends what is the cluster's, and nothing else."""

import signal

from devcluster.layout import DevclusterError, Layout
from devcluster.process import DAEMONS, Process, end, environment, owned, program, send, wait_gone
from devcluster.record import Record, load

ROUNDS = 5
GRACE_SECONDS = 6


def end_all(layout: Layout) -> int:
    """Ends every process of the cluster, however it came about; gives back how many there were."""
    every = owned(layout.root, layout.slurm_conf)
    names = {process: program(process.pid) for process in every}
    end([process for process in every if names[process] in ("slurmctld", "slurmd")], GRACE_SECONDS)
    end([process for process in every if names[process] not in DAEMONS], 0)
    # slurmctld writes to slurmdbd while it ends, and slurmdbd to mariadbd.
    end([process for process in every if names[process] == "slurmdbd"], GRACE_SECONDS)
    end([process for process in every if names[process] in ("mariadbd", "munged")], GRACE_SECONDS)
    for _ in range(ROUNDS):
        late = owned(layout.root, layout.slurm_conf)
        if not late:
            return len(every)
        end(late, 0)
    raise DevclusterError(
        "these processes of the cluster do not end: "
        + ", ".join(f"{process.pid} ({program(process.pid)})" for process in late)
    )


def _steps_of(layout: Layout, node: str) -> list[Process]:
    """What the jobs of one node run: needed to make a node fail, not only its slurmd."""
    found = []
    for process in owned(layout.root, layout.slurm_conf):
        if program(process.pid) in DAEMONS:
            continue
        if environment(process.pid).get(b"SLURMD_NODENAME") == node.encode():
            found.append(process)
    return found


def kill(layout: Layout, record: Record, name: str, jobs: bool) -> bool:
    """SIGKILL for one daemon, as a crash; with `jobs` also for what runs on that node."""
    process = record.living(name)
    if process is None and not jobs:
        return False
    steps = _steps_of(layout, name) if jobs else []
    targets = ([process] if process else []) + steps
    for target in targets:
        send(target, signal.SIGKILL)
    if wait_gone(targets, 10):
        raise DevclusterError(f"{name} does not end")
    return True
