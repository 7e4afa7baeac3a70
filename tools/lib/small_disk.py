# SPDX-License-Identifier: Apache-2.0
"""A file system of its own that can be filled: what happens when there is no room."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mounts it there; the test is skipped where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a file system: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(file: Path) -> None:
    """Makes the file as large as its file system lets it."""
    with open(file, "ab", buffering=0) as out:
        for piece in (1 << 16, 1):
            try:
                while True:
                    out.write(os.urandom(piece))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
