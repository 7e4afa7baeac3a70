# SPDX-License-Identifier: Apache-2.0
"""Trains with and without the injected hooks, by turns in one process: a JSON object for each pair.

A pair is two blocks of steps, one with every hook in place and one with every hook taken out again,
in an order that alternates. Both begin with a new DDP module and a new optimizer, as a program
would, and with steps that are not counted.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from vetta_probe import _torch_hooks

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "train_ddp"))
train: Any = importlib.import_module("train")

WARM, STEPS, BATCH = 4, 16, 48


def block(loader: Any) -> tuple[float, float]:
    """Median wall and CPU seconds of a step."""
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(train.make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    wall, cpu = [], []
    batches = iter(loader)
    for step in range(WARM + STEPS):
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        pictures, labels = next(batches)
        loss = nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= WARM:
            wall.append(time.perf_counter() - wall_start)
            cpu.append(time.process_time() - cpu_start)
    return statistics.median(wall), statistics.median(cpu)


def main() -> None:
    torch.set_num_threads(1)
    meeting = os.path.join(tempfile.mkdtemp(), "meeting")
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=0, world_size=1)
    loader = torch.utils.data.DataLoader(train.Shard(1, BATCH), batch_size=BATCH, drop_last=True)
    for pair in range(int(sys.argv[1])):
        row: dict[str, float] = {}
        for kind in ("injected", "none") if pair % 2 else ("none", "injected"):
            if kind == "injected":
                _torch_hooks.start(torch)
            else:
                _torch_hooks.stop()
            row[f"{kind}_wall"], row[f"{kind}_cpu"] = block(loader)
        print(json.dumps(row), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
