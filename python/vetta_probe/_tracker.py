# SPDX-License-Identifier: Apache-2.0
"""From what a framework does (fetch, forward, backward, collective, optimizer) to steps, without a
word of the user's.

The step rule:
- A step ends when its closing optimizer has stepped. Of several optimizers in one iteration (a GAN)
  the closing one is the one that steps last before data are fetched anew or before one of them
  steps again; the first two iterations are held back until that is known, and it is learnt anew
  when the closing optimizer has not stepped for 8 steps of others.
- A step begins where the one before ended, so that what lies between belongs to it. Where a loader
  is exhausted, or the same iterator is asked twice with no backward pass in between, what was there
  since the last step was no training (validation, say): it is dropped, and the step begins at that
  fetch.
- Backward passes without an optimizer step (gradient accumulation, `no_sync`) add up. An optimizer
  that calls a closure (LBFGS, Lightning) gives the time in there to forward and backward.

Time goes to the innermost phase only. Forward is the DDP module's own call up to the backward pass;
where there is no DDP module, it is what no other phase has between a fetch and the backward pass.

Events of other threads than the training one are ignored. Nothing here imports or knows the
framework.
"""

from __future__ import annotations

import time
from threading import get_ident
from typing import Callable, List, Optional, Tuple

from ._recorder import Recorder
from ._ring import MISSING, SOURCE_INJECTED

DATA, FORWARD, BACKWARD, OPTIMIZER, ALLREDUCE = range(5)
HELD_BACK = 2  # iterations until the closing optimizer is believed
STRANGERS_MAX = 8  # steps of other optimizers until it is learnt anew

_NAN = float("nan")


class Span:
    """What has been measured since a step began."""

    __slots__ = ("start", "phases", "samples", "loss", "backwards")

    def __init__(self, start: int) -> None:
        self.start = start
        self.phases: List[int] = [MISSING] * 5
        self.samples = _NAN
        self.loss = _NAN
        self.backwards = 0

    def add(self, phase: int, ns: int) -> None:
        known = self.phases[phase]
        self.phases[phase] = known + ns if known > 0 else ns

    def merge(self, later: Span) -> None:
        for phase, ns in enumerate(later.phases):
            if ns >= 0:
                self.add(phase, ns)
        if later.samples == later.samples:
            self.samples = later.samples + (self.samples if self.samples == self.samples else 0)
        self.backwards += later.backwards
        self.loss = later.loss


class Tracker:
    def __init__(
        self,
        recorder: Recorder,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self.recorder = recorder
        self._clock = clock
        self._wall = wall
        self.steps = 0
        self.reset()

    def reset(self) -> None:
        """Forget everything but the steps counted: at the start, and in a forked child."""
        self._thread = 0
        self._span: Optional[Span] = None
        self._stack: List[int] = []
        self._since = 0
        self._gap = MISSING  # time without a phase since the last fetch; MISSING before one
        self._gap_since = 0
        self._sees_forward = False
        self._forward_depth = 0
        self._forward_end = 0  # of a forward that may go on until the backward pass; 0 if none does
        self.last_gradient = 0
        self.passes = 0  # backward passes begun
        self._fetched_by = 0
        self._stepped: List[int] = []  # optimizers of the iteration that is held back
        self._held: Optional[Tuple[Span, int]] = None  # and what it measured, until when
        self._closing = 0
        self._candidate = 0
        self._agreed = 0
        self._strangers = 0
        self._optimizer_depth = 0

    # -- phases ----------------------------------------------------------------------------------

    def _is_mine(self) -> bool:
        recorder = self.recorder
        if recorder.is_off or recorder.is_hand:
            return False
        thread = get_ident()
        if self._thread == 0:
            self._thread = thread
        return thread == self._thread

    def _begin(self, phase: int, now: int) -> int:
        """Enter a phase; returns the token for `_end`."""
        span, stack = self._span, self._stack
        if span is None:
            span = self._span = Span(now)
        depth = len(stack)
        if depth:
            span.add(stack[-1], now - self._since)
        elif self._gap >= 0:
            self._gap += now - self._gap_since
        stack.append(phase)
        self._since = now
        self._show()
        return depth

    def _end(self, depth: int, now: int) -> None:
        """Leave what was entered since `depth`: also what an exception has left open. The caller
        shows where the rank is then."""
        stack = self._stack
        if len(stack) <= depth:
            return
        if self._span is not None:
            self._span.add(stack[-1], now - self._since)
        del stack[depth:]
        self._since = self._gap_since = now

    def _show(self, waits_for_others: bool = False) -> None:
        """Tell where the rank is from now on: in the step that has not been given out yet."""
        number = self.steps if self._held is None else self.steps + 1
        stack = self._stack
        phase = ALLREDUCE if waits_for_others else stack[-1] if stack else MISSING
        self.recorder.show(number, phase + 1, self._wall())

    def _settle_forward(self, now: int) -> None:
        """A forward that has returned ends where it returned, unless a backward pass comes next."""
        if self._stack and self._stack[-1] == FORWARD:
            self._end(len(self._stack) - 1, now)
        self._forward_end = 0

    def data_begin(self, iterator: int) -> int:
        """`iterator`: which one is asked. Returns a token for `data_end`, -1 if the event is not
        ours."""
        if not self._is_mine():
            return -1
        now = self._clock()
        if self._forward_end:
            self._settle_forward(self._forward_end)
        if not self._stack or OPTIMIZER in self._stack:
            self._stack.clear()
            self._optimizer_depth = self._forward_depth = 0
        self._release_held()
        span = self._span
        if span is not None and span.backwards == 0 and self._fetched_by == iterator:
            self._span = Span(now)
        self._fetched_by = iterator
        return self._begin(DATA, now)

    def data_end(self, token: int, samples: Optional[int], is_exhausted: bool) -> None:
        if token < 0:
            return
        now = self._clock()
        self._end(token, now)
        self._show()
        span = self._span
        if is_exhausted:
            if span is not None and span.backwards == 0:
                self._span = None
            self._fetched_by = 0
            self._gap = MISSING
            return
        self._gap, self._gap_since = 0, now
        if span is not None and samples is not None:
            span.samples = samples + (span.samples if span.samples == span.samples else 0)

    def forward_begin(self) -> int:
        if not self._is_mine():
            return -1
        self._sees_forward = True
        self._forward_depth += 1
        if self._forward_depth > 1:
            return -2
        if self._forward_end:  # a second forward before the backward pass: one phase
            self._forward_end = 0
            return len(self._stack) - 1
        return self._begin(FORWARD, self._clock())

    def forward_end(self, token: int) -> None:
        if token == -1:
            return
        self._forward_depth = max(0, self._forward_depth - 1)
        if token >= 0 and len(self._stack) == token + 1:
            self._forward_end = self._clock()

    def backward_begin(self) -> int:
        if not self._is_mine():
            if self._thread and not self.recorder.is_hand and not self._has_trained():
                self.reset()  # what fetched data until now was not the training thread
                return self.backward_begin()
            return -1
        if self.recorder._ring is None:
            if not self.recorder.is_ready():
                return -1
            self.recorder.seek(SOURCE_INJECTED)
        now = self._clock()
        if self._forward_end:
            self._settle_forward(now)
        token = self._begin(BACKWARD, now)
        if self._span is not None:
            self._span.backwards += 1
            if token == 0 and self._gap > 0 and not self._sees_forward:
                self._span.add(FORWARD, self._gap)
        if self._gap > 0:
            self._gap = 0
        self.last_gradient = 0
        self.passes += 1
        return token

    def gradients_ready(self) -> None:
        """The rank's own part of a backward pass is over: what follows is the others'. May come
        from a thread of the framework, while the training thread waits in the pass."""
        recorder = self.recorder
        if self._stack[-1:] == [BACKWARD] and not recorder.is_hand:
            self._show(waits_for_others=True)

    def backward_end(self, token: int, loss: float) -> None:
        if token < 0:
            return
        now = self._clock()
        last = self.last_gradient
        if last > self._since and len(self._stack) == token + 1:
            # The rank's own part of the pass is over; what follows is the others'.
            if self._span is not None:
                self._span.add(BACKWARD, last - self._since)
            self._stack[-1], self._since = ALLREDUCE, last
        self._end(token, now)
        self._show()
        if self._span is not None:
            self._span.loss = loss if self._span.backwards == 1 else _NAN

    def collective_begin(self) -> int:
        if not self._is_mine():
            return -1
        now = self._clock()
        if self._forward_end:
            self._settle_forward(self._forward_end)
        return self._begin(ALLREDUCE, now)

    def collective_end(self, token: int) -> None:
        if token >= 0:
            self._end(token, self._clock())
            self._show()

    def optimizer_begin(self) -> int:
        if not self._is_mine():
            return -1
        now = self._clock()
        if self._forward_end:
            self._settle_forward(self._forward_end)
        self._optimizer_depth += 1
        return self._begin(OPTIMIZER, now)

    def optimizer_end(self, token: int, optimizer: int, is_done: bool = True) -> None:
        """`optimizer`: which one has stepped. `is_done` false: it raised."""
        if token < 0:
            return
        now = self._clock()
        if self._forward_end:
            self._settle_forward(self._forward_end)
        self._end(token, now)
        self._optimizer_depth = max(0, self._optimizer_depth - 1)
        if is_done and self._optimizer_depth == 0:
            self._iteration_may_end(optimizer, now)
        self._show()

    def _has_trained(self) -> bool:
        return self.steps > 0 or (self._span is not None and self._span.backwards > 0)

    # -- the end of a step -----------------------------------------------------------------------

    def _iteration_may_end(self, optimizer: int, now: int) -> None:
        if not self._closing:
            if optimizer in self._stepped:
                self._release_held()
            self._hold(now)
            self._stepped.append(optimizer)
            if self._closing == optimizer:
                self._release_held()
        elif optimizer == self._closing:
            self._strangers = 0
            self._hold(now)
            self._emit_held()
        else:
            self._strangers += 1
            if self._strangers > STRANGERS_MAX:
                self._closing = self._candidate = self._agreed = self._strangers = 0
                self._hold(now)
                self._stepped = [optimizer]

    def _hold(self, now: int) -> None:
        span = self._span if self._span is not None else Span(now)
        if self._held is not None:
            self._held[0].merge(span)
            span = self._held[0]
        self._held = (span, now)
        self._span = Span(now)
        self._fetched_by = 0
        self._forward_depth = 0

    def _release_held(self) -> None:
        """An iteration is over: give out what is held back, and learn which optimizer closed it."""
        if self._held is None:
            return
        self._emit_held()
        if self._stepped:
            last = self._stepped[-1]
            self._agreed = self._agreed + 1 if last == self._candidate else 1
            self._candidate = last
            if self._agreed >= HELD_BACK:
                self._closing = last
            self._stepped = []

    def _emit_held(self) -> None:
        if self._held is None:
            return
        (span, end), self._held = self._held, None
        self._gap = MISSING
        now = self._clock()
        number, self.steps = self.steps, self.steps + 1
        self.recorder.record(
            (
                number,
                self._wall() - (now - span.start),
                span.start,
                end - span.start,
                span.phases,
                span.samples,
                span.loss,
                SOURCE_INJECTED,
            )
        )

    def flush(self) -> None:
        """The process ends: nothing is held back any longer."""
        if not self.recorder.is_off and not self.recorder.is_hand:
            self._emit_held()
