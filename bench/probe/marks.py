# SPDX-License-Identifier: Apache-2.0
"""Prints what a mark costs in this process, in microseconds: one JSON object."""

from __future__ import annotations

import contextlib
import json
import sys
import time

import vetta_probe as probe


def main() -> None:
    marks = int(sys.argv[1])
    with probe.step(0):
        pass  # the ring is made here
    start, wall_start = time.process_time(), time.perf_counter()
    for i in range(marks):
        with probe.step(i, samples=32):
            pass
    mark, wall = time.process_time() - start, time.perf_counter() - wall_start
    start = time.process_time()
    for i in range(marks):
        with probe.step(i, samples=32) as step:
            with step.phase("data"):
                pass
            with step.phase("forward"):
                pass
            with step.phase("backward"):
                pass
            with step.phase("allreduce"):
                pass
            with step.phase("optimizer"):
                pass
            step.loss(0.5)
    phases = time.process_time() - start
    start = time.process_time()
    for i in range(marks):
        with contextlib.nullcontext():
            pass
    empty = time.process_time() - start
    figures = {"mark": mark, "wall": wall, "phases": phases, "empty": empty}
    print(json.dumps({name: 1e6 * seconds / marks for name, seconds in figures.items()}))


if __name__ == "__main__":
    main()
