#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold a running process to a share of a core, as a wrongly set limit or a noisy neighbour does.
Needs root.

Moves the process, with its threads, into a cgroup of its own with a CPU quota (cgroup v1's `cpu`
controller or v2), waits until the process ends or `--seconds` are over, moves it back and removes
the group.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Tuple

V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


def group_of(pid: int) -> Tuple[Path, bool]:
    """The folder of the process's CPU group, and whether it is of version 1."""
    for line in Path("/proc/%d/cgroup" % pid).read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return V1 / path.lstrip("/"), True
    path = Path("/proc/%d/cgroup" % pid).read_text(encoding="utf-8").rpartition("::")[2].strip()
    if "cpu" in (V2 / "cgroup.controllers").read_text(encoding="utf-8").split():
        return V2 / path.lstrip("/"), False
    raise OSError("no cgroup hierarchy on this machine has the cpu controller")


def limit(group: Path, is_v1: bool, percent: float, period_us: int) -> None:
    quota_us = max(1000, int(period_us * percent / 100))
    if is_v1:
        (group / "cpu.cfs_period_us").write_text(str(period_us), encoding="ascii")
        (group / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="ascii")
    else:
        (group / "cpu.max").write_text("%d %d" % (quota_us, period_us), encoding="ascii")


def hold(pid: int, percent: float, period_us: int, seconds: float) -> None:
    before, is_v1 = group_of(pid)
    group = (V1 if is_v1 else V2) / ("vetta_slow_%d" % pid)
    group.mkdir()
    end = time.monotonic() + seconds
    try:
        limit(group, is_v1, percent, period_us)
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
        while os.path.exists("/proc/%d" % pid) and time.monotonic() < end:
            time.sleep(0.1)
    finally:
        for held in (group / "cgroup.procs").read_text(encoding="ascii").split():
            try:
                (before / "cgroup.procs").write_text(held, encoding="ascii")
            except OSError:
                pass  # it ended meanwhile
        group.rmdir()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="example: slow_cgroup.py 4711 --percent 10 --seconds 60",
    )
    parser.add_argument("pid", type=int)
    parser.add_argument(
        "--percent", type=float, default=10, help="of one core (default %(default)s)"
    )
    parser.add_argument("--period-ms", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    try:
        hold(options.pid, options.percent, int(options.period_ms * 1000), options.seconds)
    except (OSError, ValueError) as error:
        print("slow_cgroup.py: pid %d: %s" % (options.pid, error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
