# SPDX-License-Identifier: Apache-2.0
"""What devcluster remembers between two commands: settings, ports and the daemons it started."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from devcluster.layout import DevclusterError, Layout
from devcluster.process import Process, alive, boot_id

SERVICES = ["munged", "mariadbd", "slurmdbd", "slurmctld"]
LOCK_SECONDS = 90


@dataclass
class Settings:
    """What `up` was asked for."""

    cluster: str
    nodes: int = 8
    cpus: int = 64
    gpus: int = 4
    memory: int = 16000
    prefix: str = "n"
    cgroup: bool = False
    conf: str = ""
    plugstack: list[str] = field(default_factory=list)

    def node_names(self) -> list[str]:
        width = max(3, len(str(self.nodes)))
        return [f"{self.prefix}{number:0{width}}" for number in range(1, self.nodes + 1)]

    def node_range(self) -> str:
        names = self.node_names()
        first, last = (name.removeprefix(self.prefix) for name in (names[0], names[-1]))
        return names[0] if first == last else f"{self.prefix}[{first}-{last}]"


@dataclass
class Record:
    """The cluster as it was last started; `booted` tells pids of an earlier boot from today's."""

    settings: Settings
    first_port: int = 0
    booted: str = ""
    complete: bool = False
    daemons: dict[str, Process] = field(default_factory=dict)

    def names(self) -> list[str]:
        return SERVICES + self.settings.node_names()

    def ports(self) -> dict[str, int]:
        names = ["slurmdbd", "slurmctld", *self.settings.node_names()]
        return {name: self.first_port + index for index, name in enumerate(names)}

    def living(self, name: str) -> Process | None:
        """The daemon of that name if it runs."""
        process = self.daemons.get(name)
        return process if self.booted == boot_id() and alive(process) else None

    def state(self) -> str:
        count = sum(1 for name in self.names() if self.living(name))
        if count == 0:
            return "down"
        return "up" if self.complete and count == len(self.names()) else "degraded"


def load(layout: Layout) -> Record | None:
    """The record, or None where there is none or a crash has left half of one."""
    try:
        found: dict[str, Any] = json.loads(layout.record.read_text())
        return Record(
            settings=Settings(**found["settings"]),
            first_port=int(found["first_port"]),
            booted=str(found["booted"]),
            complete=bool(found["complete"]),
            daemons={name: Process(**entry) for name, entry in found["daemons"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def save(layout: Layout, record: Record) -> None:
    """Replaces the record in one step, so that a reader never sees half of it."""
    temporary = layout.root / f".devcluster.json.{os.getpid()}"
    temporary.write_text(json.dumps(asdict(record), indent=1) + "\n")
    temporary.chmod(0o644)  # `status` and `run` are for everybody
    os.replace(temporary, layout.record)


@contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """One command at a time changes a cluster; daemons never inherit the lock."""
    with open(layout.lock, "a", encoding="utf-8") as handle:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DevclusterError(
                        f"another devcluster command has been at work on {layout.root} for "
                        f"{LOCK_SECONDS} s: try again when it is done"
                    ) from None
            time.sleep(0.1)
        yield
