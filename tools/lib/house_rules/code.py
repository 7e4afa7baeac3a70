# SPDX-License-Identifier: Apache-2.0
"""Rules about code: arrows, owners of third-party headers, calls with a better one, sizes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath

from house_rules.tree import CPP, PAGE, Finding, Tree

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
FILE_LINES = 800
FUNCTION_LINES = 70
COLUMNS = {"code": 100, "cmake": 120}

# Folders of angle includes that come with the system.
SYSTEM = ("sys", "linux", "netinet", "arpa", "net", "asm", "bits", "experimental", "ext")

# call, where it is allowed, and what to write in its place
BANNED = (
    (r"\bstd::system\(|(?<![\w:.>])system\(", (), "sys/ starts processes without a shell"),
    (r"\bstrerror\(", (), "vetta::errno_text(), which is safe with threads"),
    (r"\b(std::)?(localtime|gmtime|ctime|asctime)\(", (), "core/time.h, safe with threads"),
    (r"(?<![\w:.>])s?rand\(|\bstd::rand\(", (), "<random> with a seed of its own"),
    (
        r"\bsleep_for\(|\bsleep_until\(",
        ("src/sys/",),
        "a timer or a wait with a stop of sys/",
    ),
    (r"\bstd::cout\b|(?<![\w:.>])printf\(", ("src/cli/", "apps/"), "returning text: apps print"),
    (r"\bstd::cerr\b", ("src/cli/", "apps/"), "core/log.h"),
    (r"\bstrcpy\(|\bstrcat\(|(?<![\w])sprintf\(", (), "std::string, or snprintf in C"),
    (
        r"\b(getenv|environment_variable)\(",
        ("src/core/log", "src/core/environment", "src/sys/", "src/cli/", "apps/"),
        "a value passed in",
    ),
    (r"\busing namespace (?!std::chrono_literals|std::string_view_literals)", (), "full names"),
)


@dataclass(frozen=True)
class Owner:
    prefix: str
    owners: tuple[str, ...]
    in_headers: bool


def arrows(tree: Tree) -> Iterator[Finding]:
    """Every quoted include agrees with the module table."""
    for path, line, name in _includes(tree, quoted=True):
        parts = PurePosixPath(path).parts
        target = name.split("/")[0]
        if parts[0] == "src" and len(parts) > 2:
            yield from _module_arrow(tree, path, line, parts[1], name)
        elif parts[0] == "apps" and len(parts) > 2 and "/" in name:
            app = tree.apps.get(parts[1])
            if target in tree.modules and app and target not in _below(tree, app.deps):
                yield Finding(
                    path,
                    line,
                    "arrows",
                    f"program '{app.name}' includes module '{target}' and does not declare it in"
                    f" apps/CMakeLists.txt; see {PAGE}",
                )


def _below(tree: Tree, names: tuple[str, ...]) -> set[str]:
    """The modules named and all that they stand on: a program composes."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += tree.modules[name].deps if name in tree.modules else ()
    return found


def _module_arrow(tree: Tree, path: str, line: int, owner: str, name: str) -> Iterator[Finding]:
    target = name.split("/")[0]
    module = tree.modules.get(owner)

    def finding(text: str) -> Finding:
        return Finding(path, line, "arrows", text)

    if module is None:
        return  # the rule "dead" says it
    if "/" not in name:
        yield finding(f'write "{owner}/{name}": includes are relative to src/')
    elif target == owner:
        return
    elif target not in tree.modules:
        yield finding(f"module '{owner}' includes '{name}', and there is no module '{target}'")
    elif target not in module.deps:
        there = tree.modules[target]
        way = (
            "does not declare it"
            if there.floor < module.floor
            else f"may not: floor {module.floor} to floor {there.floor}, arrows point down only"
        )
        yield finding(f"module '{owner}' includes module '{target}' and {way}; see {PAGE}")
    elif name.endswith("_detail.h"):
        yield finding(f"'{name}' is private to module '{target}'")


def modules(tree: Tree) -> Iterator[Finding]:
    """The page's table of modules is the one that CMake enforces."""
    told: dict[str, tuple[int, int, set[str]]] = {}
    for number, line in enumerate(tree.lines(PAGE) if PAGE in tree.files else [], 1):
        row = re.match(r"\| (\d) \| \[?(\w+)\]?(?:\([^)]*\))? \| ([^|]*) \|", line)
        if row:
            told[row[2]] = (number, int(row[1]), set(re.findall(r"\w+", row[3])))
    if not told:
        return
    for name, module in tree.modules.items():
        line_number, floor, deps = told.pop(name, (1, -1, set()))
        if (floor, deps) != (module.floor, set(module.deps)):
            yield Finding(
                PAGE,
                line_number,
                "modules",
                "src/CMakeLists.txt has "
                f"| {module.floor} | {name} | {' '.join(module.deps) or '–'} |",
            )
    for name, (line_number, _, _) in told.items():
        yield Finding(PAGE, line_number, "modules", f"there is no module '{name}'")


def owner_table(tree: Tree) -> list[Owner]:
    """The table "Third-party libraries" of the architecture page: include, owner, in headers."""
    if PAGE not in tree.files:
        return []
    rows = []
    for line in tree.lines(PAGE):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        prefixes = re.findall(r"`<([^`]+)`", cells[1]) if len(cells) >= 4 else []
        owners = tuple(word.strip("` ") for word in cells[2].split(",")) if prefixes else ()
        rows += [Owner(prefix, owners, cells[3].startswith("yes")) for prefix in prefixes]
    return rows


def owners(tree: Tree) -> Iterator[Finding]:
    """A third-party library has one owner, and is seen in that module's .cc files only."""
    table = owner_table(tree)
    if not table:
        return
    for path, line, name in _includes(tree, quoted=False):
        rows = [row for row in table if name.startswith(row.prefix.rstrip(">"))]
        if not rows:
            first = name.split("/")[0]
            if "/" in name and first not in SYSTEM:
                yield Finding(
                    path, line, "owners", f"<{name}> has no owner in the table of {PAGE}: add one"
                )
            continue
        row = max(rows, key=lambda one: len(one.prefix))
        yield from _owned(path, line, name, row)


def _owned(path: str, line: int, name: str, row: Owner) -> Iterator[Finding]:
    parts = PurePosixPath(path).parts
    module = parts[1] if parts[0] in ("src", "apps") and len(parts) > 2 else ""
    allowed = any(
        word == "any" or word == module or (word.startswith("*") and fnmatch(path, word))
        for word in row.owners
    )
    if not allowed:
        yield Finding(
            path,
            line,
            "owners",
            f"<{name}> belongs to {', '.join(row.owners)}, not to '{module or parts[0]}': use that"
            f" module's interface; the table is in {PAGE}",
        )
    elif path.endswith(".h") and not row.in_headers and not path.endswith("_detail.h"):
        yield Finding(path, line, "owners", f"<{name}> belongs into the .cc; see {PAGE}")


def banned(tree: Tree) -> Iterator[Finding]:
    """Calls that have a better one."""
    for path in tree.own:
        if not path.endswith(CPP) or not path.startswith(("src/", "apps/")):
            continue
        is_test = path.endswith(("_test.cc", "_bench.cc"))
        for number, line in enumerate(tree.lines(path), 1):
            code = re.sub(r'"(\\.|[^"\\])*"', '""', line).partition("//")[0]
            for pattern, places, better in BANNED:
                if path.startswith(places or ("-",)) or (is_test and "getenv" in pattern):
                    continue
                found = re.search(pattern, code)
                if found:
                    call = found[0].rstrip("(")
                    yield Finding(path, number, "banned", f"{call}: use {better}")


def sizes(tree: Tree) -> Iterator[Finding]:
    """Files, lines and functions stay small."""
    for path in tree.own:
        cmake = path.endswith((".cmake", "CMakeLists.txt"))
        if not (tree.is_code(path) or cmake or path.endswith(".md")):
            continue
        lines = tree.lines(path)
        if len(lines) > FILE_LINES:
            yield Finding(path, 1, "sizes", f"{len(lines)} lines; {FILE_LINES} at most: split it")
        if path.endswith(".md"):
            continue
        limit = COLUMNS["cmake" if cmake else "code"]
        for number, line in enumerate(lines, 1):
            if len(line) > limit:
                yield Finding(path, number, "sizes", f"{len(line)} columns; {limit} at most")
        for number, name, length in _functions(tree, path):
            if length > FUNCTION_LINES:
                yield Finding(
                    path, number, "sizes", f"{name} has {length} lines; {FUNCTION_LINES} at most"
                )


def _functions(tree: Tree, path: str) -> Iterator[tuple[int, str, int]]:
    """Line, name and length of functions; for C++ and shell those that begin in column 0."""
    if tree.is_python(path):
        try:
            parsed = ast.parse(tree.text(path))
        except SyntaxError:
            return  # black says it better
        for node in ast.walk(parsed):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1
        return
    start, name = 0, ""
    for number, line in enumerate(tree.lines(path), 1):
        # A line like `Result<int> f(int a) {`, or the last of a longer head; no table, no struct.
        opens = re.match(r"(?!namespace|extern|struct|class|enum|union)\w[^=]*\)[^=]*\{$", line)
        if opens and not start:
            start, name = number, (re.findall(r"([\w:~]+)\s*\(", line) or ["a function"])[0]
        elif line.startswith("}") and start:
            yield start, name, number - start + 1
            start = 0


def _includes(tree: Tree, quoted: bool) -> Iterator[tuple[str, int, str]]:
    for path in tree.own:
        if not path.endswith(CPP) or not path.startswith(("src/", "apps/")):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            found = INCLUDE.match(line)
            if found and found[1 if quoted else 2]:
                yield path, number, found[1 if quoted else 2]
