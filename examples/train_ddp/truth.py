#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much the others lost to one rank, from the files that `train.py --truth PREFIX` wrote. Knows
nothing of Vetta.

Two figures, both shares of a step's time:
- `wait`: the time that every other rank stood in its all-reduce beyond the slow rank's own time
  there. Each rank's waiting is a difference of its own clock, so that nodes need no common time.
- `paired`: (slow - healthy) / slow, of the median steps of this run and of a healthy one
  (`--healthy PREFIX`).
"""

from __future__ import annotations

import argparse
import csv
import glob
import json
import statistics
import sys
from typing import Dict, List, Optional, Tuple

Row = Tuple[float, float, float]  # start, arrive, leave


def read(prefix: str) -> Dict[int, Dict[int, Row]]:
    """rank → step → its clocks."""
    ranks: Dict[int, Dict[int, Row]] = {}
    for path in glob.glob(glob.escape(prefix) + ".*.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            ranks[int(path.split(".")[-2])] = {
                int(row["step"]): (float(row["start"]), float(row["arrive"]), float(row["leave"]))
                for row in csv.DictReader(file)
            }
    return ranks


def periods(rows: Dict[int, Row]) -> List[float]:
    """Seconds from one step's start to the next one's."""
    return [rows[step + 1][0] - rows[step][0] for step in sorted(rows) if step + 1 in rows]


def median_step(ranks: Dict[int, Dict[int, Row]]) -> float:
    return statistics.median(seconds for rows in ranks.values() for seconds in periods(rows))


def wait_share(ranks: Dict[int, Dict[int, Row]], slow: int) -> Optional[float]:
    shares = []
    for step, mine in ranks[slow].items():
        others = [rows[step] for rank, rows in ranks.items() if rank != slow and step in rows]
        following = ranks[slow].get(step + 1)
        if len(others) == len(ranks) - 1 and following is not None:
            least = min(leave - arrive for _, arrive, leave in others)
            shares.append(max(0.0, least - (mine[2] - mine[1])) / (following[0] - mine[0]))
    return statistics.median(shares) if shares else None


def what_if_share(ranks: Dict[int, Dict[int, Row]], slow: int) -> Optional[float]:
    """The gain that a diagnosis may promise: the slow rank at its peers' median of own time (step
    less all-reduce)."""
    shares = []
    for step, mine in ranks[slow].items():
        others = [rows[step] for rank, rows in ranks.items() if rank != slow and step in rows]
        if len(others) == len(ranks) - 1 and step + 1 in ranks[slow]:
            own = [arrive - start for start, arrive, _ in others]
            least = min(leave - arrive for _, arrive, leave in others + [mine])
            rest = ranks[slow][step + 1][0] - mine[2]
            new = max(max(own), statistics.median(own)) + least + rest
            old = ranks[slow][step + 1][0] - mine[0]
            shares.append(max(0.0, old - new) / old)
    return statistics.median(shares) if shares else None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="example: truth.py /tmp/slow --slow-rank 5 --healthy /tmp/healthy",
    )
    parser.add_argument("prefix", help="as given to train.py --truth")
    parser.add_argument("--slow-rank", type=int, required=True)
    parser.add_argument("--healthy", metavar="PREFIX", help="the same of a healthy run")
    options = parser.parse_args()
    ranks = read(options.prefix)
    if options.slow_rank not in ranks or len(ranks) < 2:
        print(
            "%s.*.csv: %d ranks, and rank %d must be one of two or more"
            % (options.prefix, len(ranks), options.slow_rank),
            file=sys.stderr,
        )
        return 1
    step = median_step(ranks)
    answer = {
        "ranks": len(ranks),
        "slow_rank": options.slow_rank,
        "step_seconds": step,
        "wait": wait_share(ranks, options.slow_rank),
        "what_if": what_if_share(ranks, options.slow_rank),
    }
    if options.healthy:
        healthy = median_step(read(options.healthy))
        answer["healthy_step_seconds"] = healthy
        answer["paired"] = (step - healthy) / step
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
