# SPDX-License-Identifier: Apache-2.0
"""Waiting for something to become true, and asking a server on a unix socket."""

import http.client
import socket
import time
from collections.abc import Callable
from typing import Any


def wait_until(
    what: str, question: Callable[[], Any], seconds: float = 30, every: float = 0.05
) -> Any:
    """Asks until the answer is true and gives it back; TimeoutError names what did not come."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(every)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket, which the standard library has all parts of."""

    def __init__(self, path: str, seconds: float = 30) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
