# SPDX-License-Identifier: Apache-2.0
"""Runs programs that use the probe, each in an interpreter of its own, and an agent's side of the
hello to talk to."""

from __future__ import annotations

import array
import glob
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

import pytest

PYTHON_DIR = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PYTHON_DIR))

from vetta_probe._ring import HEADER_BYTES, MAKER_HEADER, SLOT_BYTES  # noqa: E402
from vetta_probe.dump import Ring, read_ring  # noqa: E402


def clean_environment(**extra: str) -> Dict[str, str]:
    """The tests' environment without anything that a launcher or Vetta could have put there."""
    foreign = ("VETTA_", "SLURM_", "OMPI_", "PMI", "TORCHELASTIC_")
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "PYTHONPATH")
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(foreign) and key not in names
    }
    environment["PYTHONPATH"] = str(PYTHON_DIR)
    environment.update(extra)
    return environment


class Program:
    """A training program given as text, and the rings that it left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rings = folder / "rings"

    def start(
        self,
        code: str,
        python: str = sys.executable,
        options: Optional[List[str]] = None,
        **env: str,
    ) -> "subprocess.Popen[str]":
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent(code))
        env.setdefault("VETTA_RING_DIR", str(self.rings))
        return subprocess.Popen(
            [python, *(options or []), str(path)],
            env=clean_environment(**{key: value for key, value in env.items() if value}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        code: str,
        python: str = sys.executable,
        options: Optional[List[str]] = None,
        **env: str,
    ) -> "subprocess.CompletedProcess[str]":
        process = self.start(code, python, options, **env)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def all_rings(self) -> List[Ring]:
        return sorted(
            (read_ring(path) for path in glob.glob(str(self.rings / "*.ring"))),
            key=lambda ring: (ring.rank, ring.pid),
        )

    def ring(self) -> Ring:
        (only,) = self.all_rings()
        return only


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


Answer = Callable[["FakeAgent", socket.socket], None]


class FakeAgent:
    """vetta-agent's probe socket: answers each hello by `answer(hello)`, a list of (bytes,
    descriptors)."""

    def __init__(self, folder: Path, slots: int = 64) -> None:
        self.path = str(folder / "probe.sock")
        self.ring_path = str(folder / "agent.ring")
        self.slots = slots
        self.hellos: List[Dict[str, object]] = []
        self.answer: Answer = FakeAgent.send_ring
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link:
                self.hellos.append(json.loads(link.recv(8192)))
                self.answer(self, link)

    def make_ring(self) -> int:
        descriptor = os.open(self.ring_path, os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(descriptor, 0, HEADER_BYTES + self.slots * SLOT_BYTES)
        os.pwrite(descriptor, MAKER_HEADER.pack(b"VETTARNG", 1, SLOT_BYTES, self.slots, 77), 0)
        return descriptor

    def send_ring(self, link: socket.socket) -> None:
        descriptor = self.make_ring()
        reply = {
            "vetta": 1,
            "ring": self.ring_path,
            "bytes": HEADER_BYTES + self.slots * SLOT_BYTES,
        }
        send_with_descriptors(link, json.dumps(reply).encode(), [descriptor])
        os.close(descriptor)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


def send_with_descriptors(link: socket.socket, text: bytes, descriptors: List[int]) -> None:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
    link.sendmsg([text], [rights] if descriptors else [])


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[FakeAgent]:
    fake = FakeAgent(tmp_path)
    yield fake
    fake.close()
