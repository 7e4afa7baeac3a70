# SPDX-License-Identifier: Apache-2.0
"""Rules about the repository as a whole: licence lines, dead files, examples, leftovers, paths."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from house_rules import generated
from house_rules.tree import Finding, Tree

SPDX = "SPDX-License-Identifier: Apache-2.0"
# Spelled apart, so that this file does not find itself.
LEFTOVER = re.compile(
    r"\b(" + "|".join(("FIX" + "ME", "TO" + "DO", "XX" + "X", "HA" + "CK")) + r")\b"
)
# Folders of one person's machine; alice and ada are the users of pages and tests.
MACHINE = re.compile(r"(?<![\w./-])(/home/(?!(?:alice|ada|a)\b)[a-z]\w*|/Users/\w+|/work/\w+)")
BLOB_BYTES = 1 << 20
# Where a file must be named by another one, for nothing finds it by its folder.
NAMED = ("cmake/", "tools/lib/", "etc/", "packaging/")


def spdx(tree: Tree) -> Iterator[Finding]:
    """The licence line comes first (second after a #! line)."""
    for path in tree.own:
        cmake = path.endswith((".cmake", "CMakeLists.txt"))
        if not (tree.is_code(path) or cmake) or not tree.lines(path):
            continue
        at = 1 if tree.has_shebang(path) else 0
        lines = tree.lines(path)
        if len(lines) <= at or SPDX not in lines[at]:
            yield Finding(path, at + 1, "spdx", f"line {at + 1} must say {SPDX}")


def dead(tree: Tree) -> Iterator[Finding]:
    """Files that nothing names, and folders of src and apps that no table has."""
    texts = {path: tree.text(path) for path in tree.files}
    for path in tree.own:
        parts = PurePosixPath(path).parts
        if parts[0] == "src" and len(parts) > 2 and parts[1] not in tree.modules:
            yield Finding(path, 1, "dead", f"folder src/{parts[1]} is not in src/CMakeLists.txt")
        if parts[0] == "apps" and len(parts) > 2 and parts[1] not in tree.apps:
            if not re.search(rf"\b{parts[1]}\b", texts.get("apps/CMakeLists.txt", "")):
                yield Finding(path, 1, "dead", f"apps/{parts[1]} is not in apps/CMakeLists.txt")
        if path.startswith(NAMED) and not path.endswith((".md", "__init__.py", "_test.py")):
            if not _is_named(tree, path, texts):
                yield Finding(path, 1, "dead", "no other file names this one")


def _is_named(tree: Tree, path: str, texts: dict[str, str]) -> bool:
    name = PurePosixPath(path)
    stem = name.stem if name.suffix in (".py", ".cmake") else name.name
    pattern = re.compile(rf"(?<![\w-]){re.escape(stem)}(?![\w-])")
    return any(other != path and pattern.search(text) for other, text in texts.items())


def examples(tree: Tree) -> Iterator[Finding]:
    """Each file of examples/ is named by a test, or by a file of its example that is."""
    tests = [path for path in tree.files if path.startswith(("tests/", "tools/"))]
    text = "\n".join(tree.text(path) for path in tests)
    all_files = [path for path in tree.own if path.startswith("examples/")]
    wanted = [path for path in all_files if not path.endswith(".md")]
    reached = {path for path in wanted if path.removeprefix("examples/") in text}
    grown = True
    while grown:
        inner = "\n".join(tree.text(path) for path in reached)
        more = {
            path for path in wanted if path not in reached and PurePosixPath(path).name in inner
        }
        grown = bool(more)
        reached |= more
    for path in wanted:
        if path not in reached:
            yield Finding(path, 1, "examples", "no test runs this example: name it in tests/")


def leftovers(tree: Tree) -> Iterator[Finding]:
    """Work that was put off is an issue, not a comment."""
    for path in tree.own:
        for number, line in enumerate(tree.lines(path), 1):
            found = LEFTOVER.search(line)
            if found:
                yield Finding(path, number, "leftovers", f"{found[0]}: do it, or file an issue")


def machines(tree: Tree) -> Iterator[Finding]:
    """No path of one person's machine."""
    for path in tree.own:
        for number, line in enumerate(tree.lines(path), 1):
            found = MACHINE.search(line)
            if found:
                yield Finding(path, number, "machines", f"{found[0]} is a path of one machine")


def files(tree: Tree) -> Iterator[Finding]:
    """Scripts are executable, nothing else is; no large blobs; a text ends with a newline."""
    for path in tree.files:
        full = tree.root / path
        size = full.stat().st_size
        if size > BLOB_BYTES:
            yield Finding(path, 1, "files", f"{size} bytes; {BLOB_BYTES} at most")
        runs = os.access(full, os.X_OK)
        if tree.has_shebang(path) != runs and not path.startswith("tests/golden/"):
            better = "chmod +x it, or drop its #! line" if not runs else "chmod -x it"
            yield Finding(path, 1, "files", better)
        if path in tree.own and size and tree.lines(path) and not _ends_well(tree, path):
            yield Finding(path, len(tree.lines(path)), "files", "no newline at the end")


def fresh(tree: Tree) -> Iterator[Finding]:
    """Generated pages are what their command would write now."""
    for path in generated.stale(tree):
        yield Finding(path, 1, "fresh", "stale: run tools/build, then tools/check --fix")


def _ends_well(tree: Tree, path: str) -> bool:
    return (tree.root / path).read_bytes().endswith(b"\n")
