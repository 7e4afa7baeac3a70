# SPDX-License-Identifier: Apache-2.0
"""Injection: what is on PYTHONPATH, who is hooked and who is not, on a made torch with the
interfaces of 2.x."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from . import fake_torch
from .conftest import PYTHON_DIR, FakeAgent, Program

INJECT = str(PYTHON_DIR / "vetta_probe" / "inject")

LOOP = """
    import torch
    loader = torch.utils.data.DataLoader(6)
    optimizer = torch.optim.SGD([])
    import time
    for batch in loader:
        time.sleep(0.004)
        torch.Tensor(value=0.25).backward()
        optimizer.step()
"""


class Injected(Program):
    """A program in whose way nothing stands but PYTHONPATH and VETTA_PROBE."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        fake_torch.write(folder / "packages")
        self.path = os.pathsep.join([INJECT, str(folder / "packages")])

    def go(
        self,
        code: str,
        python: str = sys.executable,
        options: Optional[List[str]] = None,
        **env: str,
    ) -> "subprocess.CompletedProcess[str]":
        settings = {"VETTA_PROBE": "1", "PYTHONPATH": self.path}
        settings.update(env)
        return self.run(code, python, options, **settings)


@pytest.fixture
def injected(tmp_path: Path) -> Injected:
    return Injected(tmp_path)


def test_marks_without_a_change(injected: Injected) -> None:
    done = injected.go(LOOP, RANK="2", WORLD_SIZE="4")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    ring = injected.ring()
    assert (ring.rank, ring.world_size) == (2, 4)
    assert [step.step for step in ring.steps] == list(range(6))
    for step in ring.steps:
        assert step.source == "injected" and step.samples == 8 and step.loss == 0.25
        data, forward, optimizer = (step.phases[name] for name in ("data", "forward", "optimizer"))
        assert data is not None and data >= 3e6
        assert forward is not None and forward >= 4e6
        assert optimizer is not None and optimizer >= 1e6
        assert step.phases["allreduce"] is None
        assert sum(ns for ns in step.phases.values() if ns) <= step.duration
    assert [note.kind for note in ring.notes] == ["ended"]


def test_in_a_job_without_the_plugin(injected: Injected, tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    agent = FakeAgent(tmp_path / "n1")
    job: Dict[str, Any] = {"SLURM_JOB_ID": "1", "VETTA_RUNDIR": str(tmp_path), "VETTA_RING_DIR": ""}
    try:
        injected.go(LOOP, SLURMD_NODENAME="n2", **job)
        assert agent.hellos == []
        injected.go(LOOP, SLURMD_NODENAME="n1", **job)
        assert [hello["source"] for hello in agent.hellos] == ["injected"]
    finally:
        agent.close()


def test_ddp_and_collectives(injected: Injected) -> None:
    done = injected.go(
        """
        import torch, time
        from torch.tensor import Parameter
        torch.distributed.init_process_group("gloo")
        parameters = [Parameter() for _ in range(10)]
        model = torch.nn.parallel.DistributedDataParallel(parameters)
        optimizer = torch.optim.SGD(parameters)
        for batch in torch.utils.data.DataLoader(6):
            loss = model(torch.Tensor(parameters=parameters, waits=0.02))
            loss.backward()
            work = torch.distributed.all_reduce(loss, async_op=True)
            work.wait()
            torch.distributed.barrier()
            optimizer.step()
        print([p._backward_hooks and len(p._backward_hooks) for p in parameters][:4])
        torch.distributed.destroy_process_group()
        time.sleep(0.1)
        """
    )
    # The gradients that are ready last are those of the first parameters: only they are watched on,
    # and nothing is left on the others.
    assert done.stdout == "[1, 1, None, None]\n", done.stderr
    ring = injected.ring()
    assert (ring.rank, ring.world_size) == (3, 4)  # as torch.distributed says it
    for step in ring.steps[1:]:
        ms = {name: ns / 1e6 for name, ns in step.phases.items() if ns is not None}
        # Buffers, the others' gradients, and two collectives:
        assert 4 + 20 + 5 + 5 <= ms["allreduce"] < 60
        assert 6 <= ms["forward"] < 20
        assert 20 <= ms["backward"] < 45  # ten gradients of 2 ms
    assert [note.kind for note in ring.notes] == ["ended"]
    last = ring.steps[-1]
    assert ring.notes[0].time_real < last.start_real + last.duration + 80e6  # not only at the exit


def test_without_grad_is_no_forward(injected: Injected) -> None:
    injected.go(
        """
        import torch
        model = torch.nn.parallel.DistributedDataParallel([])
        optimizer = torch.optim.SGD([])
        for epoch in range(2):
            for batch in torch.utils.data.DataLoader(3):
                model(torch.Tensor()).backward()
                optimizer.step()
            torch.set_grad(False)
            for batch in torch.utils.data.DataLoader(20):
                model(torch.Tensor())
            torch.set_grad(True)
        """
    )
    steps = injected.ring().steps
    assert len(steps) == 6
    assert max(step.duration for step in steps) < 100e6  # validation alone takes 260 ms


def test_closures_scalers_and_failures(injected: Injected) -> None:
    done = injected.go(
        """
        import torch
        optimizer = torch.optim.SGD([])
        def closure():
            torch.Tensor().backward()
        for batch in torch.utils.data.DataLoader(3): optimizer.step(closure)
        for scaler in (torch.amp.GradScaler(), torch.cuda.amp.GradScaler()):
            for skips in (False, True, False):
                for batch in torch.utils.data.DataLoader(1):
                    torch.Tensor().backward()
                    scaler.skips = skips
                    scaler.step(optimizer)
        optimizer.fails = True
        for batch in torch.utils.data.DataLoader(2):
            torch.Tensor().backward()
            try: optimizer.step()
            except RuntimeError as error: print(error)
        optimizer.fails = False
        for batch in torch.utils.data.DataLoader(2):
            torch.Tensor().backward()
            optimizer.step()
        """
    )
    assert done.stdout == "step failed\n" * 2, done.stderr
    assert len(injected.ring().steps) == 3 + 6 + 2


def test_an_exception_of_a_joined_rank_is_noted_even_before_a_step(injected: Injected) -> None:
    done = injected.go(
        """
        import torch
        torch.distributed.init_process_group("gloo")
        raise FileNotFoundError("/data/train.h5")
        """
    )
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1
    ring = injected.ring()
    assert ring.steps == [] and ring.notes[0].text.startswith("FileNotFoundError: /data/train.h5")


def test_who_does_not_train_is_no_rank(injected: Injected) -> None:
    injected.go("import torch\nfor batch in torch.utils.data.DataLoader(3): pass")
    assert injected.all_rings() == []


OFF = [
    {"VETTA_PROBE": "0"},
    {"VETTA_PROBE": ""},
    {"VETTA_PROBE": "yes"},
    {"VETTA_RING_DIR": ""},
]


@pytest.mark.parametrize("change", OFF)
def test_off(injected: Injected, change: Dict[str, Any]) -> None:
    done = injected.go(
        LOOP
        + """
    import sys
    print([m for m in sys.modules if "vetta" in m], torch.autograd.backward.__module__)
    """,
        **change,
    )
    assert done.stdout == "[] torch.autograd\n", done.stderr
    assert not injected.rings.exists()


@pytest.mark.parametrize("option", ["-I", "-S", "-E", "-s"])
def test_isolated_python_is_silent(injected: Injected, option: str) -> None:
    packages = str(injected.folder / "packages")
    head = f"    import sys\n    sys.path.insert(0, {packages!r})\n"
    done = injected.go(head + LOOP, options=[option])
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(injected.all_rings()) == (option == "-s")


def test_nothing_is_imported_before_torch(injected: Injected) -> None:
    done = injected.go(
        """
        import sys
        print(sorted(m for m in sys.modules if m.startswith(("torch", "vetta", "socket", "json"))))
        import importlib.util
        print(importlib.util.find_spec("torch") is not None, "torch" in sys.modules)
        """
    )
    assert done.stdout.splitlines() == ["[]", "True False"]


def test_torch_looks_as_if_nobody_had_been_there(injected: Injected) -> None:
    done = injected.go(
        """
        import sys, torch
        spec, loader = torch.__spec__, torch.__loader__
        print(spec.name, type(loader).__name__, spec.loader is loader)
        print("exec_module" in vars(loader), [f for f in sys.meta_path if "_Finder" in str(f)])
        ddp = torch.nn.parallel.DistributedDataParallel
        print(torch.distributed.all_reduce.__name__, ddp.forward.__name__)
        from vetta_probe import _torch_hooks
        _torch_hooks.stop()
        c10d = torch.distributed.distributed_c10d
        places = [
            torch.autograd.backward, torch.utils.data.DataLoader.__iter__, ddp.__init__,
            torch.amp.GradScaler.step, torch.distributed.all_reduce, c10d.barrier,
            torch._C._distributed_c10d.Work.wait, torch.distributed.init_process_group,
        ]
        files = [place.__code__.co_filename for place in places]
        print({file.rpartition("packages/")[2].split("/")[0] for file in files})
        print(torch.optim.optimizer._pre, torch.optim.optimizer._post)
        """
    )
    assert done.stdout.splitlines() == [
        "torch SourceFileLoader True",
        "False []",
        "all_reduce forward",
        "{'torch'}",
        "{} {}",
    ], done.stderr


def site_of_the_user(injected: Injected, text: str) -> str:
    """A PYTHONPATH with a sitecustomize behind ours."""
    folder = injected.folder / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text)
    return os.pathsep.join([INJECT, str(folder), str(injected.folder / "packages")])


def test_the_next_sitecustomize_runs(injected: Injected) -> None:
    path = site_of_the_user(injected, "print('the user was here')\nMINE = 7\n")
    code = LOOP + "\n    import sitecustomize\n    print(sitecustomize.MINE)"
    done = injected.go(code, PYTHONPATH=path)
    assert done.stdout == "the user was here\n7\n", done.stderr
    assert len(injected.ring().steps) == 6


def test_a_sitecustomize_that_fails_is_pythons_to_report(injected: Injected) -> None:
    path = site_of_the_user(injected, "raise RuntimeError('broken site')\n")
    done = injected.go(LOOP, PYTHONPATH=path)
    assert done.returncode == 0 and "broken site" in done.stderr
    assert len(injected.ring().steps) == 6


def test_a_torch_that_cannot_be_imported_fails_as_always(injected: Injected) -> None:
    torch = injected.folder / "packages" / "torch"
    (torch / "__init__.py").write_text("raise OSError('libcudart.so')")
    done = injected.go("import torch")
    assert done.returncode == 1 and "OSError: libcudart.so" in done.stderr
    assert "vetta" not in done.stderr.splitlines()[-1]


def test_no_torch_at_all(injected: Injected) -> None:
    done = injected.go(
        """
        import sys
        sys.path[:] = [folder for folder in sys.path if "packages" not in folder]
        try:
            import torch
        except ImportError as error:
            print(error)
        """
    )
    assert done.stdout == "No module named 'torch'\n", done.stderr


def test_a_torch_without_the_places_is_left_alone(injected: Injected) -> None:
    (injected.folder / "packages" / "torch" / "__init__.py").write_text("x = 1")
    done = injected.go("import torch\nprint(torch.x)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_marks_by_hand_stand_before_injected_ones(injected: Injected) -> None:
    injected.go(
        """
        import torch
        import vetta_probe as probe
        optimizer = torch.optim.SGD([])
        for i, batch in enumerate(torch.utils.data.DataLoader(6)):
            with probe.step(i):
                torch.Tensor().backward()
                optimizer.step()
        """
    )
    marks = [(step.step, step.source) for step in injected.ring().steps]
    assert marks == [(i, "hand") for i in range(6)]


def test_spawned_and_forked_ranks(injected: Injected) -> None:
    for method in ("spawn", "fork"):
        injected.rings = injected.folder / method
        done = injected.go(
            f"""
            import multiprocessing, os
            def train(rank):
                os.environ["RANK"] = str(rank)
                import torch
                optimizer = torch.optim.SGD([])
                for batch in torch.utils.data.DataLoader(4):
                    torch.Tensor().backward()
                    optimizer.step()
            if __name__ == "__main__":
                import torch
                context = multiprocessing.get_context("{method}")
                workers = [context.Process(target=train, args=(i,)) for i in range(2)]
                for w in workers: w.start()
                for w in workers: w.join()
            """
        )
        assert done.returncode == 0, done.stderr
        assert [(ring.rank, len(ring.steps)) for ring in injected.all_rings()] == [(0, 4), (1, 4)]
        assert all([note.kind for note in ring.notes] == ["ended"] for ring in injected.all_rings())


def pythons() -> List[str]:
    """Every Python 3.8 or later on this machine."""
    pyenv = os.environ.get("PYENV_ROOT", "/root/.pyenv")
    found: Dict[int, str] = {}
    for place in ("/usr/bin", "/usr/local/bin", pyenv + "/versions/*/bin"):
        for path in glob.glob(place + "/python3.*[0-9]"):
            version = path.rpartition("python3.")[2]
            if version.isdigit() and int(version) >= 8:
                found.setdefault(int(version), path)
    return [found[version] for version in sorted(found)]


@pytest.mark.parametrize("python", pythons())
def test_every_python_that_is_here(injected: Injected, python: str) -> None:
    done = injected.go(LOOP, python=python)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(injected.ring().steps) == 6
    by_hand = """
    import vetta_probe as probe
    for i in probe.wrap(range(3)):
        with probe.step(i, samples=2) as s, s.phase("forward"):
            probe.loss(i)
    raise ValueError("the end")
    """
    injected.rings = injected.folder / "hand"
    injected.go(by_hand, python=python, VETTA_PROBE="", PYTHONPATH=str(PYTHON_DIR))
    ring = injected.ring()
    assert [step.loss for step in ring.steps] == [0, 1, 2]
    assert ring.notes[0].text.startswith("ValueError: the end")
