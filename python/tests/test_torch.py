# SPDX-License-Identifier: Apache-2.0
"""Injection into a real PyTorch (skipped where there is none): optimizers of every kind, and DDP's
phases against marks by hand."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest

from .conftest import Program, clean_environment
from .test_inject import INJECT

pytest.importorskip("torch")

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(1)
data = TensorDataset(torch.randn(32, 10), torch.randn(32, 1))
loader = DataLoader(data, batch_size=4)
model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1))
def loss_of(x, y):
    return ((model(x) - y) ** 2).mean()
"""


def inject(program: Program, code: str, **env: Any) -> "subprocess.CompletedProcess[str]":
    settings: Dict[str, Any] = {
        "VETTA_PROBE": "1",
        "PYTHONPATH": INJECT,
        "OMP_NUM_THREADS": "1",
    }
    settings.update(env)
    return program.run(HEAD + code, **settings)


def test_optimizers(program: Program) -> None:
    """Every optimizer that takes a plain step, one that calls a closure, and one of the user's."""
    done = inject(
        program,
        """
class Mine(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
kinds = [torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop, Mine]
for kind in kinds:
    optimizer = kind(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for x, y in loader:
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()
    scheduler.step()
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
for x, y in loader:
    def closure():
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        return loss
    optimizer.step(closure)
scaler = torch.cuda.amp.GradScaler(enabled=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in loader:
    scaler.scale(loss_of(x, y)).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    steps = program.ring().steps
    # A closing optimizer that is gone is unlearnt in 9 steps, 8 of which are the new one's first:
    # what matters is that all of the time is there, and that every step holds its phases.
    assert len(steps) >= 8 + 6
    assert all(step.phases["backward"] for step in steps)
    assert all(sum(ns for ns in step.phases.values() if ns) <= step.duration for step in steps)


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Adagrad", "RMSprop", "SGD", "Mine", "LBFGS"])
def test_one_optimizer(program: Program, kind: str) -> None:
    done = inject(
        program,
        f"""
class Mine(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
make = Mine if "{kind}" == "Mine" else torch.optim.{kind if kind != "Mine" else "SGD"}
optimizer = make(model.parameters(), lr=0.01)
for epoch in range(2):
    for x, y in loader:
        def closure():
            optimizer.zero_grad()
            loss = loss_of(x, y)
            loss.backward()
            return loss
        if "{kind}" == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    steps = program.ring().steps
    assert [step.step for step in steps] == list(range(16))
    for step in steps:
        assert step.samples == 4 and step.phases["data"] and step.phases["optimizer"]
        assert (step.loss is None) == (kind == "LBFGS")  # several backward passes have no one loss


def test_gan_accumulation_and_validation(program: Program) -> None:
    done = inject(
        program,
        """
critic = nn.Linear(1, 1)
first = torch.optim.Adam(critic.parameters())
second = torch.optim.Adam(model.parameters())
for x, y in loader:
    critic(model(x).detach()).mean().backward()
    first.step()
    critic(model(x)).mean().backward()
    second.step()
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        loss_of(x, y).backward()
        if i % 2:
            second.step()
    with torch.no_grad():
        for x, y in loader:
            loss_of(x, y)
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    steps = program.ring().steps
    assert [step.samples for step in steps] == [4] * 8 + [8] * 8


def test_numbers_are_the_same_with_and_without(program: Program) -> None:
    code = """
import random
from torch.nn.parallel import DistributedDataParallel
import torch.distributed as dist
import tempfile
dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
ddp = DistributedDataParallel(model)
optimizer = torch.optim.Adam(ddp.parameters(), lr=0.01)
for epoch in range(5):
    for x, y in DataLoader(data, batch_size=4, shuffle=True):
        optimizer.zero_grad()
        ((ddp(x) - y) ** 2).mean().backward()
        optimizer.step()
print([p.double().sum().item() for p in model.parameters()], torch.rand(1).item())
"""
    with_hooks = inject(program, code)
    assert len(program.ring().steps) == 40
    without = inject(program, code, VETTA_PROBE="0")
    assert with_hooks.stdout == without.stdout and with_hooks.stdout
    assert with_hooks.stderr == without.stderr == ""


def test_saved_and_copied_models_do_not_know_of_the_probe(program: Program) -> None:
    done = inject(
        program,
        """
import copy, io, tempfile, warnings
import torch.distributed as dist
warnings.simplefilter("error")
dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
ddp = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
for x, y in loader:
    ((ddp(x) - y) ** 2).mean().backward()
    optimizer.step()
for thing in (model, optimizer, ddp.module, copy.deepcopy(model)):
    file = io.BytesIO()
    torch.save(thing, file)
    print(b"vetta" in file.getvalue())
scripted = torch.jit.script(model)
traced = torch.jit.trace(model, torch.randn(4, 10))
print(torch.allclose(scripted(x), traced(x)))
""",
    )
    assert done.stderr == "" and done.stdout.split() == ["False"] * 4 + ["True"]


def same_with_and_without(program: Program, code: str) -> str:
    """What the program prints, which must not depend on the hooks."""
    with_hooks = inject(program, code)
    without = inject(program, code, VETTA_PROBE="0")
    assert (with_hooks.returncode, without.returncode) == (0, 0), with_hooks.stderr
    assert with_hooks.stdout == without.stdout and with_hooks.stdout
    return with_hooks.stdout


ONE_RANK = """
import gc, tempfile, weakref
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
"""


@pytest.mark.parametrize("passes", [1, 6])
def test_a_model_that_is_let_go_is_freed(program: Program, passes: int) -> None:
    code = f"""
ddp = nn.parallel.DistributedDataParallel(model)
for step in range({passes}):
    ddp(torch.ones(4, 10)).mean().backward()
weight = weakref.ref(next(ddp.parameters()))
del ddp, model
gc.collect()
print(weight() is None)
"""
    assert same_with_and_without(program, ONE_RANK + code) == "True\n"


def test_hooks_of_the_program_stay(program: Program) -> None:
    code = """
ddp = nn.parallel.DistributedDataParallel(model)
count = 0
def halve(gradient):
    global count
    count += 1
    return gradient * 0.5
handles = [(p, p.register_hook(halve)) for p in model.parameters()]
kept = [(h.id, p._backward_hooks) for p, h in handles]
for step in range(8):
    for id, hooks in kept:  # on in every second step
        hooks.pop(id, None)
        if step % 2 == 0:
            hooks[id] = halve
    ddp(torch.ones(4, 10)).mean().backward()
print(count, [p.grad.sum().item() for p in model.parameters()])
"""
    assert same_with_and_without(program, ONE_RANK + code).startswith("16 ")


def test_a_batch_of_the_programs_own_class_is_not_touched(program: Program) -> None:
    code = """
class Once(list):
    def __getitem__(self, index): return self.pop(index)
class Lazy:
    def __init__(self, items): self.items = items
    def values(self):
        items, self.items = self.items, []
        return items
for collate in (Once, Lazy):
    for batch in DataLoader(data, batch_size=4, collate_fn=collate):
        print(len(batch.values() if collate is Lazy else batch))
"""
    same_with_and_without(program, code)


def test_a_script_that_calls_backward_compiles(program: Program) -> None:
    code = """
@torch.jit.script
def train(x: torch.Tensor):
    torch.autograd.backward([x.sum()])
x = torch.ones(3, requires_grad=True)
train(x)
print(x.grad)
"""
    same_with_and_without(program, code)


def test_stop_puts_everything_back(program: Program) -> None:
    done = inject(
        program,
        """
from vetta_probe import _torch_hooks
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
ddp = nn.parallel.DistributedDataParallel
_torch_hooks.stop()
places = [torch.optim.SGD.step, torch.optim.Optimizer._hook_for_profile, torch.autograd.backward,
    ddp.forward, ddp.__init__, ddp._sync_buffers, torch.cuda.amp.GradScaler.step,
    torch.utils.data.dataloader._BaseDataLoaderIter.__next__, DataLoader.__iter__,
    torch.distributed.all_reduce, torch.distributed.distributed_c10d.all_reduce,
    torch.distributed.barrier, torch.distributed.destroy_process_group]
print([place for place in places if "vetta" in place.__code__.co_filename])
print(type(torch._C._distributed_c10d.Work.wait).__name__)
for x, y in loader:
    loss_of(x, y).backward()
    optimizer.step()
""",
    )
    assert done.stdout.split() == ["[]", "instancemethod"], done.stderr
    assert program.all_rings() == []


def test_loader_workers_are_no_ranks(program: Program) -> None:
    done = inject(
        program,
        """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=4, num_workers=2):
        loss_of(x, y).backward()
        optimizer.step()
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(program.ring().steps) == 16


DDP = """
import sys, time, tempfile, os
import torch, torch.distributed as dist
from torch import nn
rank = int(os.environ["RANK"])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
layers = [layer for _ in range(4) for layer in (nn.Linear(400, 400), nn.ReLU())]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers, nn.BatchNorm1d(400)))
ready = [0.0]
model.module[0].weight.register_hook(lambda grad: ready.__setitem__(0, time.monotonic()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
class Data(torch.utils.data.Dataset):
    def __len__(self): return 64 * 40
    def __getitem__(self, i):
        if rank == 1 and i % 64 == 0: time.sleep(0.08)
        return torch.randn(400)
clock, rows = time.monotonic, []
batches = iter(torch.utils.data.DataLoader(Data(), batch_size=64))
end = clock()
for step in range(40):
    begin = end
    x = next(batches); data = clock()
    loss = model(x).pow(2).mean(); forward = clock()
    loss.backward(); backward = clock()
    optimizer.step(); end = clock()
    rows.append({"data": data - begin, "backward": ready[0] - forward, "optimizer": end - backward,
                 "wait": backward - ready[0], "forward": forward - data, "step": end - begin})
import json
print(json.dumps(rows))
dist.destroy_process_group()
"""


def run_ddp(folder: Path, **env: str) -> List[List[Dict[str, float]]]:
    script = folder / "ddp.py"
    script.write_text(DDP)
    settings = {"VETTA_PROBE": "1", "VETTA_RING_DIR": str(folder / "rings"), "PYTHONPATH": INJECT}
    settings.update(env)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder / "meeting")],
            env=clean_environment(RANK=str(rank), WORLD_SIZE="2", OMP_NUM_THREADS="1", **settings),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=200)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    return [json.loads(output) for output in outputs]


def test_ddp_phases_against_the_programs_own_clock(tmp_path: Path) -> None:
    own = run_ddp(tmp_path)
    program = Program(tmp_path)
    rings = program.all_rings()
    assert [ring.rank for ring in rings] == [0, 1]

    def median_ms(rank: int, *names: str) -> float:
        rows = rings[rank].steps[5:]
        return statistics.median(sum(row.phases[name] or 0 for name in names) / 1e6 for row in rows)

    def own_ms(rank: int, *names: str) -> float:
        return statistics.median(sum(row[name] for name in names) * 1e3 for row in own[rank][5:])

    for rank in range(2):
        assert len(rings[rank].steps) == 40
        assert all(step.samples == 64 for step in rings[rank].steps)
        for phase in ("data", "backward", "optimizer"):
            near = pytest.approx(own_ms(rank, phase), rel=0.15, abs=2.0)
            assert median_ms(rank, phase) == near, (rank, phase)
        # The broadcast of buffers within forward is the others' too: the program sees the sum.
        both = pytest.approx(own_ms(rank, "forward", "wait"), rel=0.15, abs=3.0)
        assert median_ms(rank, "forward", "allreduce") == both
    # Rank 1's loader takes 80 ms longer; that is rank 0's waiting and nobody's computing.
    assert median_ms(1, "data") > 80
    assert median_ms(0, "allreduce") > 0.7 * (median_ms(1, "data") - median_ms(0, "data"))
    assert median_ms(1, "allreduce") < 0.5 * median_ms(0, "allreduce")
    durations = [statistics.median(s.duration for s in ring.steps[5:]) for ring in rings]
    assert durations[0] == pytest.approx(durations[1], rel=0.1)


def test_a_stuck_rank_and_those_that_wait_for_it(tmp_path: Path) -> None:
    script = tmp_path / "ddp.py"
    stuck = "if step == 20 and rank == 1: time.sleep(1000)\n    x = next(batches)"
    script.write_text(DDP.replace("x = next(batches)", stuck))
    settings = {"VETTA_RING_DIR": str(tmp_path / "rings"), "PYTHONPATH": INJECT}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(tmp_path / "meeting")],
            env=clean_environment(
                RANK=str(rank), WORLD_SIZE="2", OMP_NUM_THREADS="1", VETTA_PROBE="1", **settings
            ),
            stdout=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]
    program = Program(tmp_path)
    places: List[object] = []
    deadline = time.monotonic() + 120
    wanted: List[object] = [(20, "allreduce"), (20, None)]
    try:
        while places != wanted and time.monotonic() < deadline:
            time.sleep(0.2)
            if len(list((tmp_path / "rings").glob("*.ring"))) == 2:
                now = [ring.now for ring in program.all_rings()]
                places = [(place.step, place.phase) if place else None for place in now]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert places == wanted  # the wait within DDP's backward pass is known as such
