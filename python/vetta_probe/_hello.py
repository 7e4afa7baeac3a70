# SPDX-License-Identifier: Apache-2.0
"""The probe says hello to vetta-agent and gets its ring. Nothing here ever blocks.

A hello is sent when a step begins and its answer is looked for when steps end: marks wait in memory
in between (`Recorder`). An agent that is absent, stopped, full or hostile costs a few microseconds
a try, and there is one try every 10 s at most. At the end of the program what is left of 200 ms may
be spent waiting.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import time
from typing import Mapping, Optional, Tuple

from ._ring import Identity, RingWriter, create

REPLY_SECONDS = 0.2
RETRY_SECONDS = 10.0
REPLY_BYTES_MAX = 8192


def agent_socket(environment: Mapping[str, str]) -> str:
    """The agent's socket of this node, if one is known or there: `VETTA_SOCKET`, which the plugin
    sets; else, in a job, `${VETTA_RUNDIR:-/run/vetta}/$SLURMD_NODENAME/probe.sock`. Empty: none."""
    path = environment.get("VETTA_SOCKET", "")
    node = environment.get("SLURMD_NODENAME", "")
    if path or not node or not environment.get("SLURM_JOB_ID"):
        return path
    path = "%s/%s/probe.sock" % (environment.get("VETTA_RUNDIR") or "/run/vetta", node)
    return path if os.path.exists(path) else ""


class Link:
    """The way to a ring: an agent's socket (`agent_socket`), else a folder (`VETTA_RING_DIR`), else
    nothing."""

    def __init__(self, socket_path: str, ring_dir: str) -> None:
        self._socket_path = socket_path
        self._ring_dir = ring_dir
        self._socket: Optional[socket.socket] = None
        self._deadline = 0.0  # of the answer that is due
        self._next_try = 0.0
        self.last_error = ""

    @property
    def is_possible(self) -> bool:
        return bool(self._socket_path or self._ring_dir)

    @property
    def is_asking(self) -> bool:
        """A hello was sent, and its answer has not been taken."""
        return self._socket is not None

    def begin(self, who: Identity, source: str) -> Optional[RingWriter]:
        """Start a try if one is due. Returns the ring when a folder gives it at once."""
        now = time.monotonic()
        if self._socket is not None or now < self._next_try:
            return None
        self._next_try = now + RETRY_SECONDS
        if self._socket_path and self._say_hello(who, source):
            self._deadline = now + REPLY_SECONDS
            return None
        return self._own_ring(who)

    def poll(self, who: Identity, wait: bool = False) -> Optional[RingWriter]:
        """The ring, if the agent's answer has come. With `wait`, waits until the answer's time is
        over."""
        if self._socket is None:
            return None
        left = max(0.0, self._deadline - time.monotonic())
        poller = (
            select.poll()
        )  # not select(): a training process may hold more than 1,024 descriptors
        poller.register(self._socket, select.POLLIN)
        ready = poller.poll(left * 1000 if wait else 0)
        if not ready and left > 0 and not wait:
            return None
        descriptor, self.last_error = _receive(self._socket) if ready else (-1, "no answer")
        self.drop()
        if descriptor >= 0:
            try:
                return RingWriter(descriptor, who)
            except Exception as error:
                self.last_error = str(error)
        return self._own_ring(who)

    def drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _say_hello(self, who: Identity, source: str) -> bool:
        hello = {
            "vetta": 1,
            "pid": who.pid,
            "rank": who.rank,
            "local_rank": who.local_rank,
            "world_size": who.world_size,
            "elastic_restart": who.elastic_restart,
            "job": who.job,
            "step": who.step,
            "task": "" if who.task < 0 else str(who.task),
            "source": source,
        }
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            link.connect(self._socket_path)
            link.send(json.dumps(hello).encode(), socket.MSG_NOSIGNAL)
        except OSError as error:
            link.close()
            self.last_error = "%s: %s" % (self._socket_path, error)
            return False
        self._socket = link
        return True

    def _own_ring(self, who: Identity) -> Optional[RingWriter]:
        if not self._ring_dir:
            return None
        try:
            os.makedirs(self._ring_dir, mode=0o700, exist_ok=True)
            return RingWriter(create(self._ring_dir, who), who)
        except Exception as error:
            self.last_error = "%s: %s" % (self._ring_dir, error)
            return None


def _receive(link: socket.socket) -> Tuple[int, str]:
    """(descriptor, "") or (-1, why). Every descriptor but the first is closed: the other side is
    not trusted."""
    descriptors = array.array("i")
    try:
        text, ancillary, _, _ = link.recvmsg(
            REPLY_BYTES_MAX, socket.CMSG_SPACE(16 * descriptors.itemsize), socket.MSG_CMSG_CLOEXEC
        )
    except OSError as error:
        return -1, str(error)
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    error_text = _judge(text, len(descriptors))
    keep = 1 if not error_text else 0
    for extra in descriptors[keep:]:
        os.close(extra)
    return (descriptors[0], "") if keep else (-1, error_text)


def _judge(text: bytes, descriptors: int) -> str:
    """Why an answer cannot be used; empty if it can."""
    try:
        reply = json.loads(text.decode("utf-8"))
        if not isinstance(reply, dict) or reply.get("vetta") != 1:
            return "the agent's answer is not of version 1"
    except (ValueError, RecursionError):
        return "the agent's answer is not JSON"
    if "error" in reply:
        return str(reply["error"])[:500]
    return "" if descriptors else "the agent's answer has no ring"
