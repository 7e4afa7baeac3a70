# SPDX-License-Identifier: Apache-2.0
"""A vettad that keeps what agents send in memory: the frames of src/model/wire.h, read by hand, so
that a mistake in the product's own codec shows. Standard library only; one thread a connection."""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any, Callable

HELLO, WELCOME, PING, BATCH, ACK, BURST = 1, 2, 3, 4, 5, 6


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> Any:
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self) -> str:
        size = self.take("I")
        raw = self.data[self.at : self.at + size]
        assert len(raw) == size
        self.at += size
        return raw.decode()

    def optional(self, form: str) -> Any:
        return self.take(form) if self.take("B") else None

    def many(self, one: Callable[[], Any]) -> list[Any]:
        return [one() for _ in range(self.take("I"))]

    def fields(self, spec: list[tuple[str, str]]) -> dict[str, Any]:
        """Forms: a struct letter, `?x` an optional, `s` a text."""
        out: dict[str, Any] = {}
        for name, form in spec:
            if form == "s":
                out[name] = self.text()
            elif form.startswith("?"):
                out[name] = self.optional(form[1])
            else:
                out[name] = self.take(form)
        return out

    def rank(self) -> dict[str, Any]:
        spec = [("rank_id", "Q"), ("job_id", "Q"), ("step_id", "s"), ("slurm_restart", "I")]
        spec += [("elastic_restart", "I"), ("rank", "i"), ("local_rank", "i"), ("world_size", "i")]
        spec += [("task", "i"), ("node", "s"), ("uid", "I"), ("pid", "i"), ("devices", "s")]
        spec += [("source", "B"), ("is_probed", "B"), ("start", "q"), ("end", "?q")]
        spec += [("exit_code", "?i"), ("exit_signal", "?i"), ("incarnation", "I")]
        return self.fields(spec)

    def end(self) -> dict[str, Any]:
        spec = [("rank_id", "Q"), ("end", "q"), ("exit_code", "?i"), ("exit_signal", "?i")]
        return self.fields(spec)

    def mark(self) -> dict[str, Any]:
        out = self.fields([("sequence", "Q"), ("step", "q"), ("start", "q"), ("duration", "q")])
        out["phases"] = [self.take("q") for _ in range(5)]
        return {**out, **self.fields([("samples", "d"), ("loss", "d"), ("source", "B")])}

    def marks(self) -> dict[str, Any]:
        out = self.fields([("rank_id", "Q"), ("overwritten", "Q")])
        return {**out, "marks": self.many(self.mark)}

    def rank_samples(self) -> dict[str, Any]:
        spec = [("time", "q"), ("cpu_seconds", "?d")]
        names = "rss_bytes minor_faults major_faults read_bytes write_bytes"
        spec += [(name, "?Q") for name in names.split()]
        spec += [("voluntary_switches", "?Q"), ("involuntary_switches", "?Q")]
        spec += [("threads", "?I"), ("processes", "?I"), ("gap", "s")]
        return {"rank_id": self.take("Q"), "samples": self.many(lambda: self.fields(spec))}

    def node_sample(self) -> dict[str, Any]:
        spec = [("time", "q"), ("cpu_seconds_busy", "?d"), ("cpu_seconds_total", "?d")]
        spec += [("load_1m", "?d"), ("memory_total_bytes", "?Q"), ("memory_available_bytes", "?Q")]
        spec += [("network_receive_bytes", "?Q"), ("network_transmit_bytes", "?Q")]
        spec += [("pressure_cpu", "?d"), ("pressure_memory", "?d"), ("pressure_io", "?d")]
        return self.fields(spec + [("shared_host", "B"), ("gap", "s")])

    def event(self) -> dict[str, Any]:
        out = self.fields([("id", "Q"), ("time", "q"), ("kind", "B")])
        if self.take("B"):
            out["attempt"] = self.fields([("cluster", "s"), ("job_id", "Q"), ("submit", "q")])
        spec = [("node", "s"), ("rank", "i"), ("rank_id", "Q"), ("exit_code", "?i")]
        spec += [("exit_signal", "?i"), ("message", "s"), ("detail", "s"), ("source", "s")]
        return {**out, **self.fields(spec + [("dedup", "s")])}

    def batch(self) -> dict[str, Any]:
        out = self.fields([("agent_id", "Q"), ("sequence", "Q"), ("dropped_batches", "Q")])
        out["ranks"] = self.many(self.rank)
        out["ends"] = self.many(self.end)
        out["marks"] = self.many(self.marks)
        out["rank_samples"] = self.many(self.rank_samples)
        out["node_samples"] = self.many(self.node_sample)
        out["events"] = self.many(self.event)
        assert self.at == len(self.data)
        return out

    def hello(self) -> dict[str, Any]:
        spec = [("protocol", "H"), ("cluster", "s"), ("node", "s"), ("version", "s")]
        spec += [("boot_id", "s"), ("agent_id", "Q"), ("wall", "q"), ("is_root", "B")]
        return {**self.fields(spec + [("shared_host", "B")]), "gaps": self.many(self.text)}


def frame(kind: int, body: bytes) -> bytes:
    return struct.pack("<IB", len(body) + 1, kind) + body


class FakeVettad:
    """`path` is its unix socket. What it holds outlives stop() and start(), as a disk would."""

    def __init__(self, path: Path, token: str = "secret") -> None:
        self.path = path
        self.token = token
        self.acks = True
        self.answers = True  # else it reads, but keeps nothing and says nothing
        self.unplaced: set[int] = set()
        self.clock_ahead_ns = 0
        self.lock = threading.Lock()
        self.hellos: list[dict[str, Any]] = []
        self.refused = 0
        self.seen: set[tuple[int, int]] = set()  # agent id, sequence
        self.repeated = 0
        self.ranks: dict[int, dict[str, Any]] = {}
        self.ends: dict[int, dict[str, Any]] = {}
        self.marks: dict[int, dict[int, dict[str, Any]]] = {}
        self.overwritten: dict[int, int] = {}
        self.rank_samples: dict[int, list[dict[str, Any]]] = {}
        self.node_samples: list[dict[str, Any]] = []
        self.events: dict[str, dict[str, Any]] = {}
        self.dropped = 0
        self.batches: list[dict[str, Any]] = []
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()

    def start(self) -> FakeVettad:
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return self

    def stop(self) -> None:
        """As kill -9: connections break, nothing more is acknowledged."""
        assert self._listener is not None
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.path.unlink(missing_ok=True)
        with self.lock:
            for link in self._open:
                link.shutdown(socket.SHUT_RDWR)

    def burst(self, job_ids: list[int], seconds: float) -> None:
        until = time.time_ns() + self.clock_ahead_ns + int(seconds * 1e9)
        body = struct.pack("<I", len(job_ids)) + b"".join(struct.pack("<Q", j) for j in job_ids)
        self._tell_all(frame(BURST, body + struct.pack("<q", until)))

    def _tell_all(self, data: bytes) -> None:
        with self.lock:
            for link in self._open:
                link.sendall(data)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        try:
            data = b""
            while b"\r\n\r\n" not in data:
                piece = link.recv(4096)
                if not piece:
                    return
                data += piece
            head, _, data = data.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            assert lines[0] == "GET /agent/v1/connect HTTP/1.1", lines
            assert "Upgrade: vetta-agent/1" in lines and "Connection: Upgrade" in lines
            if f"Authorization: Bearer {self.token}" not in lines:
                self.refused += 1
                link.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
                return
            link.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                b"Upgrade: vetta-agent/1\r\n\r\n"
            )
            with self.lock:
                self._open.add(link)
            self._frames(link, data)
        except OSError:
            pass
        finally:
            with self.lock:
                self._open.discard(link)
            link.close()

    def _frames(self, link: socket.socket, data: bytes) -> None:
        while True:
            while len(data) < 4 or len(data) < 4 + struct.unpack_from("<I", data)[0]:
                piece = link.recv(1 << 16)
                if not piece:
                    return
                data += piece
            size = struct.unpack_from("<I", data)[0]
            kind, reader = data[4], Reader(data[5 : 4 + size])
            data = data[4 + size :]
            if not self.answers:
                continue
            with self.lock:
                link.sendall(self._take(kind, reader))

    def _take(self, kind: int, reader: Reader) -> bytes:
        wall = time.time_ns() + self.clock_ahead_ns
        if kind == HELLO:
            self.hellos.append(reader.hello())
            return frame(WELCOME, struct.pack("<Hqq", 1, wall, 0))
        if kind == PING:
            return frame(PING, struct.pack("<qq", reader.take("q"), wall))
        assert kind == BATCH
        batch = reader.batch()
        if not self.acks:
            return b""
        unplaced = self._keep(batch)
        body = struct.pack("<QI", batch["sequence"], len(unplaced))
        return frame(ACK, body + b"".join(struct.pack("<Q", each) for each in unplaced))

    def _keep(self, batch: dict[str, Any]) -> list[int]:
        key = (batch["agent_id"], batch["sequence"])
        if key in self.seen:
            self.repeated += 1
            return []
        self.seen.add(key)
        self.batches.append(batch)
        self.dropped = batch["dropped_batches"]
        for rank in batch["ranks"]:
            self.ranks[rank["rank_id"]] = rank
        for end in batch["ends"]:
            if end["rank_id"] not in self.unplaced:
                self.ends[end["rank_id"]] = end
        for marks in batch["marks"]:
            if marks["rank_id"] in self.unplaced:
                continue
            kept = self.marks.setdefault(marks["rank_id"], {})
            for mark in marks["marks"]:
                kept.setdefault(mark["sequence"], mark)
            self.overwritten[marks["rank_id"]] = marks["overwritten"]
        for samples in batch["rank_samples"]:
            self.rank_samples.setdefault(samples["rank_id"], []).extend(samples["samples"])
        self.node_samples += batch["node_samples"]
        for event in batch["events"]:
            self.events.setdefault(event["dedup"], event)
        told = [each["rank_id"] for each in batch["ranks"] + batch["marks"] + batch["ends"]]
        return sorted(self.unplaced.intersection(told))
