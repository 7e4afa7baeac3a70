# SPDX-License-Identifier: Apache-2.0
"""Read a ring: `python -m vetta_probe.dump [--json] RING...`. Also the tests' reader; it changes
nothing.

What is torn (a CRC or a sequence that does not agree) is left out and counted; what the writer has
overwritten before it was read is counted, too.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import zlib
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence

from ._ring import (
    HEADER_BYTES,
    JOB_HEADER,
    KIND_CONTINUATION,
    KIND_NOTE,
    KIND_STEP,
    MAGIC,
    MAKER_HEADER,
    NOTE_BODY,
    NOW,
    NOW_AT,
    PHASES,
    SLOT_BYTES,
    SLOT_HEAD,
    STEP_BODY,
    VERSION,
    WRITER_HEADER,
    RingError,
)

NOTE_NAMES = {1: "exception", 2: "ended", 3: "probe_fault"}
SOURCE_NAMES = {1: "hand", 2: "injected"}


@dataclass
class Step:
    """A mark. Times in nanoseconds; None is unknown."""

    sequence: int
    step: int
    start_real: int
    start_mono: int
    duration: int
    phases: Dict[str, Optional[int]]
    samples: Optional[float]
    loss: Optional[float]
    source: str


@dataclass
class Note:
    sequence: int
    kind: str
    time_real: int
    text: str


@dataclass
class Now:
    """Where the writer is: in no step (None) is between two of them."""

    step: Optional[int]
    phase: Optional[str]
    time_real: int


@dataclass
class Ring:
    rank_id: int
    slots: int
    written: int
    read: int
    pid: int
    rank: int
    local_rank: int
    world_size: int
    start_ticks: int
    uid: int
    is_closed: bool
    job: str
    step: str
    slurm_restart: int
    elastic_restart: int
    task: int
    now: Optional[Now] = None  # None: the writer does not say
    steps: List[Step] = field(default_factory=list)
    notes: List[Note] = field(default_factory=list)
    torn: int = 0
    overwritten: int = 0


def read_ring(path: str) -> Ring:
    with open(path, "rb") as file:
        return parse_ring(file.read())


def parse_ring(data: bytes) -> Ring:
    """The ring in `data`. Raises RingError if it is none."""
    if len(data) < HEADER_BYTES:
        raise RingError("%d bytes are too few for a ring's header" % len(data))
    magic, version, slot_bytes, slots, rank_id = MAKER_HEADER.unpack_from(data, 0)
    if magic != MAGIC or version != VERSION or slot_bytes != SLOT_BYTES:
        raise RingError("not a ring of version %d" % VERSION)
    if slots < 1 or len(data) < HEADER_BYTES + slots * SLOT_BYTES:
        raise RingError("the header says %d slots, and the file has %d bytes" % (slots, len(data)))
    written, read = (int.from_bytes(data[at : at + 8], "little") for at in (32, 40))
    pid, rank, local_rank, world_size = WRITER_HEADER.unpack_from(data, 48)
    ticks, uid, closed, job, step, restart, elastic, task = JOB_HEADER.unpack_from(data, 64)
    ring = Ring(
        rank_id=rank_id,
        slots=slots,
        written=written,
        read=read,
        pid=pid,
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        start_ticks=ticks,
        uid=uid,
        is_closed=closed == 1,
        job=job.rstrip(b"\0").decode("utf-8", "replace"),
        step=step.rstrip(b"\0").decode("utf-8", "replace"),
        slurm_restart=restart,
        elastic_restart=elastic,
        task=task,
        now=_now(data),
    )
    _read_slots(ring, data)
    return ring


def _now(data: bytes) -> Optional[Now]:
    step, phase, real = NOW.unpack_from(data, NOW_AT)
    if real <= 0 or phase > len(PHASES) or step < -1:
        return None  # an older probe's, or half-written
    return Now(step if step >= 0 else None, PHASES[phase - 1] if phase else None, real)


def _read_slots(ring: Ring, data: bytes) -> None:
    first = max(1, ring.written - ring.slots + 1)
    ring.overwritten = max(0, first - 1 - ring.read)
    text = b""
    for sequence in range(first, ring.written + 1):
        at = HEADER_BYTES + (sequence - 1) % ring.slots * SLOT_BYTES
        slot = data[at : at + SLOT_BYTES]
        said, kind, crc = SLOT_HEAD.unpack_from(slot, 0)
        again = int.from_bytes(slot[16:24], "little")
        if said != sequence or again != sequence or zlib.crc32(slot[16:]) != crc:
            ring.torn += 1
        elif kind == KIND_STEP:
            ring.steps.append(_step(slot))
        elif kind in (KIND_NOTE, KIND_CONTINUATION):
            _, note_kind, length, real, piece = NOTE_BODY.unpack_from(slot, 16)
            text = piece[:length] if kind == KIND_NOTE else text + piece[:length]
            if kind == KIND_NOTE:
                name = NOTE_NAMES.get(note_kind, str(note_kind))
                ring.notes.append(Note(sequence, name, real, ""))
            if ring.notes:
                ring.notes[-1].text = text.decode("utf-8", "replace")


def _step(slot: bytes) -> Step:
    sequence, number, real, mono, duration, *rest = STEP_BODY.unpack_from(slot, 16)
    samples, loss, source = rest[5:]
    return Step(
        sequence=sequence,
        step=number,
        start_real=real,
        start_mono=mono,
        duration=duration,
        phases={name: None if ns < 0 else ns for name, ns in zip(PHASES, rest[:5])},
        samples=None if math.isnan(samples) else samples,
        loss=None if math.isnan(loss) else loss,
        source=SOURCE_NAMES.get(source, str(source)),
    )


def _as_json(ring: Ring) -> Dict[str, Any]:
    whole: Dict[str, Any] = dict(vars(ring))
    whole["now"] = None if ring.now is None else vars(ring.now)
    whole["steps"] = [vars(step) for step in ring.steps]
    whole["notes"] = [vars(note) for note in ring.notes]
    return whole


def _ms(ns: Optional[int]) -> str:
    return "-" if ns is None else "%.3f" % (ns / 1e6)


def _print_table(path: str, ring: Ring) -> None:
    print(
        "%s: rank %d of %d, pid %d, job %s step %s%s"
        % (
            path,
            ring.rank,
            ring.world_size,
            ring.pid,
            ring.job or "-",
            ring.step or "-",
            ", closed" if ring.is_closed else "",
        )
    )
    print(
        "written %d, acknowledged %d, overwritten %d, torn %d"
        % (ring.written, ring.read, ring.overwritten, ring.torn)
    )
    if ring.now is not None:
        where = "between steps" if ring.now.step is None else "in step %d" % ring.now.step
        print("now %s, %s" % (where, ring.now.phase or "in no phase"))
    print(
        "%8s %12s" % ("step", "ms") + "".join(" %10s" % name for name in PHASES) + " %10s" % "loss"
    )
    for step in ring.steps:
        phases = "".join(" %10s" % _ms(step.phases[name]) for name in PHASES)
        loss = "-" if step.loss is None else "%.5g" % step.loss
        print("%8d %12s%s %10s" % (step.step, _ms(step.duration), phases, loss))
    for note in ring.notes:
        print("note %d %s: %s" % (note.sequence, note.kind, note.text))


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m vetta_probe.dump",
        description="Show what lies in a rank's ring.",
        epilog="example: python -m vetta_probe.dump --json /tmp/rings/0-4711.ring",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each ring")
    parser.add_argument("ring", nargs="+", help="a file that a probe writes")
    options = parser.parse_args(arguments)
    code = 0
    for path in options.ring:
        try:
            ring = read_ring(path)
        except (OSError, RingError) as error:
            print("%s: %s" % (path, error), file=sys.stderr)
            code = 1
            continue
        if options.json:
            print(json.dumps(_as_json(ring)))
        else:
            _print_table(path, ring)
    return code


if __name__ == "__main__":
    sys.exit(main())
