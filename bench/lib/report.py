# SPDX-License-Identifier: Apache-2.0
"""The frame of every bench: figures with bounds and baselines, and the one JSON object they become.

A bench is an executable bench/NAME/run of this shape:

    #!/usr/bin/python3
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
    import report

    def measure(out: report.Report) -> None:
        ours, theirs = report.interleaved(run_ours, run_theirs, 3 if out.quick else 10)
        out.figure("mark_cost", report.median(ours), "us", "<=", 5.0, samples=ours,
                   baseline=report.Baseline("empty loop", "python 3.11", report.median(theirs)))
        out.missing("other", "s", "<=", 2.0, "no munge on this machine")

    if __name__ == "__main__":
        sys.exit(report.main("probe", measure))

`holds` follows from value, op and bound alone. A figure that could not be measured has the value
None and its reason in `note`, and does not hold. Median and spread over runs, never the best run.
Standard library only; not thread-safe.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[2]
OPS = (">=", "<=")

EXIT_FINE = 0
EXIT_COULD_NOT = 1
EXIT_FOUND = 3


@dataclass(frozen=True)
class Baseline:
    """What the figure is compared with, measured in the same run and in the same unit."""

    name: str
    version: str
    value: float | None


@dataclass(frozen=True)
class Figure:
    """One number and the bound it is held to; `spread` is in the unit of the value."""

    id: str
    value: float | None
    unit: str
    op: str
    bound: float
    baseline: Baseline | None = None
    runs: int = 1
    spread: float | None = None
    note: str = ""

    def holds(self) -> bool:
        return holds(self.value, self.op, self.bound)

    def ratio(self) -> float | None:
        """Value over baseline; None where one of them is missing or the baseline is zero."""
        if self.value is None or self.baseline is None or not self.baseline.value:
            return None
        return self.value / self.baseline.value

    def json(self) -> dict[str, Any]:
        baseline = None
        if self.baseline is not None:
            baseline = {
                "name": self.baseline.name,
                "version": self.baseline.version,
                "value": self.baseline.value,
            }
        return {
            "id": self.id,
            "value": self.value,
            "unit": self.unit,
            "op": self.op,
            "bound": self.bound,
            "holds": self.holds(),
            "baseline": baseline,
            "ratio": self.ratio(),
            "runs": self.runs,
            "spread": self.spread,
            "note": self.note,
        }


def holds(value: float | None, op: str, bound: float) -> bool:
    """Whether `value op bound`; a missing value never holds."""
    if op not in OPS:
        raise ValueError(f"op is {op!r}; it must be one of {', '.join(OPS)}")
    if value is None:
        return False
    return value >= bound if op == ">=" else value <= bound


@dataclass
class Report:
    """Collects the figures of one bench run; `quick` asks for seconds instead of minutes."""

    bench: str
    quick: bool = False
    figures: list[Figure] = field(default_factory=list)
    load: tuple[float, float, float] = field(default_factory=os.getloadavg)

    def figure(
        self,
        id: str,
        value: float,
        unit: str,
        op: str,
        bound: float,
        *,
        baseline: Baseline | None = None,
        samples: Sequence[float] = (),
        runs: int | None = None,
        note: str = "",
    ) -> Figure:
        """Adds a measured figure; `samples` (one a run) give `runs` and `spread`."""
        if not math.isfinite(value):
            return self.missing(id, unit, op, bound, f"measured {value}, which is no number {note}")
        return self._add(
            Figure(
                id=id,
                value=value,
                unit=unit,
                op=op,
                bound=bound,
                baseline=baseline,
                runs=runs if runs is not None else max(1, len(samples)),
                spread=spread(samples) if len(samples) > 1 else None,
                note=note,
            )
        )

    def missing(self, id: str, unit: str, op: str, bound: float, reason: str) -> Figure:
        """Adds a figure that could not be measured, and why; it does not hold."""
        if not reason.strip():
            raise ValueError(f"figure {id} is missing without a reason")
        return self._add(Figure(id, None, unit, op, bound, runs=0, note=reason.strip()))

    def progress(self, text: str) -> None:
        """Talk goes to stderr; stdout is the result."""
        print(f"{self.bench}: {text}", file=sys.stderr, flush=True)

    def json(self) -> dict[str, Any]:
        return {
            "bench": self.bench,
            "quick": self.quick,
            "machine": machine(),
            "commit": commit(),
            "load": list(self.load),
            "figures": [figure.json() for figure in self.figures],
        }

    def _add(self, figure: Figure) -> Figure:
        if any(known.id == figure.id for known in self.figures):
            raise ValueError(f"figure {figure.id} is reported twice")
        holds(figure.value, figure.op, figure.bound)  # refuses an unknown op here, not at the end
        self.figures.append(figure)
        return figure


# Statistics ---------------------------------------------------------------------------------


def median(samples: Sequence[float]) -> float:
    return statistics.median(samples)


def spread(samples: Sequence[float]) -> float:
    """Interquartile range in the samples' unit; below four samples, largest minus smallest."""
    if not samples:
        raise ValueError("the spread of no samples is not defined")
    if len(samples) < 4:
        return max(samples) - min(samples)
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return high - low


def percentile(samples: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of the samples lie, interpolated between neighbours."""
    if not samples or not 0 <= share <= 1:
        raise ValueError("a percentile needs samples and a share between 0 and 1")
    ordered = sorted(samples)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def interleaved(
    ours: Callable[[], float], theirs: Callable[[], float], pairs: int, seed: int = 1
) -> tuple[list[float], list[float]]:
    """Runs both `pairs` times, neighbours in time and in random order within a pair, so that a
    drift of the machine falls on both; returns the values of each, pair by pair."""
    order = random.Random(seed)
    left: list[float] = []
    right: list[float] = []
    for _ in range(pairs):
        if order.random() < 0.5:
            left.append(ours())
            right.append(theirs())
        else:
            right.append(theirs())
            left.append(ours())
    return left, right


def paired_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ratio of each pair; its median is sturdier than the ratio of two medians."""
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} values cannot be paired with {len(theirs)}")
    return [a / b for a, b in zip(ours, theirs)]


# Processes ----------------------------------------------------------------------------------


def rss_mb(pid: int, peak: bool = False) -> float:
    """Resident memory of a process in MB (10^6 bytes); `peak` since it started."""
    key = "VmHWM:" if peak else "VmRSS:"
    for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(f"process {pid} has no {key[:-1]}: it has ended or is a kernel thread")


def cpu_seconds(pid: int) -> float:
    """CPU time, user and system, of a process and all of its threads."""
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_percent(pid: int, seconds: float) -> float:
    """CPU of a process over the next `seconds`, in percent of one core."""
    start, cpu = time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)
    return 100 * (cpu_seconds(pid) - cpu) / (time.monotonic() - start)


def wait_until(ready: Callable[[], bool], timeout: float, what: str, every: float = 0.05) -> float:
    """Waits until `ready()`; returns the seconds it took, or raises TimeoutError naming `what`."""
    start = time.monotonic()
    while not ready():
        if time.monotonic() - start > timeout:
            raise TimeoutError(f"{what} did not happen within {timeout:g} s")
        time.sleep(every)
    return time.monotonic() - start


# Surroundings -------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the figures were measured on; no host name, it says nothing to a reader."""
    return {
        "cpu": _first_value("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "arch": platform.machine(),
        "kernel": platform.release(),
        "os": _first_value("/etc/os-release", "PRETTY_NAME", "=") or "unknown",
        "python": platform.python_version(),
    }


def commit() -> str | None:
    """The commit measured, `-dirty` behind it where tracked files differ; None outside git."""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)

    try:
        head = git("rev-parse", "HEAD")
        if head.returncode != 0:
            return None
        dirty = git("status", "--porcelain", "--untracked-files=no").stdout.strip()
    except OSError:
        return None
    return head.stdout.strip() + ("-dirty" if dirty else "")


def program(name: str) -> Path:
    """A built program (VETTA_BUILD names another build folder); says what to run if missing."""
    folder = Path(os.environ.get("VETTA_BUILD", ROOT / "build" / "release"))
    path = folder / "bin" / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run tools/build")
    return path


def _first_value(path: str, key: str, separator: str = ":") -> str | None:
    try:
        for line in Path(path).read_text(errors="replace").splitlines():
            left, found, right = line.partition(separator)
            if found and left.strip() == key:
                return right.strip().strip('"')
    except OSError:
        pass
    return None


# Output -------------------------------------------------------------------------------------


def table(report: Report, out: TextIO) -> None:
    """The same figures for a person."""
    rows = [("figure", "value", "bound", "", "baseline", "ratio", "runs", "spread")]
    for figure in report.figures:
        base = figure.baseline
        ratio = figure.ratio()
        rows.append(
            (
                figure.id,
                f"{_number(figure.value)} {figure.unit}",
                f"{figure.op} {_number(figure.bound)}",
                "holds" if figure.holds() else "DOES NOT HOLD",
                f"{base.name} {base.version}: {_number(base.value)}" if base else "-",
                _number(ratio),
                str(figure.runs),
                _number(figure.spread),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(), file=out)
    for figure in report.figures:
        if figure.note:
            print(f"{figure.id}: {figure.note}", file=out)
    here = machine()
    print(
        f"{here['cpu']}, {here['cores']} cores, load {report.load[0]:.2f}, commit {commit()}"
        + (", quick: too few runs to publish" if report.quick else ""),
        file=out,
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def main(
    bench: str, measure: Callable[[Report], None], arguments: Sequence[str] | None = None
) -> int:
    """Runs `measure` and prints its report: 0 all bounds hold, 3 one does not, 1 it broke off."""
    parser = argparse.ArgumentParser(
        prog=f"bench/run {bench}",
        epilog=f"examples: bench/run {bench} --quick; bench/run {bench} --json >result.json",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="few runs: is it right, not how fast")
    options = parser.parse_args(arguments)
    report = Report(bench, quick=options.quick)
    try:
        measure(report)
    except (OSError, RuntimeError, subprocess.SubprocessError, TimeoutError) as error:
        print(f"bench/run {bench}: {error}", file=sys.stderr)
        return EXIT_COULD_NOT
    if not report.figures:
        print(f"bench/run {bench}: it measured nothing", file=sys.stderr)
        return EXIT_COULD_NOT
    if options.json:
        json.dump(report.json(), sys.stdout, allow_nan=False)
        print()
    else:
        table(report, sys.stdout)
    return EXIT_FINE if all(figure.holds() for figure in report.figures) else EXIT_FOUND
