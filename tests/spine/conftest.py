# SPDX-License-Identifier: Apache-2.0
"""Vetta on a real Slurm, for the promises that only the whole can keep."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "lib"), str(ROOT / "tests" / "spine")]

from vetta_stack import Stack  # noqa: E402


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Four nodes, agents, plugin and vettad; a fresh one for each file of tests."""
    if os.geteuid() != 0:
        pytest.skip("a dev cluster needs root")
    folder = Path(tempfile.mkdtemp(prefix="vs-", dir="/tmp"))
    stack = Stack(folder, nodes=4)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()
        keep = os.environ.get("VETTA_KEEP")
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
