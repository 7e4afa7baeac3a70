# SPDX-License-Identifier: Apache-2.0
"""A bad arrow must not configure, and an include that leaves the table must not pass tools/tidy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = "vetta_module(core FLOOR 0)\nvetta_module(model FLOOR 1 DEPS core)\n"


def small_tree(folder: Path, table: str) -> Path:
    """A project of three modules on the real cmake/VettaModule.cmake."""
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        "project(small LANGUAGES CXX)\n"
        "set(VETTA_TESTS OFF)\nset(VETTA_NODE_SET_ONLY OFF)\n"
        f"include({ROOT}/cmake/VettaModule.cmake)\n"
        "add_subdirectory(src)\n"
    )
    source = folder / "src"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(table)
    for name in ("core", "model", "rules"):
        (source / name).mkdir()
        (source / name / f"{name}.h").write_text("#pragma once\n")
        (source / name / f"{name}.cc").write_text(f'#include "{name}/{name}.h"\n')
    return folder


def configure(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build"],
        capture_output=True,
        text=True,
    )


def test_a_table_whose_arrows_point_down_configures(tmp_path: Path) -> None:
    done = configure(small_tree(tmp_path, TABLE + "vetta_module(rules FLOOR 3 DEPS core model)\n"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("table", "first", "second"),
    [
        ("vetta_module(core FLOOR 0 DEPS model)\n", "core", "model"),
        (TABLE + "vetta_module(rules FLOOR 1 DEPS model)\n", "rules", "model"),
        (TABLE + "vetta_module(rules FLOOR 0 DEPS model)\n", "rules", "model"),
        (TABLE + "vetta_module(rules FLOOR 3 DEPS nowhere)\n", "rules", "nowhere"),
    ],
    ids=["upward", "sideways", "from below", "undeclared"],
)
def test_a_bad_arrow_does_not_configure(
    tmp_path: Path, table: str, first: str, second: str
) -> None:
    done = configure(small_tree(tmp_path, table))
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert f"'{first}'" in said and f"'{second}'" in said
    assert "docs/internals/architecture.md" in said


def test_an_upward_include_names_both_modules_and_the_page(tmp_path: Path) -> None:
    folder = small_tree(tmp_path, TABLE + "vetta_module(rules FLOOR 3 DEPS core model)\n")
    bad = folder / "src" / "model" / "model.cc"
    bad.write_text('#include "rules/rules.h"\n')
    done = subprocess.run(
        [ROOT / "tools" / "tidy", "--root", folder, "--only", "arrows"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "src/model/model.cc:1" in done.stdout
    assert "'model'" in done.stdout and "'rules'" in done.stdout
    assert "docs/internals/architecture.md" in done.stdout
