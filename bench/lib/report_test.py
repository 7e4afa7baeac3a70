# SPDX-License-Identifier: Apache-2.0
"""Tests of the bench frame."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import report  # noqa: E402

RUN = Path(__file__).resolve().parents[1] / "run"


@pytest.mark.parametrize(
    ("value", "op", "bound", "expected"),
    [
        (5.0, "<=", 5.0, True),
        (5.1, "<=", 5.0, False),
        (5.0, ">=", 5.0, True),
        (4.9, ">=", 5.0, False),
        (None, "<=", 5.0, False),
        (None, ">=", 5.0, False),
    ],
)
def test_holds_follows_from_value_op_and_bound(
    value: float | None, op: str, bound: float, expected: bool
) -> None:
    assert report.holds(value, op, bound) is expected


def test_an_unknown_op_is_refused_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="op is '<'"):
        report.Report("x").figure("a", 1.0, "s", "<", 2.0)


def test_a_figure_has_every_field_of_the_contract() -> None:
    out = report.Report("x")
    figure = out.figure(
        "a",
        2.0,
        "s",
        "<=",
        3.0,
        samples=[1.0, 2.0, 4.0],
        baseline=report.Baseline("srun", "22.05.8", 4.0),
    )
    assert figure.json() == {
        "id": "a",
        "value": 2.0,
        "unit": "s",
        "op": "<=",
        "bound": 3.0,
        "holds": True,
        "baseline": {"name": "srun", "version": "22.05.8", "value": 4.0},
        "ratio": 0.5,
        "runs": 3,
        "spread": 3.0,
        "note": "",
    }
    assert set(out.json()) == {"bench", "quick", "machine", "commit", "load", "figures"}


def test_a_missing_figure_says_why_and_does_not_hold() -> None:
    out = report.Report("x")
    figure = out.missing("a", "s", "<=", 3.0, "no munge").json()
    assert (figure["value"], figure["holds"], figure["note"]) == (None, False, "no munge")
    with pytest.raises(ValueError, match="without a reason"):
        out.missing("b", "s", "<=", 3.0, " ")


def test_not_a_number_is_missing_not_a_value() -> None:
    figure = report.Report("x").figure("a", float("nan"), "s", "<=", 3.0)
    assert figure.value is None and not figure.holds() and "nan" in figure.note


def test_a_figure_is_reported_once() -> None:
    out = report.Report("x")
    out.figure("a", 1.0, "s", "<=", 3.0)
    with pytest.raises(ValueError, match="twice"):
        out.figure("a", 1.0, "s", "<=", 3.0)


def test_ratio_needs_both_sides() -> None:
    bare = report.Figure("a", 1.0, "s", "<=", 2.0)
    zero = report.Figure("a", 1.0, "s", "<=", 2.0, report.Baseline("b", "1", 0.0))
    assert bare.ratio() is None and zero.ratio() is None


def test_spread_is_the_interquartile_range_and_ignores_one_outlier() -> None:
    assert report.spread([1.0, 2.0, 3.0, 4.0, 1000.0]) == 2.0
    assert report.spread([1.0, 4.0]) == 3.0
    with pytest.raises(ValueError):
        report.spread([])


def test_percentile_interpolates() -> None:
    assert report.percentile([4.0, 1.0, 2.0, 3.0], 0.5) == 2.5
    assert report.percentile([1.0], 0.99) == 1.0
    with pytest.raises(ValueError):
        report.percentile([1.0], 1.5)


def test_interleaved_keeps_pairs_together_and_mixes_their_order() -> None:
    calls: list[str] = []

    def mark(name: str, value: float) -> float:
        calls.append(name)
        return value

    ours, theirs = report.interleaved(lambda: mark("a", 1.0), lambda: mark("b", 2.0), 20)
    assert ours == [1.0] * 20 and theirs == [2.0] * 20
    pairs = [tuple(calls[i : i + 2]) for i in range(0, 40, 2)]
    assert set(pairs) == {("a", "b"), ("b", "a")}
    assert report.paired_ratios(ours, theirs) == [0.5] * 20


def test_meters_of_a_process() -> None:
    me = os.getpid()
    assert 1 < report.rss_mb(me) <= report.rss_mb(me, peak=True)
    before = report.cpu_seconds(me)
    while report.cpu_seconds(me) == before:
        sum(range(10000))
    with pytest.raises(OSError):
        report.rss_mb(2**22 + 1)


def test_a_wait_that_ends_in_nothing_names_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match="the moon"):
        report.wait_until(lambda: False, 0.01, "the moon", every=0.001)


def test_main_prints_one_object_and_tells_a_broken_bound(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def good(out: report.Report) -> None:
        out.figure("a", 1.0 if out.quick else 9.0, "s", "<=", 3.0)

    assert report.main("x", good, ["--json", "--quick"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["bench"] == "x" and printed["quick"] is True
    assert report.main("x", good, ["--json"]) == 3
    assert json.loads(capsys.readouterr().out)["figures"][0]["holds"] is False


def test_main_prints_a_table_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    def mixed(out: report.Report) -> None:
        out.figure("a", 1.0, "s", "<=", 3.0)
        out.missing("b", "s", "<=", 3.0, "no munge here")

    assert report.main("x", mixed, []) == 3
    text = capsys.readouterr().out
    assert "holds" in text and "DOES NOT HOLD" in text and "b: no munge here" in text


def test_a_bench_that_breaks_off_exits_1_and_prints_no_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(out: report.Report) -> None:
        raise FileNotFoundError("vettad is missing: run tools/build")

    assert report.main("x", broken, ["--json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "run tools/build" in printed.err


def test_run_refuses_an_unknown_bench() -> None:
    done = subprocess.run([RUN, "no-such-bench"], capture_output=True, text=True)
    assert done.returncode == 2 and "no bench 'no-such-bench'" in done.stderr
