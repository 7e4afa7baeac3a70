# SPDX-License-Identifier: Apache-2.0
"""The ring of a rank: a mapped file with one writer (here) and one reader (vetta-agent).

The format is docs/internals/agent-protocol.md, section 3. A mark is safe once its slot is written:
it lives in the page cache of the file, so that the process may be killed at any moment afterwards.
Not thread-safe: the recorder holds a lock around every call.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
import sys
import time
import zlib
from typing import Any, List, NamedTuple, Sequence, Tuple

MAGIC = b"VETTARNG"
VERSION = 1
HEADER_BYTES = 4096
SLOT_BYTES = 128
DEFAULT_SLOTS = 8192
SLOTS_MAX = 1 << 20

KIND_STEP, KIND_NOTE, KIND_CONTINUATION = 1, 2, 3
NOTE_EXCEPTION, NOTE_ENDED, NOTE_FAULT = 1, 2, 3
SOURCE_HAND, SOURCE_INJECTED = 1, 2
PHASES = ("data", "forward", "backward", "optimizer", "allreduce")
MISSING = -1
NOTE_TEXT_BYTES = 92
CONTINUATIONS_MAX = 64

MAKER_HEADER = struct.Struct("<8sIIQQ")  # magic, version, slot bytes, slots, rank_id
WRITER_HEADER = struct.Struct("<iiii")  # at 48: pid, rank, local_rank, world_size
JOB_HEADER = struct.Struct(
    "<QII16s16sIIi"
)  # at 64: start_ticks, uid, closed, job, step, restart, elastic, task
NOW = struct.Struct("<qQq")  # at 128: step, phase, CLOCK_REALTIME of entering it
STEP_BODY = struct.Struct("<QqqqqqqqqqddI12x")  # at 16 of a slot
NOTE_BODY = struct.Struct("<QHHq92s")  # at 16 of a slot: 20 + 92 bytes
SLOT_HEAD = struct.Struct("<QII")  # sequence, kind, crc

NOW_AT = 128
BETWEEN_STEPS = -1
_WRITTEN, _READ = 4, 5  # indices of the header's u64
_CLOSED = 19  # index of the header's u32
_ELASTIC = 29


class Identity(NamedTuple):
    """Who this process is. -1 and "" mean unknown."""

    pid: int
    rank: int
    local_rank: int
    world_size: int
    elastic_restart: int
    slurm_restart: int
    job: str
    step: str
    task: int


class RingError(Exception):
    """A ring that cannot be used; the text says why."""


def start_ticks(pid: int) -> int:
    """Field 22 of /proc/<pid>/stat; 0 if it cannot be read."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def create(folder: str, who: Identity, slots: int = DEFAULT_SLOTS) -> int:
    """Make `<folder>/<rank>-<pid>.ring` and return its descriptor. The file appears complete or not
    at all."""
    path = os.path.join(folder, "%d-%d.ring" % (who.rank, who.pid))
    partial = "%s.%x.part" % (path, time.monotonic_ns())
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, HEADER_BYTES + slots * SLOT_BYTES)
        rank_id = int.from_bytes(os.urandom(8), "little") or 1
        header = bytearray(HEADER_BYTES)
        MAKER_HEADER.pack_into(header, 0, MAGIC, VERSION, SLOT_BYTES, slots, rank_id)
        WRITER_HEADER.pack_into(header, 48, who.pid, who.rank, who.local_rank, who.world_size)
        JOB_HEADER.pack_into(
            header,
            64,
            start_ticks(who.pid),
            os.getuid(),
            0,
            who.job.encode()[:15],
            who.step.encode()[:15],
            who.slurm_restart & 0xFFFFFFFF,
            who.elastic_restart & 0xFFFFFFFF,
            who.task,
        )
        os.pwrite(descriptor, header, 0)
        os.rename(partial, path)
    except BaseException:
        os.close(descriptor)
        try:
            os.unlink(partial)
        except OSError:
            pass
        raise
    return descriptor


class RingWriter:
    """Writes marks and notes into a ring. Takes the descriptor over, also when it raises."""

    def __init__(self, descriptor: int, who: Identity) -> None:
        try:
            self._map, self.slots = _map_ring(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        # show(step, phase, real_ns): where the rank is from now on, in this step (or BETWEEN_STEPS)
        # and in this phase (0: in none, else 1 + its index in PHASES). A reader may see it
        # half-written, until it looks again. No method, so that a phase costs one call less.
        self.show = functools.partial(NOW.pack_into, self._map, NOW_AT)
        self._bytes = memoryview(self._map)
        self._u64 = self._bytes[:HEADER_BYTES].cast("Q")
        self._u32 = self._bytes[:HEADER_BYTES].cast("I")
        self.rank_id = self._u64[3]
        self.sequence = self._u64[_WRITTEN]
        self._slot = bytearray(SLOT_BYTES)
        self._slot_body = memoryview(self._slot)[16:]
        WRITER_HEADER.pack_into(self._map, 48, who.pid, who.rank, who.local_rank, who.world_size)
        self._u32[_ELASTIC] = who.elastic_restart & 0xFFFFFFFF
        self._u32[_CLOSED] = 0

    def write_step(
        self,
        step: int,
        start_real: int,
        start_mono: int,
        duration: int,
        phases: Sequence[int],
        samples: float,
        loss: float,
        source: int,
        # Bound once, so that the loop pays no global look-ups:
        _pack: Any = STEP_BODY.pack_into,
        _head: Any = SLOT_HEAD.pack_into,
        _crc: Any = zlib.crc32,
    ) -> None:
        sequence = self.sequence + 1
        slot = self._slot
        _pack(
            slot,
            16,
            sequence,
            step,
            start_real,
            start_mono,
            duration,
            *phases,
            samples,
            loss,
            source,
        )
        _head(slot, 0, sequence, KIND_STEP, _crc(self._slot_body))
        at = HEADER_BYTES + (sequence - 1) % self.slots * SLOT_BYTES
        self._bytes[at : at + SLOT_BYTES] = slot
        self._u64[_WRITTEN] = sequence
        self.sequence = sequence

    def write_note(self, kind: int, text: str, real_ns: int = 0) -> None:
        """A note and its continuations. `written` moves once, so that a reader sees the note whole
        or not yet."""
        chunks = split_text(text, min(CONTINUATIONS_MAX + 1, self.slots))
        sequence = self.sequence
        for index, chunk in enumerate(chunks):
            sequence += 1
            slot_kind = KIND_CONTINUATION if index else KIND_NOTE
            when = 0 if index else real_ns
            NOTE_BODY.pack_into(self._slot, 16, sequence, kind, len(chunk), when, chunk)
            SLOT_HEAD.pack_into(self._slot, 0, sequence, slot_kind, zlib.crc32(self._slot_body))
            at = HEADER_BYTES + (sequence - 1) % self.slots * SLOT_BYTES
            self._bytes[at : at + SLOT_BYTES] = self._slot
        self._u64[_WRITTEN] = sequence
        self.sequence = sequence

    @property
    def is_lost(self) -> bool:
        """Whether the file has been removed under us: what is written now, nobody will ever
        read."""
        return os.fstat(self._descriptor).st_nlink == 0

    def close(self) -> None:
        """Say that the writer went on purpose, and let the mapping go."""
        self._u32[_CLOSED] = 1
        self.abandon()

    def abandon(self) -> None:
        """Let the mapping go without touching the ring: what a forked child does with its
        parent's."""
        self._slot_body.release()
        self._u64.release()
        self._u32.release()
        self._bytes.release()
        self._map.close()
        os.close(self._descriptor)


def split_text(text: str, chunks_max: int) -> List[bytes]:
    """UTF-8 pieces of at most 92 bytes, cut between characters; what does not fit is left out."""
    data = text.encode("utf-8", "replace")
    chunks: List[bytes] = []
    at = 0
    while at < len(data) and len(chunks) < chunks_max:
        end = min(at + NOTE_TEXT_BYTES, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        chunks.append(data[at:end])
        at = end
    return chunks or [b""]


def _map_ring(descriptor: int) -> Tuple[mmap.mmap, int]:
    if sys.byteorder != "little":
        raise RingError("a ring is little-endian and this machine is not")
    status = os.fstat(descriptor)
    header = os.pread(descriptor, HEADER_BYTES, 0)
    if len(header) < HEADER_BYTES:
        raise RingError("the ring is %d bytes long, shorter than its header" % len(header))
    magic, version, slot_bytes, slots, _ = MAKER_HEADER.unpack_from(header, 0)
    if magic != MAGIC or version != VERSION or slot_bytes != SLOT_BYTES:
        raise RingError("not a ring of version %d" % VERSION)
    size = HEADER_BYTES + slots * SLOT_BYTES
    if not 0 < slots <= SLOTS_MAX or status.st_size < size:
        raise RingError("the ring says %d slots and has %d bytes" % (slots, status.st_size))
    if status.st_blocks * 512 < size:
        # A hole in the file would end the process with SIGBUS on a full disk; ask for the room now
        # instead.
        os.posix_fallocate(descriptor, 0, size)
    return mmap.mmap(descriptor, size), slots
