# SPDX-License-Identifier: Apache-2.0
"""The repository as rules see it: its files, their lines, the module table."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

PAGE = "docs/internals/architecture.md"
CPP = (".h", ".cc", ".c")
# Recorded inputs and expected outputs: not our prose, not our code.
DATA = re.compile(r"(^|/)(golden|testdata|corpus|results)/")


@dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


@dataclass(frozen=True)
class Module:
    """A line of the module table; `deps` are the modules it may include."""

    name: str
    floor: int
    deps: tuple[str, ...]


@dataclass
class Tree:
    """Tracked and new files of a checkout; of any folder where git is not at hand."""

    root: Path
    _lines: dict[str, list[str]] = field(default_factory=dict)

    @cached_property
    def files(self) -> list[str]:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root,
            capture_output=True,
        )
        if listed.returncode == 0 and (self.root / ".git").exists():
            names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
        else:
            names = [
                path.relative_to(self.root).as_posix()
                for path in self.root.rglob("*")
                if path.is_file() and ".git" not in path.parts
            ]
        return sorted(name for name in set(names) if (self.root / name).is_file())

    @cached_property
    def known(self) -> set[str]:
        """Files and the folders that hold them."""
        folders = {str(parent) for name in self.files for parent in PurePosixPath(name).parents}
        return set(self.files) | folders

    def lines(self, path: str) -> list[str]:
        if path not in self._lines:
            data = (self.root / path).read_bytes()
            text = "" if b"\0" in data[:8192] else data.decode(errors="replace")
            self._lines[path] = text.splitlines()
        return self._lines[path]

    def text(self, path: str) -> str:
        return "\n".join(self.lines(path))

    def has_shebang(self, path: str) -> bool:
        lines = self.lines(path)
        return bool(lines) and lines[0].startswith("#!")

    def is_python(self, path: str) -> bool:
        return path.endswith((".py", ".pyi")) or (
            self.has_shebang(path) and "python" in self.lines(path)[0]
        )

    def is_shell(self, path: str) -> bool:
        return path.endswith(".sh") or (
            self.has_shebang(path) and bool(re.search(r"\b(ba)?sh\b", self.lines(path)[0]))
        )

    def is_code(self, path: str) -> bool:
        return path.endswith(CPP) or self.is_python(path) or self.is_shell(path)

    @cached_property
    def own(self) -> list[str]:
        """Files that people write: recorded data is left out."""
        return [path for path in self.files if not DATA.search(path)]

    @cached_property
    def modules(self) -> dict[str, Module]:
        return {module.name: module for module in self._table("src/CMakeLists.txt", "vetta_module")}

    @cached_property
    def apps(self) -> dict[str, Module]:
        return {module.name: module for module in self._table("apps/CMakeLists.txt", "vetta_app")}

    def _table(self, path: str, function: str) -> list[Module]:
        if path not in self.files:
            return []
        text = "\n".join(line.partition("#")[0] for line in self.lines(path))
        found = []
        for call in re.finditer(rf"\b{function}\(([^)]*)\)", text):
            words = call[1].split()
            key, floor, deps = "", 0, []
            for word in words[1:]:
                if word in ("FLOOR", "DEPS", "LIBS", "NODE"):
                    key = word
                elif key == "FLOOR":
                    floor = int(word)
                elif key == "DEPS":
                    deps.append(word)
            found.append(Module(words[0], floor, tuple(deps)))
        return found
