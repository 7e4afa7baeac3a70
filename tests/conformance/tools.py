# SPDX-License-Identifier: Apache-2.0
"""Cases, and the product's own readers behind bin/vetta-conformance."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class ReaderMissing(Exception):
    """bin/vetta-conformance is not built."""


class Differs(Exception):
    """What the product reads is not what the case says."""


def program() -> Path:
    """The newest build of the reader; VETTA_BUILD names one build folder."""
    build = os.environ.get("VETTA_BUILD")
    folders = [Path(build)] if build else list((ROOT / "build").glob("*"))
    found = [folder / "bin" / "vetta-conformance" for folder in folders]
    found = [path for path in found if path.exists()]
    if not found:
        raise ReaderMissing("bin/vetta-conformance is not built: run tools/build")
    return max(found, key=lambda path: path.stat().st_mtime)


class Reader:
    """Reads files of one folder of cases with the product's parsers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = program()

    def read(self, kind: str, name: str, *args: str) -> Any:
        return self.read_path(kind, self.folder / name, *args)

    def read_path(self, kind: str, path: Path, *args: str) -> Any:
        command = [str(self.program), kind, str(path), *args]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip()
            raise Differs(f"{kind} ended with {done.returncode}: {words}")
        return json.loads(done.stdout)

    def read_bytes(self, kind: str, data: bytes, *args: str) -> Any:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return self.read_path(kind, Path(file.name), *args)

    def read_lines(self, kind: str, lines: list[str]) -> list[Any]:
        """One value a line; blank lines are not allowed."""
        if not lines:
            return []
        values: list[Any] = self.read_bytes(kind, ("\n".join(lines) + "\n").encode())
        if len(values) != len(lines):
            raise Differs(f"{len(lines)} lines gave {len(values)} values")
        return values

    def text(self, name: str) -> str:
        return (self.folder / name).read_bytes().decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Case:
    """One input: `check` answers words on success, raises Differs, or is None: skipped."""

    name: str
    check: Callable[[Reader], str] | None
    skipped: str = ""

    def judge(self, reader: Reader) -> tuple[str, str]:
        if self.check is None:
            return "skipped", self.skipped
        try:
            return "ok", self.check(reader)
        except Differs as error:
            return "DIFFERS", str(error)
        except FileNotFoundError as error:
            return "DIFFERS", f"the input is missing: {error.filename}"
        except (KeyError, IndexError, TypeError, ValueError, StopIteration) as error:
            return "DIFFERS", f"what was read lacks something: {error!r}"


def same(what: str, got: object, expected: object) -> None:
    """Raises Differs unless they are equal."""
    if got != expected:
        raise Differs(f"{what}: {got!r} instead of {expected!r}")
