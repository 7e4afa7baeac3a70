# SPDX-License-Identifier: Apache-2.0
"""Step marks for a training loop: where the time of each rank goes, for Vetta to judge.

    import vetta_probe as probe

    for i, batch in enumerate(probe.wrap(loader)):
        with probe.step(i, samples=len(batch)) as step:
            with step.phase("forward"):
                loss = model(batch)
            with step.phase("backward"):
                loss.backward()
            with step.phase("allreduce"):
                all_reduce_gradients(model)
            with step.phase("optimizer"):
                optimizer.step()
            step.loss(loss)

Everything is optional but `step`. A mark costs a few microseconds. Without an agent on the node the
probe is silent; `VETTA_PROBE=0` turns it off. It never raises into the loop, never blocks it, and
reads nothing from a GPU: phases are times of the host, and a loss that lies on a device is left out
unless it is given as a number.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Iterator, List, Optional, Type, TypeVar, Union

from ._recorder import recorder as _recorder
from ._ring import BETWEEN_STEPS, MISSING, PHASES, SOURCE_HAND

__all__ = ["Phase", "Step", "end", "loss", "phase", "step", "wrap"]
__version__ = "0.1.0"

_T = TypeVar("_T")
_INDEX = {name: index for index, name in enumerate(PHASES)}
_NAN = float("nan")
_DATA = 0

_monotonic_ns = time.monotonic_ns
_time_ns = time.time_ns


class Step:
    """One training step, as `with probe.step(i) as s:` gives it. It is recorded when the block ends
    in good order."""

    __slots__ = (
        "number",
        "samples",
        "_loss",
        "_real",
        "_start",
        "_phases",
        "_phase",
        "_since",
        "_outer",
    )

    def __init__(self, number: int, samples: float) -> None:
        self.number = number
        self.samples = samples
        self._loss = _NAN
        self._phases: List[int] = [MISSING, MISSING, MISSING, MISSING, MISSING]
        self._phase = MISSING
        self._since = 0
        self._outer: Optional[Step] = None

    def __enter__(self) -> Step:
        try:
            local = _recorder.local
            if local.step is not None:  # a step within a step is a part of it
                self._outer = local.step
                return local.step  # type: ignore[no-any-return]
            local.step = self
            local.is_stepping = True
            if _recorder._ring is None:
                _recorder.seek(SOURCE_HAND)
            self._start = now = _monotonic_ns()
            self._real = _time_ns()
            _recorder.show(self.number, 0, self._real)
            if local.data_ns >= 0:
                self._start = local.data_start
                self._real -= now - local.data_start
                self._phases[_DATA] = local.data_ns
                local.data_ns = -1
        except Exception as error:
            _recorder.fault(error)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        now = _monotonic_ns()
        if self._outer is not None:
            return
        try:
            _recorder.local.step = None
            if kind is not None:
                _recorder.step_broken()
            elif not _recorder.is_off:
                _recorder.record(
                    (
                        self.number,
                        self._real,
                        self._start,
                        now - self._start,
                        self._phases,
                        self.samples,
                        self._loss,
                        SOURCE_HAND,
                    )
                )
            _recorder.show(BETWEEN_STEPS, 0, _time_ns())
        except Exception as error:
            _recorder.fault(error)

    def phase(self, name: str) -> Phase:
        """A part of this step: data, forward, backward, optimizer or allreduce. An inner phase is
        taken out of the outer one; a phase entered twice adds up; an unknown name measures
        nothing."""
        return Phase(self, _INDEX.get(name, MISSING))

    def loss(self, value: object) -> None:
        """The loss of this step: a number, or a tensor of one element on the CPU."""
        self._loss = _number(value)


class Phase:
    """A part of a step, as `with probe.phase("data"):` gives it."""

    __slots__ = ("_step", "_index", "_outer", "_start")

    def __init__(self, owner: Optional[Step], index: int) -> None:
        self._step = owner
        self._index = index
        self._outer = MISSING
        self._start = 0

    def __enter__(self) -> Phase:
        step, index = self._step, self._index
        self._start = now = _monotonic_ns()
        if step is not None and index >= 0:
            phases = step._phases
            self._outer = outer = step._phase
            if outer >= 0:
                phases[outer] += now - step._since
            if phases[index] < 0:
                phases[index] = 0
            step._phase = index
            step._since = now
            _recorder.show(step.number, index + 1, _time_ns())
        elif step is None and index == _DATA:
            _show_data()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        step, index = self._step, self._index
        now = _monotonic_ns()
        if step is not None:
            if index >= 0:
                step._phases[index] += now - step._since
                step._phase = self._outer
                step._since = now
                _recorder.show(step.number, self._outer + 1, _time_ns())
        elif index == _DATA:
            if kind is None:
                _data_before_step(self._start, now)
            _show_back()


class _NoPhase(Phase):
    __slots__ = ()

    def __enter__(self) -> Phase:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class _NoStep(Step):
    """What a loop gets when nobody listens."""

    __slots__ = ()

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def phase(self, name: str) -> Phase:
        return _NO_PHASE

    def loss(self, value: object) -> None:
        return None


_NO_PHASE = _NoPhase(None, MISSING)
_NO_STEP = _NoStep(0, _NAN)


def step(number: int, samples: Union[int, float, None] = None) -> Step:
    """A training step: `with probe.step(i, samples=n) as s:`. `samples`: items trained on in it, by
    this rank."""
    if _recorder._link is None or _recorder.is_off:
        if not _recorder.is_ready():
            return _NO_STEP
    _recorder.is_hand = True
    if type(number) is not int or not (
        samples is None or type(samples) is int or type(samples) is float
    ):
        try:
            number, samples = int(number), _number(samples)
        except Exception:
            return _NO_STEP
    return Step(number, _NAN if samples is None else samples)


def phase(name: str) -> Phase:
    """A part of the step that this thread is in. `data` outside of a step goes to the step that
    follows."""
    current = _recorder.local.step
    if current is not None:
        return Phase(current, _INDEX.get(name, MISSING))
    return Phase(None, _INDEX.get(name, MISSING)) if _recorder.is_ready() else _NO_PHASE


def loss(value: object) -> None:
    """The loss of the step that this thread is in."""
    current = _recorder.local.step
    if current is not None:
        current.loss(value)


def end() -> None:
    """The training loop is over, though the program is not: what follows is not a hang. Said by
    itself at exit."""
    _recorder.note_ended()


def wrap(loader: _T) -> _T:
    """`loader` again, its iteration timed as the `data` phase of the step that follows. Length and
    attributes are the loader's own. Where nobody listens it is `loader` itself."""
    try:
        if not _recorder.is_ready():
            return loader
        return _Wrapped(loader)  # type: ignore[return-value]
    except Exception as error:
        _recorder.fault(error)
        return loader


class _Wrapped:
    def __init__(self, loader: Any) -> None:
        object.__setattr__(self, "_vetta_loader", loader)

    def __iter__(self) -> Iterator[Any]:
        start = _monotonic_ns()
        _show_data()
        try:
            iterator = iter(self._vetta_loader)
        finally:
            _show_back()
        now = _monotonic_ns()
        if _is_in_step():
            _data_before_step(start, now)
            start = now
        return _TimedIterator(iterator, now - start)

    def __next__(self) -> Any:
        start = _monotonic_ns()
        _show_data()
        try:
            item = next(self._vetta_loader)
        finally:
            _show_back()
        _data_before_step(start, _monotonic_ns())
        return item

    def __len__(self) -> int:
        return len(self._vetta_loader)

    def __getitem__(self, key: Any) -> Any:
        return self._vetta_loader[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_vetta_loader"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._vetta_loader, name, value)

    def __repr__(self) -> str:
        return repr(self._vetta_loader)


class _TimedIterator:
    def __init__(self, iterator: Iterator[Any], start_up: int) -> None:
        self._iterator = iterator
        # ns of iter() before a step: starting a loader's workers is a wait for data, too.
        self._start_up = start_up

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        start = _monotonic_ns()
        start_up, self._start_up = self._start_up, 0
        if not _is_in_step():
            start -= start_up
        elif start_up:
            _lengthen_step(start_up)
        _show_data()
        try:
            item = next(self._iterator)
        finally:
            _show_back()
        _data_before_step(start, _monotonic_ns())
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_iterator"], name)


def _lengthen_step(data_ns: int) -> None:
    """The current step waited for data already before it began."""
    try:
        step = _recorder.local.step
        step._start -= data_ns
        step._real -= data_ns
        step._phases[_DATA] = max(step._phases[_DATA], 0) + data_ns
    except Exception as error:
        _recorder.fault(error)


def _is_in_step() -> bool:
    return _recorder.local.step is not None


def _show_data() -> None:
    """This thread waits for data now. A thread that takes no steps (it fetches ahead) is not where
    the rank is."""
    try:
        local = _recorder.local
        current = local.step
        if current is not None:
            _recorder.show(current.number, _DATA + 1, _time_ns())
        elif local.is_stepping:
            _recorder.show(BETWEEN_STEPS, _DATA + 1, _time_ns())
    except Exception as error:
        _recorder.fault(error)


def _show_back() -> None:
    """And now it is where it was before."""
    try:
        local = _recorder.local
        current = local.step
        if current is not None:
            _recorder.show(current.number, current._phase + 1, _time_ns())
        elif local.is_stepping:
            _recorder.show(BETWEEN_STEPS, 0, _time_ns())
    except Exception as error:
        _recorder.fault(error)


def _data_before_step(start: int, end_ns: int) -> None:
    """Data that were waited for from `start` on: the current step's, else the next one's."""
    try:
        local = _recorder.local
        current = local.step
        if current is None:
            local.data_start = start
            local.data_ns = end_ns - start
        elif current._phase != _DATA:
            current._phases[_DATA] = max(current._phases[_DATA], 0) + end_ns - start
            if current._phase >= 0:
                current._phases[current._phase] -= end_ns - start
    except Exception as error:
        _recorder.fault(error)


def _number(value: object) -> float:
    """A float, or NaN for what is none or would have to be fetched from a device."""
    try:
        if value is None:
            return _NAN
        device = getattr(value, "device", None)
        if device is not None and str(getattr(device, "type", device)) != "cpu":
            return _NAN
        detach = getattr(value, "detach", None)
        return float(detach() if detach is not None else value)  # type: ignore[arg-type]
    except Exception:
        return _NAN
