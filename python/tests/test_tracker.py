# SPDX-License-Identifier: Apache-2.0
"""The step rule, on a made clock: events in, steps out."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import pytest


from vetta_probe._tracker import Tracker

A, B = 101, 102  # optimizers
TRAIN, VALID = 1, 2  # iterators
PHASES = ("data", "forward", "backward", "optimizer", "allreduce")


class FakeRecorder:
    is_off = is_hand = False
    _ring = object()

    def __init__(self) -> None:
        self.marks: List[Dict[str, Any]] = []
        self.place: Any = None

    def show(self, step: int, phase: int, real: int) -> None:
        self.place = (step, PHASES[phase - 1] if phase else "", real - 10**6)

    def is_ready(self) -> bool:
        return True

    def record(self, mark: Any) -> None:
        number, real, start, duration, phases, samples, loss, source = mark
        names = ("step", "real", "start", "duration", "samples", "loss")
        self.marks.append(dict(zip(names, (number, real, start, duration, samples, loss))))
        self.marks[-1].update(zip(PHASES, phases))
        assert source == 2


class Loop:
    """A training loop on a clock that moves only when told."""

    def __init__(self) -> None:
        self.now = 1000
        self.recorder = FakeRecorder()
        recorder: Any = self.recorder
        self.tracker = Tracker(recorder, lambda: self.now, lambda: self.now + 10**6)

    @property
    def marks(self) -> List[Dict[str, Any]]:
        return self.recorder.marks

    def wait(self, ns: int) -> None:
        self.now += ns

    def fetch(self, ns: int = 5, iterator: int = TRAIN, samples: Optional[int] = 4) -> None:
        token = self.tracker.data_begin(iterator)
        self.now += ns
        self.tracker.data_end(token, samples, False)

    def exhaust(self, iterator: int = TRAIN) -> None:
        token = self.tracker.data_begin(iterator)
        self.now += 3
        self.tracker.data_end(token, None, True)

    def forward(self, ns: int = 20) -> None:
        token = self.tracker.forward_begin()
        self.now += ns
        self.tracker.forward_end(token)

    def backward(self, own: int = 30, waits: int = 0, loss: float = 1.0) -> None:
        token = self.tracker.backward_begin()
        self.now += own
        if waits:
            self.tracker.last_gradient = self.now
        self.now += waits
        self.tracker.backward_end(token, loss)

    def collective(self, ns: int = 7) -> None:
        token = self.tracker.collective_begin()
        self.now += ns
        self.tracker.collective_end(token)

    def step(self, optimizer: int = A, ns: int = 2, is_done: bool = True) -> None:
        token = self.tracker.optimizer_begin()
        self.now += ns
        self.tracker.optimizer_end(token, optimizer, is_done)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def phases(mark: Dict[str, Any]) -> List[int]:
    return [mark[name] for name in PHASES]


def test_plain_loop(loop: Loop) -> None:
    for _ in range(5):
        loop.fetch()
        loop.wait(20)  # the model is called: nobody says so
        loop.backward()
        loop.step()
        loop.wait(1)
    assert [mark["step"] for mark in loop.marks] == [0, 1, 2, 3, 4]
    assert loop.marks[0]["duration"] == 57 and loop.marks[0]["start"] == 1000
    for mark in loop.marks[1:]:
        assert phases(mark) == [5, 20, 30, 2, -1]
        assert mark["duration"] == 58 and mark["samples"] == 4 and mark["loss"] == 1.0
        assert mark["real"] == mark["start"] + 10**6
    starts = [mark["start"] + mark["duration"] for mark in loop.marks[:-1]]
    assert starts == [mark["start"] for mark in loop.marks[1:]]  # no time falls between two steps


def test_where_the_rank_is(loop: Loop) -> None:
    def place() -> Any:
        step, phase, since = loop.recorder.place
        assert since <= loop.now
        return step, phase

    for step in range(4):
        token = loop.tracker.data_begin(TRAIN)
        assert place() == (step, "data")
        loop.tracker.data_end(token, 4, False)
        assert place() == (step, "")
        token = loop.tracker.forward_begin()
        assert place() == (step, "forward")
        loop.collective()  # the buffers of a DDP module
        assert place() == (step, "forward")
        loop.tracker.forward_end(token)
        token = loop.tracker.backward_begin()
        assert place() == (step, "backward")
        loop.tracker.gradients_ready()
        assert place() == (step, "allreduce")
        loop.tracker.backward_end(token, 1.0)
        assert place() == (step, "")
        token = loop.tracker.collective_begin()
        assert place() == (step, "allreduce")
        loop.tracker.collective_end(token)
        token = loop.tracker.optimizer_begin()
        assert place() == (step, "optimizer")
        loop.tracker.optimizer_end(token, A)
        assert place() == (step + 1, "")  # a step begins where the one before ended
    loop.tracker.gradients_ready()  # late, from another thread
    assert place() == (4, "")


def test_marks_by_hand_say_where_the_rank_is(loop: Loop) -> None:
    token = loop.tracker.backward_begin()
    loop.recorder.is_hand = True
    before = loop.recorder.place
    loop.tracker.gradients_ready()
    loop.collective()
    assert loop.recorder.place == before
    loop.tracker.backward_end(token, 1.0)


def test_first_two_iterations_are_held_back_and_flushed(loop: Loop) -> None:
    loop.fetch()
    loop.backward()
    loop.step()
    assert loop.marks == []
    loop.tracker.flush()
    assert len(loop.marks) == 1


def test_without_a_loader_forward_is_unknown(loop: Loop) -> None:
    for _ in range(4):
        loop.wait(50)
        loop.backward()
        loop.step()
    loop.tracker.flush()
    assert [phases(mark) for mark in loop.marks] == [[-1, -1, 30, 2, -1]] * 4
    assert [mark["duration"] for mark in loop.marks] == [32, 82, 82, 82]


def test_ddp(loop: Loop) -> None:
    for _ in range(3):
        loop.fetch()
        loop.wait(4)
        loop.forward(20)
        loop.wait(6)  # the loss: forward goes on until backward
        loop.backward(30, waits=40)
        loop.step()
    assert [phases(mark) for mark in loop.marks[1:]] == [[5, 26, 30, 2, 40]] * 2


def test_forward_that_no_backward_follows_ends_where_it_returned(loop: Loop) -> None:
    for _ in range(3):
        loop.fetch()
        loop.forward(20)
        loop.wait(6)
        loop.collective(7)  # a loss averaged for the log
        loop.backward(30)
        loop.step()
    assert phases(loop.marks[2]) == [5, 20, 30, 2, 7]


def test_collectives_are_taken_out_of_what_is_around_them(loop: Loop) -> None:
    for _ in range(3):
        loop.fetch()
        token = loop.tracker.forward_begin()
        loop.wait(10)
        loop.collective(8)  # buffers are broadcast
        loop.wait(10)
        loop.tracker.forward_end(token)
        loop.backward(30)
        loop.step()
    assert phases(loop.marks[2]) == [5, 20, 30, 2, 8]


def test_gradient_accumulation_adds_up(loop: Loop) -> None:
    for _ in range(4):
        for _ in range(3):
            loop.fetch()
            loop.forward()
            loop.backward()
        loop.step()
    assert [phases(mark) for mark in loop.marks] == [[15, 60, 90, 2, -1]] * 4
    assert all(mark["samples"] == 12 and mark["loss"] != mark["loss"] for mark in loop.marks)


def test_gan_ends_with_the_second_optimizer(loop: Loop) -> None:
    for _ in range(5):
        loop.fetch()
        loop.wait(10)
        loop.backward()
        loop.step(A)
        loop.wait(15)
        loop.backward()
        loop.step(B)
    assert len(loop.marks) == 5
    assert [phases(mark) for mark in loop.marks] == [[5, 25, 60, 4, -1]] * 5


def test_gan_without_a_loader(loop: Loop) -> None:
    for _ in range(6):
        loop.wait(5)
        loop.backward()
        loop.step(A)
        loop.backward()
        loop.step(B)
    assert len(loop.marks) in (5, 6) and {mark["duration"] for mark in loop.marks[1:]} == {69}


def test_critic_that_steps_more_often(loop: Loop) -> None:
    for i in range(12):
        loop.fetch()
        loop.backward()
        loop.step(A)
        if i % 5 == 4:
            loop.backward()
            loop.step(B)
    loop.tracker.flush()
    assert len(loop.marks) == 12


def test_closing_optimizer_is_learnt_anew(loop: Loop) -> None:
    for optimizer in [A] * 5 + [B] * 20:
        loop.fetch()
        loop.backward()
        loop.step(optimizer)
    loop.tracker.flush()
    # One long step while 9 steps of the other are watched, then one a step again.
    assert len(loop.marks) == 5 + 1 + 11 and loop.marks[-1]["duration"] == 37


def test_closure(loop: Loop) -> None:
    """LBFGS: the optimizer calls forward and backward itself, several times."""
    for _ in range(4):
        loop.fetch()
        token = loop.tracker.optimizer_begin()
        for _ in range(3):
            loop.wait(1)
            loop.forward(20)
            loop.backward(30)
        loop.wait(4)
        loop.tracker.optimizer_end(token, A)
    assert [phases(mark) for mark in loop.marks] == [[5, 60, 90, 7, -1]] * 4


def test_scaler_around_the_optimizer_is_one_step(loop: Loop) -> None:
    for skips in (False, True, False, False):
        loop.fetch()
        loop.backward()
        token = loop.tracker.optimizer_begin()
        loop.wait(3)
        if not skips:
            loop.step(A)
        loop.tracker.optimizer_end(token, A)
    assert len(loop.marks) == 4
    assert [mark["optimizer"] for mark in loop.marks] == [5, 3, 5, 5]


def test_validation_is_no_step(loop: Loop) -> None:
    for _ in range(3):
        for _ in range(4):
            loop.fetch(iterator=TRAIN)
            loop.backward()
            loop.step()
        loop.exhaust(TRAIN)
        for _ in range(10):
            loop.fetch(100, iterator=VALID)
            loop.wait(500)
        loop.exhaust(VALID)
        loop.wait(70)  # a checkpoint is written
    assert len(loop.marks) == 12
    assert all(mark["duration"] == 37 and mark["data"] == 5 for mark in loop.marks)


def test_validation_that_stops_early(loop: Loop) -> None:
    for _ in range(4):
        loop.fetch(iterator=TRAIN)
        loop.backward()
        loop.step()
    for _ in range(10):
        loop.fetch(100, iterator=VALID)
        loop.wait(500)
    for _ in range(2):
        loop.fetch(iterator=TRAIN)
        loop.backward()
        loop.step()
    # Only its last batch cannot be told from training data.
    assert loop.marks[4]["duration"] == 637 and loop.marks[5]["duration"] == 37


def test_two_loaders_an_iteration(loop: Loop) -> None:
    for _ in range(4):
        loop.fetch(5, iterator=TRAIN)
        loop.fetch(6, iterator=VALID)
        loop.backward()
        loop.step()
    assert [mark["data"] for mark in loop.marks] == [11] * 4
    assert [mark["samples"] for mark in loop.marks] == [8] * 4


def test_exceptions_leave_nothing_open(loop: Loop) -> None:
    for i in range(6):
        loop.fetch()
        loop.tracker.forward_begin()
        loop.wait(20)
        if i == 3:
            continue  # raised in the model, caught by the user: no end was ever told
        loop.tracker.forward_end(0)
        loop.backward()
        if i == 4:
            loop.tracker.optimizer_begin()  # raised in the optimizer
            continue
        loop.step()
    loop.tracker.flush()
    assert len(loop.marks) == 4
    assert phases(loop.marks[2]) == [5, 20, 30, 2, -1]


def test_raising_optimizer_ends_no_step(loop: Loop) -> None:
    for i in range(6):
        loop.fetch()
        loop.backward()
        loop.step(is_done=i != 3)
    loop.tracker.flush()
    assert len(loop.marks) == 5


def test_phases_never_exceed_the_step(loop: Loop) -> None:
    import random

    source = random.Random(7)
    for _ in range(3000):
        action = source.choice(
            ("fetch", "forward", "backward", "collective", "step", "exhaust", "wait")
        )
        if action == "wait":
            loop.wait(source.randrange(50))
        elif action == "backward":
            loop.backward(source.randrange(1, 40), waits=source.choice((0, 9)))
        elif action == "step":
            loop.step(source.choice((A, A, A, B)))
        else:
            getattr(loop, action)()
    assert len(loop.marks) > 100
    end = 0
    for mark in loop.marks:
        assert sum(ns for ns in phases(mark) if ns > 0) <= mark["duration"]
        assert mark["start"] >= end
        end = mark["start"] + mark["duration"]


def test_marks_by_hand_silence_the_tracker(loop: Loop) -> None:
    loop.recorder.is_hand = True
    for _ in range(4):
        loop.fetch()
        loop.backward()
        loop.step()
    loop.tracker.flush()
    assert loop.marks == []
