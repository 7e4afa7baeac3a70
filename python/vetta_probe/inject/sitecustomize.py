# SPDX-License-Identifier: Apache-2.0
"""Runs when Python starts, where this folder stands on PYTHONPATH: `vetta probe exec` and `--probe`
put it there.

Does something only if VETTA_PROBE=1 and there is somebody to tell: waits for the program to import
torch, and hooks it then; imports nothing heavy before. In any case runs the sitecustomize that
would have run without this one.
"""

import os
import sys

_finders: "list[object]" = sys.meta_path  # type: ignore[assignment]


def _start() -> None:
    environment = os.environ
    if environment.get("VETTA_PROBE") != "1":
        return
    # In a job the agent's socket may be there without being named (vetta_probe._hello).
    if not any(
        environment.get(name) for name in ("VETTA_SOCKET", "VETTA_RING_DIR", "SLURM_JOB_ID")
    ):
        return
    try:
        if "torch" in sys.modules:
            _hook(sys.modules["torch"])
        else:
            _finders.insert(0, _Finder())
    except Exception:
        pass  # the program must not notice


class _Finder:
    """Finds torch by the finders after this one, and makes its loader call `_hook` when the module
    is complete."""

    def __init__(self) -> None:
        self._is_busy = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != "torch" or self._is_busy:
            return None
        self._is_busy = True
        try:
            from importlib.util import find_spec

            return self._prepared(find_spec(name))
        except Exception:
            return None
        finally:
            self._is_busy = False

    def _prepared(self, spec: object) -> object:
        loader = getattr(spec, "loader", None)
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: object) -> None:
            loader.__dict__.pop("exec_module", None)  # the loader is as it was
            execute(module)
            if self in _finders:
                _finders.remove(self)
            _hook(module)

        loader.exec_module = exec_module
        return spec


def _hook(torch: object) -> None:
    try:
        try:
            from vetta_probe import _torch_hooks  # an installed one stands first
        except ImportError:
            inject = os.path.dirname(os.path.abspath(__file__))
            sys.path.append(os.path.dirname(os.path.dirname(inject)))
            from vetta_probe import _torch_hooks
        _torch_hooks.start(torch)
    except Exception:
        pass  # the program must not notice


def _run_next() -> None:
    """The next sitecustomize on the path; what it raises is Python's to report, as always."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.realpath(os.path.dirname(os.path.abspath(__file__)))
    others = [folder for folder in sys.path if os.path.realpath(folder or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_start()
_run_next()
