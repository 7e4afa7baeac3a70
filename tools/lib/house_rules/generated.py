# SPDX-License-Identifier: Apache-2.0
"""Pages that a command writes: each fact is written once, and a stale page fails the gate."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from house_rules.tree import Tree

Maker = Callable[[Tree], "str | None"]


def exit_codes(tree: Tree) -> str | None:
    """The page of exit codes from core/error_table.h."""
    header = "src/core/error_table.h"
    if header not in tree.files:
        return None
    rows = re.findall(r"^\s+exit_(\w+) = (\d+),\s*///< (.+)$", tree.text(header), re.MULTILINE)
    lines = [
        "# Exit codes",
        "",
        "Every program of Vetta ends with one of these. Generated from `src/core/error_table.h` by"
        " `tools/check --fix`.",
        "",
        "| code | name | meaning |",
        "|--:|---|---|",
    ]
    lines += [f"| {code} | {name.replace('_', ' ')} | {text} |" for name, code, text in rows]
    lines += [
        "",
        "A command that runs your program (`vetta probe exec`) ends as that program did: with its"
        " code, or with 128 + the number of the signal that ended it.",
    ]
    return "\n".join(lines) + "\n"


def from_program(source: str, program: str, *arguments: str) -> Maker:
    """A page that a built program prints; None, and so not judged, where it is not built or the
    tree does not hold its source."""

    def make(tree: Tree) -> str | None:
        if source not in tree.files:
            return None
        build = Path(os.environ.get("VETTA_BUILD", tree.root / "build" / "release"))
        path = build / "bin" / program
        if not os.access(path, os.X_OK):
            return None
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=30)
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    return make


PAGES: dict[str, Maker] = {
    "docs/reference/exit-codes.md": exit_codes,
    "docs/reference/cli.md": from_program("src/cli/tree.cc", "vetta", "help", "--markdown"),
}


def stale(tree: Tree) -> list[str]:
    found = []
    for path, make in PAGES.items():
        wanted = make(tree)
        full = tree.root / path
        if wanted is not None and (not full.exists() or full.read_text() != wanted):
            found.append(path)
    return found


def write(tree: Tree) -> list[str]:
    """Writes what is stale; returns the paths written."""
    written = stale(tree)
    for path in written:
        wanted = PAGES[path](tree)
        full = tree.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(wanted or "")
    return written
