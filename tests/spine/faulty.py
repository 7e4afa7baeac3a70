# SPDX-License-Identifier: Apache-2.0
"""A training loop that goes wrong on purpose: one rank does one thing at one step.

Real PyTorch, real gloo all-reduce, marks by the probe. What happened is written by the ranks
themselves to OUT/<rank>.json, so that a test knows the truth without asking Vetta.
"""

import argparse
import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import vetta_probe as probe


def join_memory_cgroup(limit: int) -> None:
    """Puts this process under a memory limit of its own, as a site's task/cgroup would."""
    group = Path(f"/sys/fs/cgroup/memory/vetta-oom-{os.getpid()}")
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(limit))
    (group / "cgroup.procs").write_text(str(os.getpid()))


def go_wrong(fault: str, where: str) -> None:
    if fault == "exception":
        batch = torch.zeros(4, 3)
        torch.mm(batch, torch.zeros(4, 3))  # shapes that do not fit: a real bug of a user
    elif fault == "oom":
        join_memory_cgroup(600 << 20)
        hoard = []
        while True:
            hoard.append(bytearray(os.urandom(1 << 20) * 8))
    elif fault in ("hang", "loader"):
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()  # a dead lock in the data loader
    elif fault == "disk":
        with open(where, "wb") as file:
            while True:
                file.write(b"\0" * (1 << 16))
    elif fault == "exit":
        raise SystemExit(3)


Marks = Callable[..., "contextlib.AbstractContextManager[object]"]


def no_marks(*_: object, **__: object) -> "contextlib.AbstractContextManager[None]":
    return contextlib.nullcontext()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--fault", default="none")
    options.add_argument("--rank", type=int, default=3)
    options.add_argument("--at-step", type=int, default=15)
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--pause", type=float, default=0.05, help="seconds of work a step")
    options.add_argument("--rest", type=float, default=0.0, help="seconds of sleep a step")
    options.add_argument("--where", default="")
    options.add_argument("--bare", action="store_true", help="no marks: the probe is injected")
    options.add_argument("--out", required=True)
    args = options.parse_args()
    step_of: Marks = no_marks
    phase_of: Marks = no_marks
    if not args.bare:
        step_of, phase_of = probe.step, probe.phase
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    os.sched_setaffinity(0, {rank % (os.cpu_count() or 1)})
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{args.out}/store", rank=rank, world_size=world
    )
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    mine = Path(args.out) / f"{rank}.json"
    for step in range(args.steps):
        with step_of(step, samples=16):
            if rank == args.rank and step == args.at_step:
                with phase_of("data" if args.fault == "loader" else "none"):
                    go_wrong(args.fault, args.where)
            time.sleep(args.rest)
            with phase_of("forward"):
                end = time.monotonic() + args.pause
                while time.monotonic() < end:
                    loss = model(torch.ones(16, 64)).sum()
            with phase_of("backward"):
                loss.backward()
            with phase_of("allreduce"):
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
            optimizer.step()
        node = os.environ["SLURMD_NODENAME"]
        state = {"rank": rank, "pid": os.getpid(), "node": node, "step": step, "time": time.time()}
        new = mine.with_suffix(".new")
        new.write_text(json.dumps(state))
        os.replace(new, mine)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
