# SPDX-License-Identifier: Apache-2.0
"""Runs when Python starts, where this folder stands on PYTHONPATH: `vetta probe exec` and `--probe`
put it there.

Does something only if VETTA_PROBE=1. Then runs the sitecustomize that would have run without this
one.
"""

import os
import sys


def _start() -> None:
    environment = os.environ
    if environment.get("VETTA_PROBE") != "1":
        return
    if not environment.get("VETTA_SOCKET") and not environment.get("VETTA_RING_DIR"):
        return  # nobody to tell
    try:
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        try:
            import vetta_probe  # noqa: F401  an installed one stands first
        except ImportError:
            sys.path.append(root)
        from vetta_probe import _import_hook

        _import_hook.install()
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
