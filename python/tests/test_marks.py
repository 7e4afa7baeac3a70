# SPDX-License-Identifier: Apache-2.0
"""Marks by hand: what lies in the ring after a loop, whatever happens to the loop."""

from __future__ import annotations

import os
import signal
import time
from typing import Optional

import pytest

from .conftest import Program

LOOP = """
    import vetta_probe as probe
    for i in range({steps}):
        with probe.step(i, samples=32) as s:
            pass
"""


def test_a_loop_leaves_a_mark_a_step(program: Program) -> None:
    done = program.run(LOOP.format(steps=5), RANK="3", LOCAL_RANK="1", WORLD_SIZE="8")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    ring = program.ring()
    assert (ring.rank, ring.local_rank, ring.world_size) == (3, 1, 8)
    assert [step.step for step in ring.steps] == [0, 1, 2, 3, 4]
    assert [step.sequence for step in ring.steps] == [1, 2, 3, 4, 5]
    assert all(step.samples == 32 and step.loss is None for step in ring.steps)
    assert all(step.source == "hand" for step in ring.steps)
    assert all(set(step.phases.values()) == {None} for step in ring.steps)
    assert [note.kind for note in ring.notes] == ["ended"]
    assert ring.is_closed and ring.torn == 0 and ring.overwritten == 0


def test_header_says_who_wrote(program: Program) -> None:
    program.run(
        LOOP.format(steps=1),
        SLURM_JOB_ID="4711",
        SLURM_STEP_ID="0",
        SLURM_PROCID="5",
        SLURM_LOCALID="1",
        SLURM_STEP_NUM_TASKS="8",
        SLURM_RESTART_COUNT="2",
        TORCHELASTIC_RESTART_COUNT="3",
    )
    ring = program.ring()
    assert (ring.rank, ring.local_rank, ring.world_size, ring.task) == (5, 1, 8, 5)
    assert (ring.job, ring.step, ring.slurm_restart, ring.elastic_restart) == ("4711", "0", 2, 3)
    assert ring.uid == os.getuid() and ring.start_ticks > 0 and ring.rank_id > 0


def test_vetta_rank_stands_before_others(program: Program) -> None:
    program.run(LOOP.format(steps=1), VETTA_RANK="7", RANK="1", SLURM_PROCID="0")
    assert program.ring().rank == 7


def test_phases_loss_and_times(program: Program) -> None:
    program.run(
        """
        import time
        import vetta_probe as probe
        before = time.time_ns(), time.monotonic_ns()
        with probe.step(41) as s:
            with probe.phase("data"): time.sleep(0.01)
            with s.phase("forward"): time.sleep(0.02)
            with s.phase("backward"):
                time.sleep(0.01)
                with s.phase("allreduce"): time.sleep(0.03)
            with s.phase("forward"): time.sleep(0.02)
            with s.phase("no such phase"): time.sleep(0.01)
            probe.loss(0.25)
        print(before[0], before[1], time.time_ns(), time.monotonic_ns())
        """
    )
    (step,) = program.ring().steps
    ms = {name: None if ns is None else ns / 1e6 for name, ns in step.phases.items()}
    assert ms["optimizer"] is None
    assert ms["data"] is not None and 10 <= ms["data"] < 19
    assert ms["forward"] is not None and 40 <= ms["forward"] < 58
    assert ms["backward"] is not None and 10 <= ms["backward"] < 19  # without the all-reduce in it
    assert ms["allreduce"] is not None and 30 <= ms["allreduce"] < 45
    assert step.duration >= 100e6 and step.loss == 0.25 and step.step == 41
    assert step.duration >= sum(ns for ns in step.phases.values() if ns)


def test_wrapped_loader_times_the_data_of_the_step_that_follows(program: Program) -> None:
    done = program.run(
        """
        import time
        import vetta_probe as probe
        class Loader:
            batch_size = 4
            def __len__(self): return 3
            def __iter__(self):
                for i in range(3):
                    time.sleep(0.02)
                    yield i
        loader = probe.wrap(Loader())
        for batch in loader:
            with probe.step(batch): time.sleep(0.01)
        loader.batch_size = 5
        print(len(loader), loader.batch_size)
        with probe.step(9): pass
        """
    )
    assert done.stdout == "3 5\n", done.stderr
    *steps, last = program.ring().steps
    assert [step.step for step in steps] == [0, 1, 2]
    for step in steps:
        data = step.phases["data"]
        assert data is not None and 20e6 <= data < 35e6 and step.duration >= data + 10e6
    assert last.phases["data"] is None  # the loader's end is nobody's data


def test_a_loaders_start_before_the_step_is_data_and_no_phases_loss(program: Program) -> None:
    program.run(
        """
        import time
        import vetta_probe as probe
        class Loader:
            def __iter__(self):
                time.sleep(0.05)
                return iter([1, 2, 3])
        it = iter(probe.wrap(Loader()))
        time.sleep(0.5)
        with probe.step(0) as s:
            with s.phase("forward"):
                next(it)
        with probe.step(1) as s:
            with s.phase("forward"):
                it = iter(probe.wrap(Loader()))
        next(it)
        with probe.step(2):
            pass
        """
    )
    before, within, after = program.ring().steps
    assert before.phases["data"] is not None and before.phases["data"] >= 50e6
    assert before.phases["forward"] is not None
    assert before.duration < 500e6  # what lies between is neither data nor step
    assert within.phases["data"] is not None and within.phases["data"] >= 50e6
    assert within.phases["forward"] is not None and within.phases["forward"] < 50e6
    assert after.phases["data"] is not None and after.phases["data"] < 50e6


def test_data_fetched_within_a_step_is_taken_out_of_the_phase_around_it(program: Program) -> None:
    program.run(
        """
        import time
        import vetta_probe as probe
        def batches():
            while True:
                time.sleep(0.02)
                yield 1
        it = iter(probe.wrap(batches()))
        with probe.step(0) as s:
            with s.phase("forward"):
                next(it)
                next(it)
        """
    )
    (step,) = program.ring().steps
    assert step.phases["data"] is not None and step.phases["data"] >= 40e6
    assert step.phases["forward"] is not None and step.phases["forward"] < 10e6


def test_killed_writer_loses_no_mark(program: Program) -> None:
    process = program.start(
        """
        import sys, time
        import vetta_probe as probe
        for i in range(100):
            with probe.step(i): pass
        print("done", flush=True)
        time.sleep(60)
        """
    )
    assert process.stdout is not None and process.stdout.readline() == "done\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    ring = program.ring()
    assert [step.step for step in ring.steps] == list(range(100))
    assert not ring.notes and not ring.is_closed


STUCK = """
    import threading, time
    import vetta_probe as probe
    def hang():
        print("there", flush=True)
        time.sleep(60)
    def batches(hangs_at=99):
        for i in range(9):
            if i == hangs_at: hang()
            yield i
    with probe.step(13) as s:
        with s.phase("forward"): pass
"""


@pytest.mark.parametrize(
    "code, step, phase",
    [
        ("hang()", None, None),
        ("with probe.phase('data'): hang()", None, "data"),
        ("with probe.phase('forward'): hang()", None, None),  # of no step: it measures nothing
        ("next(iter(probe.wrap(batches(0))))", None, "data"),
        ("it = iter(probe.wrap(batches(1))); next(it); next(it)", None, "data"),
        ("it = iter(probe.wrap(batches())); next(it); hang()", None, None),
        ("with probe.step(14): hang()", 14, None),
        ("with probe.step(14): next(iter(probe.wrap(batches(0))))", 14, "data"),
        ("with probe.step(14), probe.phase('allreduce'): hang()", 14, "allreduce"),
        ("with probe.step(14), probe.phase('no such'): hang()", 14, None),
        ("with probe.step(14), probe.step(15), probe.phase('backward'): hang()", 14, "backward"),
        ("with probe.step(14), probe.phase('backward'), probe.phase('data'): hang()", 14, "data"),
        (
            "with probe.step(14), probe.phase('backward'):\n"
            "        with probe.phase('allreduce'): pass\n"
            "        hang()",
            14,
            "backward",
        ),
        (
            "with probe.step(14):\n        with probe.phase('optimizer'): pass\n        hang()",
            14,
            None,
        ),
        (
            "try:\n        with probe.step(14), probe.phase('forward'): 1 / 0\n"
            "    except ZeroDivisionError: hang()",
            None,
            None,
        ),
        (  # a thread that fetches ahead is not where the rank is
            "threading.Thread(target=lambda: next(iter(probe.wrap(batches(0)))), daemon=True)"
            ".start()\n    with probe.step(14), probe.phase('allreduce'): time.sleep(60)",
            14,
            "allreduce",
        ),
    ],
)
def test_a_stuck_rank_says_where(
    program: Program, code: str, step: Optional[int], phase: Optional[str]
) -> None:
    before = time.time_ns()
    process = program.start(STUCK + "    " + code + "\n")
    assert process.stdout is not None and process.stdout.readline() == "there\n"
    deadline = time.monotonic() + 10
    ring = program.ring()
    while time.monotonic() < deadline and ring.now is not None:
        if (ring.now.step, ring.now.phase) == (step, phase):
            break
        time.sleep(0.01)  # of the two threads the other one may be first
        ring = program.ring()
    process.kill()
    process.communicate()
    assert ring.now is not None and (ring.now.step, ring.now.phase) == (step, phase)
    assert before < ring.now.time_real < time.time_ns()
    assert [mark.step for mark in ring.steps] == [13]


def test_a_probe_that_is_off_is_nowhere(program: Program) -> None:
    program.run(
        """
        import os
        import vetta_probe as probe
        with probe.step(0): pass
        with probe.step(1 << 70): pass  # no number of 64 bits: a fault
        os._exit(0)
        """
    )
    assert program.ring().now is None


def test_full_ring_keeps_the_newest(program: Program) -> None:
    program.run(LOOP.format(steps=9000))
    ring = program.ring()
    assert ring.written == 9001  # and the note of the end
    assert ring.overwritten == 9001 - 8192 and ring.torn == 0
    assert [step.step for step in ring.steps] == list(range(9000 - 8191, 9000))


def test_exception_is_noted_message_first(program: Program) -> None:
    done = program.run(
        """
        import vetta_probe as probe
        def deep(n):
            if n == 0: raise KeyError("weights of layer \\u00fc" * 400)
            deep(n - 1)
        for i in range(3):
            with probe.step(i):
                if i == 2: deep(50)
        """
    )
    assert (
        done.returncode == 1 and "KeyError" in done.stderr
    )  # the user's traceback is there all the same
    ring = program.ring()
    assert [step.step for step in ring.steps] == [0, 1]  # a broken step is none
    (note,) = ring.notes
    assert note.kind == "exception" and note.text.startswith("KeyError: 'weights of layer \u00fc")
    assert "\ufffd" not in note.text and len(note.text.encode()) <= 5980
    assert "Traceback" in done.stderr and ring.is_closed


def test_short_exception_has_its_traceback(program: Program) -> None:
    program.run(
        """
        import vetta_probe as probe
        with probe.step(0): pass
        def loss_of_nothing(): raise ValueError("no batch")
        loss_of_nothing()
        """
    )
    (note,) = program.ring().notes
    assert note.text.splitlines()[0] == "ValueError: no batch"
    assert "in loss_of_nothing" in note.text


def test_users_excepthook_is_still_called(program: Program) -> None:
    done = program.run(
        """
        import sys
        sys.excepthook = lambda *a: print("mine", a[0].__name__)
        import vetta_probe as probe
        with probe.step(0): pass
        raise OSError("x")
        """
    )
    assert done.stdout == "mine OSError\n"


def test_caught_exceptions_are_the_users_own(program: Program) -> None:
    program.run(
        """
        import vetta_probe as probe
        for i in range(4):
            try:
                with probe.step(i):
                    if i == 1: raise MemoryError("batch too large")
            except MemoryError:
                pass
        """
    )
    ring = program.ring()
    assert [step.step for step in ring.steps] == [0, 2, 3]
    assert [note.kind for note in ring.notes] == ["ended"]


def test_exit_in_the_middle_of_a_step_is_no_end(program: Program) -> None:
    program.run(
        """
        import sys
        import vetta_probe as probe
        with probe.step(0): pass
        with probe.step(1): sys.exit(3)
        """
    )
    assert program.ring().notes == []


def test_end_is_said_once(program: Program) -> None:
    program.run(
        """
        import vetta_probe as probe
        with probe.step(0): pass
        probe.end()
        probe.end()
        """
    )
    ring = program.ring()
    assert [note.kind for note in ring.notes] == ["ended"]
    assert abs(ring.notes[0].time_real - time.time_ns()) < 60e9


def test_switched_off(program: Program) -> None:
    done = program.run(
        LOOP.format(steps=3) + "\n    loader = [1]\n    print(probe.wrap(loader) is loader)",
        VETTA_PROBE="0",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert program.all_rings() == []


def test_nobody_listens(program: Program) -> None:
    done = program.run(
        """
        import sys
        hook = sys.excepthook
        import vetta_probe as probe
        for i in probe.wrap([1, 2]):
            with probe.step(i) as s, probe.phase("data"), s.phase("forward"):
                probe.loss(1); s.loss(2)
        probe.end()
        print(sys.excepthook is hook)
        """,
        VETTA_RING_DIR="",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_nested_steps_are_one(program: Program) -> None:
    program.run(
        """
        import vetta_probe as probe
        with probe.step(0):
            with probe.step(100) as inner:
                with inner.phase("forward"): pass
                inner.loss(3)
        with probe.step(1): pass
        """
    )
    first, second = program.ring().steps
    assert (first.step, first.loss, second.step) == (0, 3, 1)
    assert first.phases["forward"] is not None


def test_threads_write_whole_marks(program: Program) -> None:
    program.run(
        """
        import sys, threading
        import vetta_probe as probe
        sys.setswitchinterval(1e-5)
        with probe.step(0): pass  # while the first ring is made, 256 marks can wait, not more
        def loop(base):
            for i in range(500):
                with probe.step(base + i) as s:
                    with s.phase("forward"): pass
        threads = [threading.Thread(target=loop, args=(1000 * n,)) for n in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        """
    )
    ring = program.ring()
    assert ring.torn == 0 and ring.overwritten == 0
    wanted = [0] + [1000 * n + i for n in range(4) for i in range(500)]
    assert sorted(step.step for step in ring.steps) == wanted


def test_forked_child_never_writes_into_its_parents_ring(program: Program) -> None:
    done = program.run(
        """
        import os
        import vetta_probe as probe
        with probe.step(0): pass
        with probe.step(1):
            if os.fork() == 0:
                with probe.step(50): pass
                os._exit(0)
            os.wait()
        import ctypes
        if ctypes.CDLL(None).fork() == 0:  # behind Python's back
            with probe.step(60): pass
            os._exit(0)
        os.wait()
        """,
        RANK="0",
    )
    assert done.returncode == 0, done.stderr
    rings = program.all_rings()
    assert sorted([[step.step for step in ring.steps] for ring in rings]) == [[0, 1], [50]]
    assert len({ring.rank_id for ring in rings}) == 2


def test_children_of_multiprocessing_say_how_they_end(program: Program) -> None:
    for method in ("fork", "spawn"):
        program.rings = program.folder / method
        done = program.run(
            f"""
            import multiprocessing, os
            import vetta_probe as probe
            def train(rank):
                os.environ["RANK"] = str(rank)
                with probe.step(rank): pass
                if rank == 1: raise RuntimeError("rank 1 is out of luck")
            if __name__ == "__main__":
                context = multiprocessing.get_context("{method}")
                workers = [context.Process(target=train, args=(i,)) for i in range(2)]
                for w in workers: w.start()
                for w in workers: w.join()
            """
        )
        assert done.returncode == 0, done.stderr
        first, second = program.all_rings()
        assert (first.rank, second.rank) == (0, 1)
        assert [note.kind for note in first.notes] == ["ended"]
        assert [note.kind for note in second.notes] == ["exception"]
        assert second.notes[0].text.startswith("RuntimeError: rank 1 is out of luck")
        assert first.is_closed and second.is_closed


def test_wrong_arguments_never_raise(program: Program) -> None:
    done = program.run(
        """
        import vetta_probe as probe
        class Evil:
            def __getattr__(self, name): raise RuntimeError("no")
            def __float__(self): raise RuntimeError("no")
        with probe.step("not a number"): pass
        with probe.step(0, samples="many") as s:
            s.loss(Evil()); probe.loss("nan?"); s.phase(7).__enter__()
        with probe.step(1, samples=Evil()): pass
        with probe.step(2 ** 80): pass
        with probe.step(3): pass
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    ring = program.ring()
    assert [step.step for step in ring.steps] == [0, 1]  # a number that no slot holds is a fault
    assert ring.notes[0].kind == "probe_fault"


def test_a_folder_that_cannot_be_written_is_silence(program: Program) -> None:
    program.rings.write_text("a file where the folder should be")
    done = program.run(LOOP.format(steps=3))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
