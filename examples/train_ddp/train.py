#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small, real distributed training: a convolutional net on synthetic pictures, gloo, one process
a rank.

Made for looking at with Vetta: every rank marks its steps (`--marks hand`) or leaves that to the
injected probe (`--marks none`), one rank can be slowed by a real cause (`--slow-rank R --slow-by
loader`), and `--truth PREFIX` writes down, without Vetta, when each rank came to its all-reduce and
left it. `truth.py` judges those files.

Runs under srun (rank from SLURM_PROCID) and under torchrun (RANK); MASTER_ADDR and MASTER_PORT say
where rank 0 is.
"""

from __future__ import annotations

import argparse
import bz2
import os
import statistics
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Iterator, List, TextIO, Tuple

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before torch reads them

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as functional  # noqa: E402
from torch import Tensor, nn  # noqa: E402

SIDE = 32  # of a picture, pixels
CLASSES = 10
RECORDS = 1024  # pictures of one rank's shard
RAW_SIDE = 128  # of a picture as the slow rank's shard stores it


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="example: sbatch job.sh --steps 100 --slow-rank 5 --truth /tmp/truth",
    )
    parser.add_argument(
        "--steps", type=int, default=200, help="training steps (default %(default)s)"
    )
    parser.add_argument("--batch", type=int, default=48, help="pictures a rank and step")
    parser.add_argument(
        "--warmup",
        type=int,
        default=10,
        help="steps before step 0, neither marked nor in the truth",
    )
    parser.add_argument(
        "--marks", choices=("hand", "none"), default="hand", help="who marks the steps"
    )
    parser.add_argument(
        "--ddp",
        action="store_true",
        help="DistributedDataParallel instead of an all-reduce by hand",
    )
    parser.add_argument(
        "--slow-rank", type=int, default=-1, help="the rank to slow (default: none)"
    )
    parser.add_argument("--slow-by", choices=("loader",), default="loader", help="how it is slowed")
    parser.add_argument(
        "--slow-factor", type=float, default=1.25, help="extra work a step, in median steps"
    )
    parser.add_argument(
        "--truth", metavar="PREFIX", help="write PREFIX.<rank>.csv: step, start, arrive, leave"
    )
    parser.add_argument(
        "--no-pin", action="store_true", help="do not pin rank r to core r mod cores"
    )
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Shard(torch.utils.data.Dataset[Tuple[Tensor, Tensor]]):
    """Pictures as compressed records in memory; reading one decompresses it. A picture's class is
    its pattern.

    The slow shard keeps its pictures large and packed hard: `extra` times for each batch, one such
    record is unpacked and scaled down before it is used. That is the whole slowness: real work in
    the loader of one rank.
    """

    def __init__(self, seed: int, batch: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        patterns = torch.randn(CLASSES, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
        self.labels = torch.randint(CLASSES, (RECORDS,), generator=generator)
        noise = torch.randn(RECORDS, 3, SIDE, SIDE, generator=generator)
        pictures = ((patterns[self.labels] + 2 * noise) * 24 + 128).clamp(0, 255).to(torch.uint8)
        self.records = [zlib.compress(picture.numpy().tobytes(), 1) for picture in pictures]
        self.batch = batch
        self.extra = 0.0  # hard records a batch
        self._owed = 0.0
        raw = torch.randint(0, 32, (3, RAW_SIDE, RAW_SIDE), generator=generator, dtype=torch.uint8)
        self.hard_record = bz2.compress(raw.numpy().tobytes(), 9)

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> Tuple[Tensor, Tensor]:
        self._owed += self.extra / self.batch
        while self._owed >= 1:
            self._owed -= 1
            self.unpack_hard()
        data = bytearray(zlib.decompress(self.records[index]))
        picture = torch.frombuffer(data, dtype=torch.uint8).view(3, SIDE, SIDE)
        return picture.float() / 64 - 2, self.labels[index]

    def unpack_hard(self) -> Tensor:
        raw = torch.frombuffer(bytearray(bz2.decompress(self.hard_record)), dtype=torch.uint8)
        small: Tensor = functional.avg_pool2d(
            raw.view(1, 3, RAW_SIDE, RAW_SIDE).float(), RAW_SIDE // SIDE
        )
        return small

    def slow_down(self, seconds: float) -> None:
        """From now on, unpack hard records worth `seconds` of CPU time for each batch."""
        samples = []
        for _ in range(9):
            start = time.thread_time()
            self.unpack_hard()
            samples.append(time.thread_time() - start)
        self.extra = seconds / statistics.median(samples)


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (SIDE // 4) ** 2, 64),
        nn.ReLU(),
        nn.Linear(64, CLASSES),
    )


class Clock:
    """The job's own clock around its all-reduce: what Vetta is judged by."""

    def __init__(self, path: str) -> None:
        self._file: TextIO = open(path, "w", encoding="utf-8")
        self._file.write("step,start,arrive,leave\n")
        self.start = self.arrive = self.leave = 0.0

    def write(self, step: int) -> None:
        if step >= 0:
            self._file.write("%d,%.6f,%.6f,%.6f\n" % (step, self.start, self.arrive, self.leave))
            self._file.flush()


class NoClock(Clock):
    def __init__(self) -> None:
        self.start = self.arrive = self.leave = 0.0

    def write(self, step: int) -> None:
        return


def clocked_hook(clock: Clock, bucket: Any) -> "torch.futures.Future[Tensor]":
    """DistributedDataParallel's own all-reduce, with the time at which the last bucket was
    ready."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    clock.arrive = time.monotonic()
    return allreduce_hook(None, bucket)


# PyTorch checks a hook's annotations, which the __future__ import above has made texts.
clocked_hook.__annotations__.clear()


def all_reduce_by_hand(model: nn.Module, clock: Clock, probe: Any) -> None:
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([gradient.view(-1) for gradient in gradients])
    clock.arrive = time.monotonic()
    with probe.phase("allreduce"):
        dist.all_reduce(flat)  # type: ignore[no-untyped-call]
    clock.leave = time.monotonic()
    flat /= dist.get_world_size()
    at = 0
    for gradient in gradients:
        gradient.copy_(flat[at : at + gradient.numel()].view_as(gradient))
        at += gradient.numel()


class NoProbe:
    """What stands in for the probe under `--marks none`: a loop without marks."""

    def __enter__(self) -> NoProbe:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def step(self, number: int, samples: int = 0) -> NoProbe:
        return self

    def phase(self, name: str) -> NoProbe:
        return self

    def loss(self, value: object) -> None:
        return None

    def wrap(self, loader: Any) -> Any:
        return loader


def find_probe(marks: str) -> Any:
    if marks == "none":
        return NoProbe()
    try:
        import vetta_probe
    except ImportError:  # not installed: the one beside this example
        sys.path.append(str(Path(__file__).resolve().parents[2] / "python"))
        import vetta_probe
    return vetta_probe


def start_ranks() -> int:
    """Join the other ranks; torchrun's variables, or Slurm's in their place. Returns the rank."""
    for ours, slurms in (
        ("RANK", "SLURM_PROCID"),
        ("WORLD_SIZE", "SLURM_NTASKS"),
        ("LOCAL_RANK", "SLURM_LOCALID"),
    ):
        if ours not in os.environ:
            os.environ[ours] = os.environ.get(slurms, "0" if ours != "WORLD_SIZE" else "1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group("gloo")
    return dist.get_rank()


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def train(options: argparse.Namespace, rank: int) -> None:
    probe = find_probe(options.marks)
    torch.manual_seed(options.seed)  # the same model everywhere
    model: Any = make_model()
    clock = Clock("%s.%d.csv" % (options.truth, rank)) if options.truth else NoClock()
    if options.ddp:
        model = nn.parallel.DistributedDataParallel(model)
        if options.truth:
            model.register_comm_hook(clock, clocked_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    shard = Shard(options.seed * 1000 + rank, options.batch)
    loader = torch.utils.data.DataLoader(
        shard, batch_size=options.batch, shuffle=True, drop_last=True
    )
    batches = endless(loader)
    warmup: List[Tuple[float, float]] = []  # wall and CPU seconds
    for step in range(-options.warmup, options.steps):
        if step == 0 and rank == options.slow_rank:
            shard.slow_down(options.slow_factor * healthy_step(warmup))
        marks = probe if step >= 0 else NoProbe()
        clock.start, cpu = time.monotonic(), time.process_time()
        with marks.step(step, samples=options.batch):
            loss = train_step(model, optimizer, batches, clock, marks, options.ddp)
        warmup.append((time.monotonic() - clock.start, time.process_time() - cpu))
        clock.write(step)
        if rank == 0 and step % 20 == 0:
            print("step %d loss %.3f" % (step, loss), flush=True)


def healthy_step(steps: List[Tuple[float, float]]) -> float:
    """The median step. Where other programs disturb the machine, not more than 1.5 times the CPU
    time that the ranks on one core need for a step: else the disturbance would be made permanent.
    """
    wall = statistics.median(wall for wall, _ in steps)
    cpu = statistics.median(cpu for _, cpu in steps)
    ranks_per_core = max(1.0, dist.get_world_size() / (os.cpu_count() or 1))
    return min(wall, 1.5 * ranks_per_core * cpu)


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[Any],
    clock: Clock,
    probe: Any,
    is_ddp: bool,
) -> float:
    with probe.phase("data"):
        pictures, labels = next(batches)
    with probe.phase("forward"):
        loss = functional.cross_entropy(model(pictures), labels)
    optimizer.zero_grad()
    with probe.phase("backward"):
        loss.backward()  # type: ignore[no-untyped-call]
        clock.leave = time.monotonic()
    if not is_ddp:
        all_reduce_by_hand(model, clock, probe)
    with probe.phase("optimizer"):
        optimizer.step()
    probe.loss(loss)
    return float(loss.detach())


def main() -> int:
    options = arguments()
    torch.set_num_threads(1)
    rank = start_ranks()
    if not options.no_pin:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    train(options, rank)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
