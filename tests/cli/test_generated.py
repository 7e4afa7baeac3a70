# SPDX-License-Identifier: Apache-2.0
"""What is made from the tree of commands is as fresh as the tree."""

from pathlib import Path

from daemon import ROOT, Vettad, run_vetta


def test_the_reference_is_fresh(fresh: Vettad) -> None:
    made = run_vetta(["help", "--markdown"], fresh.env).stdout
    kept = Path(ROOT / "docs" / "reference" / "cli.md").read_text()
    assert kept == made, "run: build/release/bin/vetta help --markdown > docs/reference/cli.md"


def test_the_manual_page_names_every_command(fresh: Vettad) -> None:
    page = run_vetta(["help", "--man"], fresh.env).stdout
    assert page.startswith(".TH VETTA 1")
    for command in ("job list", "job watch", "why", "diagnose job", "probe exec", "completion"):
        assert f".SS vetta {command}\n" in page, command
