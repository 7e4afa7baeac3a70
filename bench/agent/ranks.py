# SPDX-License-Identifier: Apache-2.0
"""ranks.py COUNT MARKS_A_SECOND: forks COUNT processes that each mark steps, prints their pids as
they start, and ends them when its stdin is closed. Standard library and the probe only."""

from __future__ import annotations

import os
import sys
import time


def train(rank: int, count: int, pause: float) -> None:
    os.environ.update(SLURM_PROCID=str(rank), RANK=str(rank), WORLD_SIZE=str(count))
    import vetta_probe as probe

    time.sleep(pause * rank / count)
    step = 0
    while os.getppid() != 1:
        with probe.step(step, samples=32) as mark:
            with mark.phase("data"):
                pass
            time.sleep(pause)
        step += 1


def main() -> None:
    count, pause = int(sys.argv[1]), 1 / float(sys.argv[2])
    children = []
    for rank in range(count):
        pid = os.fork()
        if pid == 0:
            try:
                train(rank, count, pause)
            finally:
                os._exit(0)
        children.append(pid)
    print(*children, flush=True)
    sys.stdin.read()
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


main()
