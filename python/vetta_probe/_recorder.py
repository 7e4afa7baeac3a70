# SPDX-License-Identifier: Apache-2.0
"""What the process remembers about its marks: the ring or the way to it, and the marks that wait
for it.

One `Recorder` a process (`recorder`). Its promise to the training loop: nothing here raises,
nothing blocks, and a fault inside switches the probe off (a note says why, if there is a ring to
say it in). Threads: a lock guards the ring; a mark that cannot have it within 10 ms goes with the
next one. A forked child starts afresh and never touches its parent's ring.
"""

from __future__ import annotations

import atexit
import mmap
import os
import sys
import threading
import time
import traceback
from collections import deque
from types import TracebackType
from typing import Any, Callable, Deque, List, Optional, Tuple, Type

from ._hello import Link, agent_socket
from ._identity import identity
from ._ring import (
    CONTINUATIONS_MAX,
    NOTE_ENDED,
    NOTE_EXCEPTION,
    NOTE_FAULT,
    NOTE_TEXT_BYTES,
    SOURCE_HAND,
    RingWriter,
)

WAITING_MARKS_MAX = 256
MADV_WIPEONFORK = 18  # not among Python's constants
LOCK_SECONDS = 0.01
LOST_CHECK_NS = 10_000_000_000
# Every piece of a note may end up to 3 bytes early, between two characters.
NOTE_BYTES_MAX = (CONTINUATIONS_MAX + 1) * (NOTE_TEXT_BYTES - 3)
MESSAGE_BYTES_MAX = 2000

Mark = Tuple[int, int, int, int, Any, float, float, int]


class PerThread(threading.local):
    """The step that this thread is in, and the data time that the next one gets."""

    step: Any = None
    data_start = 0
    data_ns = -1
    is_stepping = False  # it has begun a step: what it does between two is where the rank is


class Recorder:
    def __init__(self) -> None:
        self.is_off = False
        self.is_hand = False  # the user's own marks silence the injected ones
        self.before_end: List[
            Callable[[], None]
        ] = []  # what still holds marks when the process ends
        self._is_set_up = False
        self._reset()

    def _reset(self) -> None:
        self._alive = _wiped_on_fork()
        self.local = PerThread()
        self.marks = 0  # of this process, written or waiting
        self._ring: Optional[RingWriter] = None
        self._link: Optional[Link] = None
        self._lock = threading.Lock()
        self._waiting: Deque[Mark] = deque(maxlen=WAITING_MARKS_MAX)
        self._is_told = False  # how the loop ended is in a note already
        self._is_broken = False  # the last step was left by an exception
        self._is_finished = False
        self._next_lost_check = 0

    # -- setting up ------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """Whether marks can go anywhere; sets the process up on the first call that finds so."""
        if self.is_off:
            return False
        if self._link is not None:
            return True
        try:
            if not self._alive[0]:  # forked between the import and the first step
                self._reset()
            with self._lock:
                self._set_up()
        except Exception as error:
            self.fault(error)
        return not self.is_off

    def _set_up(self) -> None:
        if self._link is not None:  # another thread was quicker
            return
        if os.environ.get("VETTA_PROBE") == "0":
            self.is_off = True
            return
        link = Link(agent_socket(os.environ), os.environ.get("VETTA_RING_DIR", ""))
        if not link.is_possible:
            self.is_off = True
            return
        if not self._is_set_up:
            self._is_set_up = True
            os.register_at_fork(after_in_child=self._forked)
            atexit.register(self.finish)
            self._chain_excepthook()
        _at_child_end(self.finish)
        self._link = link

    def _forked(self) -> None:
        ring, link = self._ring, self._link
        self._reset()
        if ring is not None:
            ring.abandon()
        if link is not None:
            link.drop()

    def _chain_excepthook(self) -> None:
        previous = sys.excepthook

        def hook(
            kind: Type[BaseException], value: BaseException, trace: Optional[TracebackType]
        ) -> None:
            try:
                self.note_exception(value)
            finally:
                previous(kind, value, trace)

        sys.excepthook = hook

    # -- the way to the ring ---------------------------------------------------------------------

    def seek(self, source: int) -> None:
        """Look for the ring without blocking: say hello if a try is due, take the answer if it has
        come."""
        link = self._link
        if link is None or self._ring is not None or not self._lock.acquire(False):
            return
        try:
            self._take(link.poll(identity()) or link.begin(identity(), _name(source)))
        finally:
            self._lock.release()

    def _take(self, ring: Optional[RingWriter]) -> None:
        if ring is None:
            return
        self._next_lost_check = time.monotonic_ns() + LOST_CHECK_NS
        self._ring = ring
        self._flush(ring)

    def _flush(self, ring: RingWriter) -> None:
        while self._waiting:
            ring.write_step(*self._waiting.popleft())

    def _check_lost(self, now: int) -> None:
        self._next_lost_check = now + LOST_CHECK_NS
        if self._ring is not None and self._ring.is_lost:
            self._ring.abandon()
            self._ring = None

    # -- marks and notes -------------------------------------------------------------------------

    def record(self, mark: Mark) -> None:
        """Write a mark, or let it wait for the ring. May raise: callers hand what it raises to
        `fault`."""
        if not self._alive[0]:  # forked behind Python's back
            self._forked()
            return
        if self._ring is None:
            self._waiting.append(mark)
            self.seek(mark[7])
        elif self._lock.acquire(False) or self._lock.acquire(True, LOCK_SECONDS):
            try:
                if (
                    self._waiting
                ):  # a thread that was late for the ring's arrival left its mark there
                    self._flush(self._ring)
                self._ring.write_step(*mark)
                if mark[2] > self._next_lost_check:
                    self._check_lost(mark[2])
            finally:
                self._lock.release()
        else:
            self._waiting.append(mark)
        self.marks += 1
        self._is_told = self._is_broken = False

    def show(self, step: int, phase: int, real_ns: int) -> None:
        """Where the rank is from now on (`RingWriter.show`). Never raises."""
        if self.is_off:
            return
        ring = self._ring
        try:
            if ring is None:
                link = self._link
                if link is None or not link.is_asking:
                    return
                self.seek(SOURCE_HAND)  # the answer may have come within the first step
                ring = self._ring
            if ring is not None and self._alive[0]:
                ring.show(step, phase, real_ns)
        except Exception as error:
            if ring is self._ring:  # else another thread let it go meanwhile
                self.fault(error)

    def step_broken(self) -> None:
        self._is_broken = True

    def note_exception(self, error: BaseException) -> None:
        """The uncaught exception that ends this process. Never raises."""
        if self._is_told or not self.is_ready():
            return
        self._collect()
        self._guarded(lambda: self._note(NOTE_EXCEPTION, exception_text(error)))
        self._is_told = True

    def note_ended(self) -> None:
        """The training loop is over and more steps are not to be expected. Never raises."""
        if self._is_told or self._is_broken or not self.marks or self.is_off:
            return
        self._guarded(lambda: self._note(NOTE_ENDED, ""))
        self._is_told = True

    def fault(self, error: BaseException) -> None:
        """The probe failed inside: it is off from now on, and says so in the ring if there is
        one."""
        if self.is_off:
            return
        self.is_off = True
        try:
            if self._ring is not None and self._lock.acquire(False):
                try:
                    self._ring.show(0, 0, 0)  # not known from now on
                    self._ring.write_note(NOTE_FAULT, exception_text(error))
                finally:
                    self._lock.release()
        except Exception:
            pass

    def finish(self) -> None:
        """The process ends in an orderly way: say how, and close the ring. Never raises; safe to
        call twice."""
        if self._is_finished or self._link is None or not self._alive[0]:
            return
        self._is_finished = True
        self._collect()
        error = _error_in_flight()
        if error is not None:
            self.note_exception(error)
        if self.marks:
            self.note_ended()
        self._guarded(self._close)

    def _collect(self) -> None:
        for action in self.before_end:
            try:
                action()
            except Exception as error:
                self.fault(error)

    def _note(self, kind: int, text: str) -> None:
        if self._ring is None and self._link is not None:
            who = identity()
            ring = self._link.poll(who, wait=True) or self._link.begin(who, _name(SOURCE_HAND))
            self._take(ring or self._link.poll(who, wait=True))
        if self._ring is not None:
            self._flush(self._ring)
            self._ring.write_note(kind, text, time.time_ns())

    def _close(self) -> None:
        if self._link is not None:
            if self._ring is None and self._waiting:
                self._take(self._link.poll(identity(), wait=True))
            self._link.drop()
        if self._ring is not None:
            self._flush(self._ring)
            self._ring.close()
            self._ring = None

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run `action` with the lock held; a fault inside switches the probe off instead of
        rising."""
        if not self._lock.acquire(True, LOCK_SECONDS):
            return
        try:
            action()
        except Exception:
            self.is_off = True
        finally:
            self._lock.release()


def exception_text(error: BaseException) -> str:
    """The message first, then as much of the traceback's end as a note holds."""
    try:
        message = "".join(traceback.format_exception_only(type(error), error)).strip()
    except Exception:
        message = type(error).__name__
    try:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        trace = ""
    head = message.encode("utf-8", "replace")[:MESSAGE_BYTES_MAX]
    tail = trace.encode("utf-8", "replace")[-(NOTE_BYTES_MAX - len(head) - 1) :]
    return head.decode("utf-8", "ignore") + "\n" + tail.decode("utf-8", "ignore")


def _wiped_on_fork() -> Any:
    """A page that holds 1 here and 0 in every child, however it was forked: cheaper to ask than
    getpid()."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(MADV_WIPEONFORK)
        page[0] = 1
        return page
    except (OSError, ValueError):
        return b"\1"  # an old kernel: register_at_fork sees all forks but those of foreign C code


def _name(source: int) -> str:
    return "hand" if source == SOURCE_HAND else "injected"


def _at_child_end(action: Callable[[], None]) -> None:
    """In a child of multiprocessing atexit is never run; its own finalizers are."""
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, action, exitpriority=100)


def _error_in_flight() -> Optional[BaseException]:
    """The exception that is ending a child of multiprocessing, if one is."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        # torch.multiprocessing.spawn turns an exception into exit code 1.
        return error.__context__ if error.code not in (None, 0) else None
    return error


recorder = Recorder()
