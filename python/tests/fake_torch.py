# SPDX-License-Identifier: Apache-2.0
"""Writes a package `torch` that has the places of PyTorch 2.x that the probe hooks, and nothing
else.

It mimics the interfaces of 2.x from their documentation: global step hooks of the optimizers, two
GradScalers, `_BaseDataLoaderIter`, DistributedDataParallel, `distributed_c10d`, and `Work`. No
PyTorch 2 is on the machine.
"""

from __future__ import annotations

from pathlib import Path

FILES = {
    "__init__.py": """
        import time
        from . import _C, autograd, utils, optim, nn, amp, cuda, distributed
        from .tensor import Tensor
        __version__ = "2.9.0"
        GRAD = True
        def is_grad_enabled(): return GRAD
        def set_grad(value):
            global GRAD
            GRAD = value
    """,
    "tensor.py": """
        import time
        class Tensor:
            is_cpu = True
            def __init__(self, value=0.5, shape=(8, 3), parameters=(), waits=0.0):
                self.value, self.shape = value, shape
                self.parameters, self.waits = parameters, waits
            def item(self): return self.value
            def backward(self):
                import torch
                torch.autograd.backward(self)
        class Parameter:
            requires_grad = True
            _backward_hooks = None
            def register_hook(self, hook):
                if self._backward_hooks is None: self._backward_hooks = {}
                hooks, key = self._backward_hooks, object()
                hooks[key] = hook
                class Handle:
                    def remove(_): hooks.pop(key)
                return Handle()
    """,
    "autograd/__init__.py": """
        import time
        def backward(tensors, grad_tensors=None):
            for parameter in reversed(tensors.parameters):
                time.sleep(0.002)
                for hook in list((parameter._backward_hooks or {}).values()):
                    assert hook(None) is None
            time.sleep(tensors.waits)
    """,
    "utils/__init__.py": "from . import data, hooks",
    "utils/hooks.py": "def unserializable_hook(f): return f",
    "utils/data/__init__.py": "from .dataloader import DataLoader",
    "utils/data/dataloader.py": """
        import time
        from torch.tensor import Tensor
        class _BaseDataLoaderIter:
            def __init__(self, loader):
                self._left, self._auto_collation = loader.n, True
            def __iter__(self): return self
            def __next__(self):
                time.sleep(0.003)
                if not self._left: raise StopIteration
                self._left -= 1
                return {"x": Tensor(), "y": 1}
        class DataLoader:
            def __init__(self, n): self.n = n
            def __iter__(self): return _BaseDataLoaderIter(self)
    """,
    "optim/__init__.py": "from .optimizer import Optimizer, SGD",
    "optim/optimizer.py": """
        import functools, time
        _pre, _post = {}, {}
        class Handle:
            def __init__(self, hooks, key): self.hooks, self.key = hooks, key
            def remove(self): del self.hooks[self.key]
        def register_optimizer_step_pre_hook(hook):
            handle = Handle(_pre, object()); _pre[handle.key] = hook; return handle
        def register_optimizer_step_post_hook(hook):
            handle = Handle(_post, object()); _post[handle.key] = hook; return handle
        def profiled(func):
            @functools.wraps(func)
            def wrapper(self, *args, **kwargs):
                for hook in list(_pre.values()): assert hook(self, args, kwargs) is None
                out = func(self, *args, **kwargs)
                for hook in list(_post.values()): assert hook(self, args, kwargs) is None
                return out
            return wrapper
        class Optimizer:
            def __init__(self, params): self.fails = False
        class SGD(Optimizer):
            @profiled
            def step(self, closure=None):
                if self.fails: raise RuntimeError("step failed")
                if closure is not None: closure()
                time.sleep(0.001)
    """,
    "amp/__init__.py": """
        class GradScaler:
            skips = False
            def step(self, optimizer, *args, **kwargs):
                return None if self.skips else optimizer.step(*args, **kwargs)
    """,
    "cuda/__init__.py": "from . import amp",
    "cuda/amp/__init__.py": """
        import torch.amp
        class GradScaler(torch.amp.GradScaler): pass
    """,
    "nn/__init__.py": "from . import parallel",
    "nn/parallel/__init__.py": """
        import time
        class DistributedDataParallel:
            def __init__(self, parameters): self._parameters = parameters
            def parameters(self): return self._parameters
            def _sync_buffers(self): time.sleep(0.004)
            def forward(self, x):
                self._sync_buffers()
                time.sleep(0.006)
                return x
            def __call__(self, x): return self.forward(x)
    """,
    "_C/__init__.py": "from . import _distributed_c10d",
    "_C/_distributed_c10d.py": """
        import time
        class Work:
            def wait(self, timeout=None):
                time.sleep(0.005)
                return True
    """,
    "distributed/__init__.py": """
        from . import distributed_c10d
        from .distributed_c10d import *
        def is_available(): return True
        def is_initialized(): return distributed_c10d.up
        def get_rank(): return 3
        def get_world_size(): return 4
    """,
    "distributed/distributed_c10d.py": """
        import time
        from torch._C._distributed_c10d import Work
        up = False
        def init_process_group(*a, **k):
            global up
            up = True
        def destroy_process_group(group=None):
            global up
            up = False
        def all_reduce(tensor, op=None, group=None, async_op=False):
            work = Work()
            return work if async_op else work.wait() and None
        def barrier(*a, **k): return all_reduce(None)
    """,
}


def write(folder: Path) -> None:
    import textwrap

    for name, text in FILES.items():
        path = folder / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
