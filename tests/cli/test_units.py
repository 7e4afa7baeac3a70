# SPDX-License-Identifier: Apache-2.0
"""The units, vettad's default socket and where `vetta` looks for it say the same."""

import json
import os
import re
import subprocess
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest
from daemon import BUILD, ROOT, Vettad, run_vetta

SYSTEM = "/run/vettad/vettad.sock"


def service(name: str) -> dict[str, str]:
    """The unit's [Service] section; of a word that is there twice the last one."""
    unit = ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(ROOT / "etc" / "systemd" / name)
    return dict(unit["Service"])


def test_no_unit_removes_the_others_sockets() -> None:
    vettad, agent = service("vettad.service"), service("vetta-agent.service")
    assert vettad["RuntimeDirectory"] == Path(SYSTEM).parent.name
    assert agent["RuntimeDirectory"] == "vetta"  # the plugin's and the agent's rundir
    assert agent["RuntimeDirectoryPreserve"] == "yes"  # jobs outlive the agent


def test_the_agents_memory_holds_all_rings_of_a_node() -> None:
    limits = (ROOT / "src" / "collect" / "intake.h").read_text()
    rings = re.search(r"rings = (\d+);", limits)  # of 1 MiB and a page
    assert rings
    assert int(service("vetta-agent.service")["MemoryMax"].removesuffix("M")) > int(rings[1]) * 1.1


@pytest.mark.skipif(os.geteuid() != 0, reason="others have a socket of their own")
def test_vettad_listens_there(fresh: Vettad) -> None:
    argv = [str(BUILD / "bin" / "vettad"), "--dump-config"]
    done = subprocess.run(argv, env=fresh.env, capture_output=True, text=True, check=True)
    assert tomllib.loads(done.stdout)["listen"] == [f"unix:{SYSTEM}"]


def test_vetta_looks_there_and_then_in_the_users_folders(fresh: Vettad) -> None:
    def server(**env: str) -> str:
        done = run_vetta(["config", "explain", "server", "--json"], {**fresh.env, **env})
        value: str = json.loads(done.stdout)["settings"][0]["value"]
        return value

    if not os.path.exists(SYSTEM):
        own = fresh.dir / ".local" / "state" / "vetta"
        own.mkdir(parents=True)
        (own / "vettad.sock").touch()
        assert server(XDG_RUNTIME_DIR="", XDG_STATE_HOME="") == f"unix:{own}/vettad.sock"
        (own / "vettad.sock").unlink()
    assert server(XDG_RUNTIME_DIR="", XDG_STATE_HOME="") == f"unix:{SYSTEM}"
