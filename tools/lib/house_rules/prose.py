# SPDX-License-Identifier: Apache-2.0
"""Rules about pages: titles, links, the changelog, README sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import normpath

from house_rules.tree import Finding, Tree

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
README_LINES = 200
MODULE_README_LINES = 40
CHANGES = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def prose(tree: Tree, path: str) -> Iterator[tuple[int, str]]:
    """Lines outside fenced and indented code, without inline code."""
    fence = ""
    for number, line in enumerate(tree.lines(path), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`", "``", line)


def titles(tree: Tree) -> Iterator[Finding]:
    """A page begins with its one title."""
    for path in _pages(tree):
        found = [number for number, line in prose(tree, path) if line.startswith("# ")]
        if len(found) != 1:
            yield Finding(path, 1, "titles", f"{len(found)} titles (# ...); exactly one")
        elif found[0] != 1:
            yield Finding(path, found[0], "titles", "the title belongs on line 1")


def links(tree: Tree) -> Iterator[Finding]:
    """Relative links lead somewhere, to a heading too."""
    for path in _pages(tree):
        for number, line in prose(tree, path):
            for match in LINK.finditer(line):
                target = match[1] or match[2]
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                there = normpath(str(PurePosixPath(path).parent / file)) if file else path
                if there not in tree.known:
                    yield Finding(path, number, "links", f"{target} leads to nothing")
                elif anchor and there.endswith(".md") and anchor not in _anchors(tree, there):
                    yield Finding(path, number, "links", f"{there} has no heading #{anchor}")


def lost(tree: Tree) -> Iterator[Finding]:
    """Every page under docs/ can be reached from the README by links."""
    if "README.md" not in tree.files:
        return
    reached = {"README.md"}
    waiting = ["README.md"]
    while waiting:
        path = waiting.pop()
        for _, line in prose(tree, path):
            for match in LINK.finditer(line):
                file = (match[1] or match[2]).partition("#")[0]
                there = normpath(str(PurePosixPath(path).parent / file)) if file else path
                if there in tree.files and there.endswith(".md") and there not in reached:
                    reached.add(there)
                    waiting.append(there)
    for path in _pages(tree):
        if path.startswith("docs/") and path not in reached:
            yield Finding(path, 1, "lost", "no link leads here from README.md: add it to a map")


def readmes(tree: Tree) -> Iterator[Finding]:
    """The front page and each module's page are short, and are there."""
    if "README.md" in tree.files and len(tree.lines("README.md")) > README_LINES:
        yield Finding("README.md", 1, "readmes", f"more than {README_LINES} lines")
    for name in tree.modules:
        path = f"src/{name}/README.md"
        if path not in tree.files:
            yield Finding(path, 1, "readmes", f"module '{name}' has no README.md")
        elif len(tree.lines(path)) > MODULE_README_LINES:
            yield Finding(path, 1, "readmes", f"more than {MODULE_README_LINES} lines")
    for path in tree.files:
        if re.fullmatch(r"bench/[^/]+/run", path):
            page = path.replace("/run", "/README.md")
            if page not in tree.files:
                yield Finding(page, 1, "readmes", "a bench says its question, method and threats")


def changelog(tree: Tree) -> Iterator[Finding]:
    """CHANGELOG.md keeps the Keep-a-Changelog form."""
    path = "CHANGELOG.md"
    if path not in tree.files:
        return
    versions: list[tuple[int, ...]] = []
    heads = 0
    last_head = ""
    for number, line in enumerate(tree.lines(path), 1):
        if line.startswith("## "):
            heads += 1
            version = re.fullmatch(r"## \[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d", line)
            if heads == 1 and line != "## [Unreleased]":
                yield Finding(path, number, "changelog", "the first section is ## [Unreleased]")
            elif heads > 1 and not version:
                yield Finding(path, number, "changelog", "write ## [1.2.3] - 2026-12-31")
            elif version:
                versions.append(tuple(int(part) for part in version.groups()))
        elif line.startswith("### ") and line[4:] not in CHANGES:
            yield Finding(
                path, number, "changelog", f"{line[4:]!r} is none of {', '.join(CHANGES)}"
            )
        if line.startswith("#"):
            if last_head.startswith("### "):
                yield Finding(path, number - 1, "changelog", f"{last_head[4:]!r} is empty")
            last_head = line
        elif line.strip():
            last_head = ""
    if heads == 0:
        yield Finding(path, 1, "changelog", "the first section is ## [Unreleased]")
    if versions != sorted(versions, reverse=True):
        yield Finding(path, 1, "changelog", "versions run from the newest down")


def _anchors(tree: Tree, path: str) -> set[str]:
    heads = [line.lstrip("#") for _, line in _headings(tree, path)]
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


def _headings(tree: Tree, path: str) -> Iterator[tuple[int, str]]:
    numbers = {number for number, line in prose(tree, path) if line.startswith("#")}
    for number in sorted(numbers):
        yield number, tree.lines(path)[number - 1]


def _pages(tree: Tree) -> list[str]:
    return [path for path in tree.own if path.endswith(".md")]
