# SPDX-License-Identifier: Apache-2.0
"""A training loop of SECONDS with a mark every MILLISECONDS, then the exit that HOW asks for."""

import sys
import time

import vetta_probe as probe


def main() -> None:
    end = time.monotonic() + float(sys.argv[1])
    pause = float(sys.argv[2]) / 1000
    how = sys.argv[3] if len(sys.argv) > 3 else "fine"
    step = 0
    while time.monotonic() < end:
        with probe.step(step, samples=8):
            time.sleep(pause)
        step += 1
    print("steps", step, flush=True)
    if how == "raise":
        raise RuntimeError("the disk is full of eels")


main()
