# SPDX-License-Identifier: Apache-2.0
"""Waits for the program to import torch, and hooks it then. Imports nothing heavy by itself."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional

_active: Optional[Any] = None  # the Hooks of this process, once torch is there


def install() -> None:
    """Hook torch as soon as the program imports it, or now if it has."""
    if "torch" in sys.modules:
        _hook(sys.modules["torch"])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def uninstall() -> None:
    """Take every hook out again."""
    global _active
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    if _active is not None:
        _active.uninstall()
        _active = None


class _Finder:
    """Finds torch by the finders after this one, and makes its loader call `_hook` when the module
    is complete."""

    def __init__(self) -> None:
        self._is_busy = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        if name != "torch" or self._is_busy:
            return None
        self._is_busy = True
        try:
            spec = importlib.util.find_spec(name)
            return self._prepared(spec)
        except Exception:
            return None
        finally:
            self._is_busy = False

    def _prepared(self, spec: Optional[ModuleSpec]) -> Optional[ModuleSpec]:
        loader: Any = spec.loader if spec is not None else None
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            try:
                del loader.exec_module  # the loader is as it was
            except AttributeError:
                pass
            execute(module)
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
            _hook(module)

        loader.exec_module = exec_module
        return spec


def _hook(torch: ModuleType) -> None:
    global _active
    if _active is not None:
        return
    try:
        from ._recorder import recorder
        from ._torch_hooks import Hooks
        from ._tracker import Tracker

        tracker = Tracker(recorder)
        hooks = Hooks(tracker)
        hooks.install(torch)
        recorder.before_end.append(tracker.flush)
        os.register_at_fork(after_in_child=tracker.reset)
        _active = hooks
    except Exception:
        pass  # the program must not notice
