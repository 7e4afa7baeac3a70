# SPDX-License-Identifier: Apache-2.0
"""Each rule of tools/tidy finds what it is for, and only that."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS / "lib"))

from house_rules import generated  # noqa: E402
from house_rules.rules import RULES  # noqa: E402
from house_rules.tree import Tree  # noqa: E402

TABLE = """
vetta_module(core FLOOR 0 LIBS vetta_fmt NODE)
vetta_module(model FLOOR 1 DEPS core)
vetta_module(http FLOOR 2
    DEPS core   # no model
    LIBS OpenSSL::SSL)
vetta_module(rules FLOOR 3 DEPS core model)
vetta_module(score FLOOR 3 DEPS core model)
"""
OWNERS = """# Architecture

| library | include | owner | in headers |
|---|---|---|---|
| fmt | `<fmt/` | any | no |
| Asio | `<boost/asio` | http | yes |
| Beast | `<boost/beast` | http | no |
| GoogleTest | `<gtest/` | *_test.cc | no |
"""
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
# Spelled apart, so that the gate does not find this file.
PUT_OFF = "FIX" + "ME"


def tree(folder: Path, files: dict[str, str]) -> Tree:
    base = {"src/CMakeLists.txt": TABLE, "docs/internals/architecture.md": OWNERS}
    for path, text in (base | files).items():
        full = folder / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
    return Tree(folder)


def findings(folder: Path, rule: str, files: dict[str, str]) -> list[str]:
    return [str(found) for found in RULES[rule](tree(folder, files))]


def test_the_module_table_is_read_over_lines_and_comments(tmp_path: Path) -> None:
    modules = tree(tmp_path, {}).modules
    assert modules["http"].deps == ("core",) and modules["http"].floor == 2
    assert modules["core"].deps == () and list(modules)[-1] == "score"


@pytest.mark.parametrize(
    ("path", "include", "said"),
    [
        ("src/model/a.cc", "rules/a.h", ["'model'", "'rules'", "floor 1 to floor 3", "page.md"]),
        ("src/rules/a.cc", "score/a.h", ["'rules'", "'score'", "floor 3 to floor 3"]),
        ("src/http/a.cc", "model/a.h", ["'http'", "'model'", "does not declare it"]),
        ("src/http/a.h", "nowhere/a.h", ["'http'", "no module 'nowhere'"]),
        ("src/core/a.cc", "a.h", ['write "core/a.h"']),
        ("src/rules/a.cc", "core/x_detail.h", ["private to module 'core'"]),
    ],
)
def test_a_bad_arrow_is_named(tmp_path: Path, path: str, include: str, said: list[str]) -> None:
    found = findings(tmp_path, "arrows", {path: f'#include "{include}"\n'})
    assert len(found) == 1 and found[0].startswith(f"{path}:1: arrows:")
    for words in said:
        assert words.replace("page.md", "docs/internals/architecture.md") in found[0]


def test_good_arrows_pass(tmp_path: Path) -> None:
    files = {
        "src/rules/a.cc": '#include "rules/a.h"\n\n#include <vector>\n\n#include "core/result.h"\n',
        "src/core/x_test.cc": '#include "core/x_detail.h"\n',
    }
    assert findings(tmp_path, "arrows", files) == []


def test_a_program_declares_what_it_includes(tmp_path: Path) -> None:
    files = {
        "apps/CMakeLists.txt": "vetta_app(vettad DEPS core)\n",
        "apps/vettad/main.cc": '#include "core/result.h"\n#include "http/server.h"\n',
    }
    found = findings(tmp_path, "arrows", files)
    assert len(found) == 1 and "'vettad' includes module 'http'" in found[0]


@pytest.mark.parametrize(
    ("path", "include", "said"),
    [
        ("src/core/a.cc", "boost/beast/core.hpp", "belongs to http, not to 'core'"),
        ("src/http/a.h", "boost/beast/core.hpp", "belongs into the .cc"),
        ("src/core/a.cc", "boost/asio.hpp", "belongs to http"),
        ("src/core/a.cc", "gtest/gtest.h", "belongs to *_test.cc"),
        ("src/core/a.cc", "leveldb/db.h", "no owner in the table"),
    ],
)
def test_third_party_headers_have_an_owner(
    tmp_path: Path, path: str, include: str, said: str
) -> None:
    found = findings(tmp_path, "owners", {path: f"#include <{include}>\n"})
    assert len(found) == 1 and said in found[0]


def test_the_pages_modules_are_those_of_the_build(tmp_path: Path) -> None:
    page = """# Architecture

| floor | module | may include | is for |
|--:|---|---|---|
| 0 | [core](../../src/core/README.md) | – | results |
| 1 | model | core | data |
| 2 | http | all below | server |
| 3 | rules | core model | rules |
| 3 | lost | core | nothing |
"""
    found = findings(tmp_path, "modules", {"docs/internals/architecture.md": page})
    assert len(found) == 3
    assert ":7:" in found[0] and "| 2 | http | core |" in found[0]
    assert "| 3 | score | core model |" in found[1]
    assert ":9:" in found[2] and "'lost'" in found[2]


def test_owners_may_include_and_asio_is_shared_in_headers(tmp_path: Path) -> None:
    files = {
        "src/http/a.h": "#include <boost/asio/io_context.hpp>\n#include <sys/stat.h>\n",
        "src/http/a.cc": "#include <boost/beast/core.hpp>\n#include <fmt/format.h>\n",
        "src/core/a_test.cc": "#include <gtest/gtest.h>\n#include <vector>\n",
    }
    assert findings(tmp_path, "owners", files) == []


@pytest.mark.parametrize(
    ("line", "better"),
    [
        ('std::system("ls");', "without a shell"),
        ("auto t = strerror(errno);", "errno_text"),
        ("auto t = std::localtime(&now);", "core/time.h"),
        ("int dice = rand();", "<random>"),
        ("std::this_thread::sleep_for(1s);", "timer"),
        ("std::cout << 1;", "apps print"),
        ("using namespace std;", "full names"),
    ],
)
def test_a_banned_call_names_the_better_one(tmp_path: Path, line: str, better: str) -> None:
    found = findings(tmp_path, "banned", {"src/core/a.cc": f"{line}\n"})
    assert len(found) == 1 and better in found[0]


def test_words_in_comments_texts_and_other_names_are_not_calls(tmp_path: Path) -> None:
    text = '// rand() is bad\nlog("use strerror(1)");\nbrand(1);\nfile_system(2);\nx.system(3);\n'
    files = {"src/core/a.cc": text, "src/cli/b.cc": "std::cout << 1;\n"}
    assert findings(tmp_path, "banned", files) == []


def test_sizes(tmp_path: Path) -> None:
    body = "  x();\n" * 80
    files = {
        "src/core/long.cc": SPDX + "int x;\n" * 800,
        "src/core/wide.cc": SPDX + "int " + "x" * 97 + ";\n",
        "src/core/deep.cc": SPDX + "void Foo::bar(int a) {\n" + body + "}\n",
        "src/core/fine.cc": SPDX + "namespace a {\n" + body + "}\nint f() {\n  x();\n}\n",
        "tools/deep.py": "def f() -> None:\n" + "    x()\n" * 75,
        "tools/deep.sh": "go() {\n" + body + "}\n",
    }
    found = findings(tmp_path, "sizes", files)
    assert [line.split(": ")[0] for line in found] == [
        "src/core/deep.cc:2",
        "src/core/long.cc:1",
        "src/core/wide.cc:2",
        "tools/deep.py:1",
        "tools/deep.sh:1",
    ]
    assert "Foo::bar has 82 lines" in found[0]


def test_recorded_data_is_left_alone(tmp_path: Path) -> None:
    data = {"tests/golden/a.py": "x" * 200 + "\n", "src/core/testdata/a.md": "no title\n"}
    for rule in ("sizes", "titles", "spdx", "machines"):
        found = findings(tmp_path, rule, data)
        assert [line for line in found if not line.startswith("src/CMake")] == []


def test_a_page_has_one_title_on_its_first_line(tmp_path: Path) -> None:
    files = {
        "docs/a.md": "# One\n\n```sh\n# a comment\n```\n\n    # code\n",
        "docs/b.md": "# One\n\n# Two\n",
        "docs/c.md": "\n# Late\n",
        "docs/d.md": "text\n",
    }
    found = findings(tmp_path, "titles", files)
    assert [line.split(":")[0] for line in found] == ["docs/b.md", "docs/c.md", "docs/d.md"]


def test_links_lead_to_files_folders_and_headings(tmp_path: Path) -> None:
    good = "# A\n[b](b.md) [up](../src/) [top](#a) [far](https://x.org) [head](b.md#two-words)\n"
    files = {
        "docs/a.md": good + "`[no](code.md)`\n",
        "docs/b.md": "# B\n\n## Two words!\n",
        "docs/c.md": "# C\n[x](gone.md)\n[y](b.md#three)\n",
    }
    found = findings(tmp_path, "links", files)
    assert len(found) == 2
    assert "docs/c.md:2" in found[0] and "gone.md leads to nothing" in found[0]
    assert "no heading #three" in found[1]


def test_a_page_that_no_link_reaches_is_lost(tmp_path: Path) -> None:
    files = {
        "README.md": "# V\n[docs](docs/README.md)\n",
        "docs/README.md": "# D\n[in](internals/architecture.md)\n",
        "docs/lost.md": "# L\n",
    }
    found = findings(tmp_path, "lost", files)
    assert len(found) == 1 and found[0].startswith("docs/lost.md")


def test_modules_and_benches_have_short_pages(tmp_path: Path) -> None:
    files = {f"src/{name}/README.md": "# x\n" for name in ("core", "model", "http", "rules")}
    files["src/core/README.md"] = "# x\n" * 41
    files["bench/probe/run"] = "#!/usr/bin/python3\n"
    found = findings(tmp_path, "readmes", files)
    said = "\n".join(found)
    assert len(found) == 3
    assert "more than 40" in said and "'score' has no README" in said and "bench/probe" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Changelog\n\n## [1.0.0] - 2026-01-01\n\n### Added\n\n- a\n", "[Unreleased]"),
        ("# Changelog\n\n## [Unreleased]\n\n### New\n\n- a\n", "'New' is none of"),
        ("# Changelog\n\n## [Unreleased]\n\n### Added\n\n### Fixed\n\n- a\n", "'Added' is empty"),
        (
            "# Changelog\n\n## [Unreleased]\n\n## [1.0.0] - 2026-01-01\n\n"
            "## [1.1.0] - 2026-01-01\n",
            "newest down",
        ),
        ("# Changelog\n", "[Unreleased]"),
    ],
)
def test_the_changelog_keeps_its_shape(tmp_path: Path, text: str, said: str) -> None:
    found = findings(tmp_path, "changelog", {"CHANGELOG.md": text})
    assert len(found) == 1 and said in found[0]


def test_a_good_changelog_passes(tmp_path: Path) -> None:
    text = (
        "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- a\n\n"
        "## [1.10.0] - 2026-02-01\n\n### Fixed\n\n- b\n\n## [1.9.0] - 2026-01-01\n"
    )
    assert findings(tmp_path, "changelog", {"CHANGELOG.md": text}) == []


def test_spdx_line_is_first(tmp_path: Path) -> None:
    files = {
        "src/core/good.h": SPDX,
        "src/core/late.h": "#pragma once\n" + SPDX,
        "tools/good": "#!/usr/bin/env bash\n# SPDX-License-Identifier: Apache-2.0\n",
        "tools/bad": "#!/usr/bin/python3\nimport sys\n",
        "tools/empty.py": "",
    }
    found = [line.split(":")[0] for line in findings(tmp_path, "spdx", files)]
    assert found == ["src/CMakeLists.txt", "src/core/late.h", "tools/bad"]


def test_files_that_nothing_names_are_dead(tmp_path: Path) -> None:
    files = {
        "cmake/Used.cmake": "",
        "cmake/Unused.cmake": "",
        "CMakeLists.txt": "include(Used)\n",
        "src/stray/a.cc": "",
    }
    found = [line.split(":")[0] for line in findings(tmp_path, "dead", files)]
    assert found == ["cmake/Unused.cmake", "src/stray/a.cc"]


def test_each_example_is_named_by_a_test(tmp_path: Path) -> None:
    files = {
        "examples/train/job.sh": "srun python3 train.py\n",
        "examples/train/train.py": "",
        "examples/train/README.md": "# x\n",
        "examples/lonely.sh": "",
        "tests/cluster/example_test.py": 'EXAMPLE = "train/job.sh"\n',
    }
    found = findings(tmp_path, "examples", files)
    assert len(found) == 1 and found[0].startswith("examples/lonely.sh")


def test_leftovers_and_machine_paths(tmp_path: Path) -> None:
    files = {
        "src/core/a.cc": f"// {PUT_OFF}: later\n",
        "docs/a.md": "# A\nsee " + "/home" + "/bob/x and /home/alice/x and /var/work/x\n",
    }
    assert len(findings(tmp_path, "leftovers", files)) == 1
    found = findings(tmp_path, "machines", files)
    assert len(found) == 1 and "bob" in found[0]


def test_scripts_are_executable_and_texts_end_well(tmp_path: Path) -> None:
    files = {"tools/a": "#!/bin/sh\n", "docs/b.md": "# B", "tools/c.py": "x = 1\n"}
    found = findings(tmp_path, "files", files)
    assert len(found) == 2 and "chmod +x" in found[1] and "no newline" in found[0]


def test_a_stale_generated_page_is_found_and_mended(tmp_path: Path) -> None:
    header = SPDX + "enum Exit : int {\n  exit_found = 3,  ///< done and found something\n};\n"
    small = tree(tmp_path, {"src/core/error_table.h": header})
    page = "docs/reference/exit-codes.md"
    assert generated.stale(small) == [page]
    assert generated.write(small) == [page] and generated.stale(small) == []
    assert "| 3 | found | done and found something |" in (tmp_path / page).read_text()


def test_tidy_says_where_and_exits_1_and_knows_its_rules(tmp_path: Path) -> None:
    tree(tmp_path, {"src/core/a.cc": f"// {PUT_OFF}\n"})
    base = [str(TOOLS / "tidy"), "--root", str(tmp_path), "--only"]
    done = subprocess.run([*base, "leftovers"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.startswith("src/core/a.cc:1: leftovers:")
    assert subprocess.run([*base, "titles"], capture_output=True).returncode == 0
    wrong = subprocess.run([*base, "colours"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "no rule 'colours'" in wrong.stderr


def test_all_rules_over_this_tree_take_seconds() -> None:
    start = time.process_time()
    whole = Tree(TOOLS.parent)
    for rule in RULES.values():
        list(rule(whole))
    assert time.process_time() - start < 10
