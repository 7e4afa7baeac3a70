# SPDX-License-Identifier: Apache-2.0
"""An agent of a node in Python, frame by frame (src/model/wire.h): a second, independent writing of
the protocol, so that a change of the C++ side alone is noticed."""

import random
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any, Optional

NS = 1_000_000_000
HELLO, WELCOME, PING, BATCH, ACK, BURST = 1, 2, 3, 4, 5, 6


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def _list(items: list[bytes]) -> bytes:
    return struct.pack("<I", len(items)) + b"".join(items)


def _optional(form: str, value: Any) -> bytes:
    return b"\0" if value is None else b"\1" + struct.pack("<" + form, value)


def _now() -> int:
    return time.time_ns()


@dataclass
class Rank:
    """A registered rank, with the fields of model::Rank that tests care for."""

    job_id: int
    rank: int
    node: str
    world_size: int = 2
    step_id: str = "0"
    rank_id: int = field(default_factory=lambda: random.getrandbits(63) | 1)
    uid: int = 1000
    pid: int = 4242
    restart: int = 0
    start_ns: int = field(default_factory=_now)

    def encode(self) -> bytes:
        return (
            struct.pack("<QQ", self.rank_id, self.job_id)
            + _text(self.step_id)
            + struct.pack("<IIiiii", self.restart, 0, self.rank, 0, self.world_size, self.rank)
            + _text(self.node)
            + struct.pack("<Ii", self.uid, self.pid)
            + _text("")
            + struct.pack("<BBq", 2, 1, self.start_ns)
            + _optional("q", None)
            + _optional("i", None)
            + _optional("i", None)
            + struct.pack("<I", 0)
        )


def mark(
    sequence: int,
    step: int,
    start_ns: int,
    duration: float,
    data: float = 0.0,
    allreduce: float = 0.0,
) -> bytes:
    """One step; forward and backward share what is left."""
    rest = max(0.0, duration - data - allreduce)
    phases = [data, rest * 0.3, rest * 0.6, rest * 0.1, allreduce]
    return struct.pack(
        "<Qqqq5qddB",
        sequence,
        step,
        start_ns,
        int(duration * NS),
        *(int(phase * NS) for phase in phases),
        32.0,
        0.5,
        1,
    )


def rank_marks(rank_id: int, marks: list[bytes]) -> bytes:
    return struct.pack("<QQ", rank_id, 0) + _list(marks)


def rank_end(rank_id: int, exit_code: Optional[int], exit_signal: Optional[int]) -> bytes:
    return (
        struct.pack("<Qq", rank_id, _now())
        + _optional("i", exit_code)
        + _optional("i", exit_signal)
    )


def rank_sample(time_ns: int, cpu_seconds: float, rss_bytes: int) -> bytes:
    missing = _optional("Q", None)
    return (
        struct.pack("<q", time_ns)
        + _optional("d", cpu_seconds)
        + _optional("Q", rss_bytes)
        + missing * 6
        + _optional("I", 3)
        + _optional("I", 1)
        + _text("")
    )


def event(kind: int, rank: Rank, message: str, detail: str = "") -> bytes:
    """`kind` as in model::EventKind: 4 exception, 5 oom_kill, 6 signal, 7 hang."""
    return (
        struct.pack("<QqB", 0, _now(), kind)
        + b"\0"
        + _text(rank.node)
        + struct.pack("<iQ", rank.rank, rank.rank_id)
        + _optional("i", None)
        + _optional("i", None)
        + _text(message)
        + _text(detail)
        + _text("probe")
        + _text(f"{rank.rank_id}:{message}")
    )


class Refused(Exception):
    """The server did not take the connection; the text is its answer."""


class Agent:
    """One connection; frames that come in are kept in `frames`."""

    def __init__(self, address: Any, node: str, cluster: str, token: str = "") -> None:
        self.node = node
        self.cluster = cluster
        self.agent_id = random.getrandbits(63)
        self.sequence = 0
        self.frames: list[tuple[int, bytes]] = []
        self._buffer = b""
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
        else:
            self.socket = socket.socket(socket.AF_INET)
        self.socket.settimeout(10)
        self.socket.connect(address)
        self._upgrade(token)
        self.send(HELLO, self._hello())

    def _upgrade(self, token: str) -> None:
        lines = [
            "GET /agent/v1/connect HTTP/1.1",
            "Host: vettad",
            "Connection: Upgrade",
            "Upgrade: vetta-agent/1",
        ]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in self._buffer:
            piece = self.socket.recv(4096)
            if not piece:
                break
            self._buffer += piece
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        if b" 101 " not in head:
            raise Refused((head + self._buffer).decode())

    def _hello(self) -> bytes:
        return (
            struct.pack("<H", 1)
            + _text(self.cluster)
            + _text(self.node)
            + _text("0.1.0")
            + _text("boot")
            + struct.pack("<Qq??", self.agent_id, _now(), True, False)
            + _list([_text("no taskstats: needs CAP_NET_ADMIN")])
        )

    def send(self, kind: int, body: bytes) -> None:
        self.socket.sendall(struct.pack("<IB", len(body) + 1, kind) + body)

    def batch(
        self,
        ranks: Optional[list[Rank]] = None,
        ends: Optional[list[bytes]] = None,
        marks: Optional[list[bytes]] = None,
        samples: Optional[list[tuple[int, list[bytes]]]] = None,
        events: Optional[list[bytes]] = None,
    ) -> int:
        """Sends what there is and gives its sequence back."""
        self.sequence += 1
        body = struct.pack("<QQQ", self.agent_id, self.sequence, 0)
        body += _list([rank.encode() for rank in ranks or []])
        body += _list(ends or [])
        body += _list(marks or [])
        body += _list(
            [struct.pack("<Q", rank_id) + _list(items) for rank_id, items in samples or []]
        )
        body += _list([])
        body += _list(events or [])
        self.send(BATCH, body)
        return self.sequence

    def receive(self) -> tuple[int, bytes]:
        """The next frame: its kind and its body; EOFError when the server has hung up."""
        while len(self._buffer) < 4 or len(self._buffer) < 4 + self._size():
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError("the server closed the connection")
            self._buffer += piece
        size = self._size()
        frame = self._buffer[4 : 4 + size]
        self._buffer = self._buffer[4 + size :]
        self.frames.append((frame[0], frame[1:]))
        return self.frames[-1]

    def _size(self) -> int:
        return int(struct.unpack_from("<I", self._buffer)[0])

    def wait_for(self, kind: int) -> bytes:
        while True:
            got, body = self.receive()
            if got == kind:
                return body

    def wait_ack(self, sequence: int) -> list[int]:
        """Until everything up to there is acknowledged; gives the ranks that were not placed."""
        while True:
            body = self.wait_for(ACK)
            acked, count = struct.unpack_from("<QI", body)
            if acked >= sequence:
                return list(struct.unpack_from(f"<{count}Q", body, 12))

    def wait_burst(self) -> list[int]:
        body = self.wait_for(BURST)
        count = struct.unpack_from("<I", body)[0]
        return list(struct.unpack_from(f"<{count}Q", body, 4))

    def close(self) -> None:
        self.socket.close()
