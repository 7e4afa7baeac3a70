# SPDX-License-Identifier: Apache-2.0
"""`up --cgroup`: jobs in cgroups of version 1, as on a production node, where the host has them."""

import os
from pathlib import Path

from devcluster.layout import DevclusterError, Layout
from devcluster.process import Process, all_pids, arguments, living, program
from devcluster.record import Record, Settings

MOUNT = Path("/sys/fs/cgroup")
CONTROLLERS = ("freezer", "memory", "devices", "cpuacct")

CGROUP_CONF = f"""\
CgroupPlugin=cgroup/v1
CgroupMountpoint={MOUNT}
ConstrainDevices=yes
ConstrainRAMSpace=yes
"""

# Cores are not constrained: a node here claims more of them than the host has.
SLURM_CONF = """\
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
PrologFlags=Contain
JobAcctGatherType=jobacct_gather/cgroup
"""


def check(layout: Layout, settings: Settings) -> None:
    """Refuses a host without the controllers, and names that another cluster's cgroups have."""
    for controller in CONTROLLERS:
        if not (MOUNT / controller / "cgroup.procs").exists():
            raise DevclusterError(
                f"--cgroup needs the {controller} controller of cgroup version 1, which is not "
                f"mounted at {MOUNT / controller}: leave --cgroup out"
            )
    if pid := _other_user(layout, settings):
        raise DevclusterError(
            "another cluster on this host has nodes of the same names in cgroups "
            f"(slurmd {pid}): choose other names with --prefix"
        )


def _other_user(layout: Layout, settings: Settings) -> int:
    """The slurmd of another cluster whose nodes have our names, and so our cgroups; or 0."""
    names = {os.fsencode(name) for name in settings.node_names()}
    for pid in all_pids():
        argv = arguments(pid) if program(pid) == "slurmd" else []
        if names.isdisjoint(argv) or os.fsencode(layout.slurm_conf) in argv:
            continue
        if any(_uses_cgroups(word) for word in argv):
            return pid
    return 0


def _uses_cgroups(path: bytes) -> bool:
    try:
        text = Path(os.fsdecode(path)).read_bytes() if path.endswith(b".conf") else b""
        return b"proctrack/cgroup" in text
    except OSError:
        return False


def _folders(layout: Layout, record: Record) -> list[Path]:
    """All cgroups of the cluster's nodes, inner ones first; none once they may be another's."""
    settings, found = record.settings, []
    if not settings.cgroup or not record.daemons or _other_user(layout, settings):
        return []
    for controller in CONTROLLERS:
        for name in settings.node_names():
            for folder, _, _ in os.walk(MOUNT / controller / f"slurm_{name}", topdown=False):
                found.append(Path(folder))
    return found


def members(layout: Layout, record: Record) -> list[Process]:
    """What runs in the nodes' cgroups: no process of a job gets out of them."""
    pids: set[int] = set()
    for folder in _folders(layout, record):
        try:
            pids.update(int(pid) for pid in (folder / "cgroup.procs").read_text().split())
        except OSError:
            continue  # it went with its last process
    return living(pids)


def remove(layout: Layout, record: Record) -> None:
    """Takes the empty cgroups away."""
    for folder in _folders(layout, record):
        try:
            folder.rmdir()
        except OSError:
            continue  # not empty, or gone: Slurm itself makes do with what is there
