# SPDX-License-Identifier: Apache-2.0
"""Whose folder quickstart takes: it deletes what lies there."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

from devcluster.layout import DevclusterError  # noqa: E402
from quickstart import Quickstart  # noqa: E402
from vetta_stack import Stack  # noqa: E402


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stack, "up", lambda self: None)
    monkeypatch.setattr(Stack, "down", lambda self: None)


def test_a_folder_with_somebody_s_files_is_left_as_it_is(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("years of work")
    with pytest.raises(DevclusterError, match="--keep"):
        Quickstart(tmp_path).start()
    assert thesis.read_text() == "years of work"


def test_what_an_earlier_run_left_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Quickstart(folder).start()
    (folder / "truth" / "old.csv").touch()
    Quickstart(folder).start()
    assert list((folder / "truth").iterdir()) == []


@pytest.mark.parametrize("action", ["start", "stop"])
def test_a_folder_that_others_may_write_to_is_not_believed(tmp_path: Path, action: str) -> None:
    folder = tmp_path / "run"
    Quickstart(folder).start()
    folder.chmod(0o777)
    with pytest.raises(DevclusterError, match="others may write"):
        getattr(Quickstart(folder), action)()
