# SPDX-License-Identifier: Apache-2.0
"""clang_tidy.py [--all]: clang-tidy-19 over build/tidy, a unit a core, remembering what was clean.

A unit is all the sources of one module, program or test (a unity build: what they include is read
once). It is judged again when a file of ours in it, its compile command or .clang-tidy has changed:
the names in build/tidy/clean are hashes of all of these. --all forgets them, judges unit tests and
benches too, and runs the static analyzer over C++ (over C it always runs): see
docs/decisions/0008-lint-budget.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "tidy"
CLEAN = BUILD / "clean"
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


@lru_cache(maxsize=None)
def direct(path: Path) -> tuple[bytes, tuple[Path, ...]]:
    """Digest of a file and the files of ours that it includes."""
    data = path.read_bytes()
    found = []
    for name in INCLUDE.findall(data):
        for base in (ROOT / "src", path.parent):
            there = base / os.fsdecode(name)
            if there.is_file():
                found.append(there.resolve())
                break
    return hashlib.sha256(data).digest(), tuple(found)


def key(path: Path, command: str, rules: bytes) -> str:
    """Names a file's state with all that it can see of ours."""
    digest = hashlib.sha256(command.encode() + rules)
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        here = waiting.pop()
        if here not in seen:
            seen.add(here)
            waiting.extend(direct(here)[1])
    for here in sorted(seen):
        digest.update(os.fsencode(here) + direct(here)[0])
    return digest.hexdigest()


def target_of(command: str) -> str:
    """The target whose object file the command makes; empty for what is not ours."""
    found = re.search(r" -o (?:src|apps)/CMakeFiles/([^/]+)\.dir/", command)
    return found.group(1) if found else ""


def rules_of(path: Path) -> bytes:
    """Every .clang-tidy that has a say about the file."""
    folders = [folder for folder in path.parents if folder.is_relative_to(ROOT)]
    files = [folder / ".clang-tidy" for folder in folders]
    return b"".join(file.read_bytes() for file in files if file.is_file())


def judge(path: Path, deep: bool) -> tuple[Path, float, str]:
    start = time.monotonic()
    command = ["clang-tidy-19", "--quiet", "-p", str(BUILD), str(path)]
    off = []
    if path.is_relative_to(BUILD):
        off.append("-bugprone-suspicious-include")  # a unity unit includes sources
    if not deep and path.suffix != ".c":
        off.append("-clang-analyzer-*")
    if off:
        command.append("--checks=" + ",".join(off))
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    # Its own notes on how many warnings it kept to itself are no findings.
    return path, time.monotonic() - start, done.stdout.strip() if done.returncode else ""


def main() -> int:
    everything = "--all" in sys.argv[1:]
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    todo: dict[Path, str] = {}
    names: dict[Path, str] = {}
    for entry in entries:
        path = Path(entry["directory"], entry["file"]).resolve()
        target = target_of(entry["command"])
        if target and (everything or not target.endswith(("_test", "_bench"))):
            todo[path] = key(path, entry["command"], rules_of(path))
            names[path] = target
    CLEAN.mkdir(exist_ok=True)
    stale = [path for path in todo if everything or not (CLEAN / todo[path]).exists()]
    stale.sort(key=lambda path: -sum(there.stat().st_size for there in direct(path)[1]))
    red = 0
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        for path, seconds, findings in pool.map(lambda path: judge(path, everything), stale):
            print(f"{names[path]} {seconds:.1f} s", file=sys.stderr)
            if findings:
                red += 1
                print(findings)
            else:
                (CLEAN / todo[path]).touch()
    print(f"clang-tidy: {len(stale)} of {len(todo)} units judged, {red} red", file=sys.stderr)
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
