# SPDX-License-Identifier: Apache-2.0
"""Where everything lies: one folder holds the whole cluster, so that nothing else is touched."""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

COULD_NOT = 1
USAGE = 2
NOT_ALLOWED = 4

# Slurm's own sockets lie in the folder: the longest is the PMIx one of a step,
# spool/n0001/stepd.slurm.pmix.4294967295.4294967295 (50 bytes); the kernel takes 107 in all.
MAX_DIR_BYTES = 56


class DevclusterError(Exception):
    """A sentence for the person at the terminal, and the exit code that goes with it."""

    def __init__(self, message: str, code: int = COULD_NOT) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Layout:
    """The paths of one cluster; `root` is absolute and free of symbolic links."""

    root: Path

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def slurm_conf(self) -> Path:
        return self.etc / "slurm.conf"

    @property
    def plugstack_dir(self) -> Path:
        return self.etc / "plugstack.d"

    @property
    def munge_key(self) -> Path:
        return self.etc / "munge.key"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def munge_socket(self) -> Path:
        return self.run / "munge.socket"

    @property
    def db_socket(self) -> Path:
        return self.run / "mariadb.socket"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def db(self) -> Path:
        return self.root / "db"

    @property
    def ctld_state(self) -> Path:
        return self.root / "state"

    @property
    def spool(self) -> Path:
        return self.root / "spool"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def lock(self) -> Path:
        return self.root / "devcluster.lock"

    @property
    def record(self) -> Path:
        return self.root / "devcluster.json"

    def log_of(self, daemon: str) -> Path:
        return self.log / f"{daemon}.log"

    def is_ours(self) -> bool:
        """True when this folder was made by devcluster: only then may its content be deleted."""
        return self.lock.is_file()


def default_dir() -> Path:
    """$VETTA_DEVCLUSTER_DIR, else a short path of this user's own."""
    named = os.environ.get("VETTA_DEVCLUSTER_DIR")
    return Path(named) if named else Path(f"/tmp/vetta-devcluster-{os.getuid()}")


def resolve(named: str | None) -> Layout:
    """The layout of the folder that was asked for; the folder need not exist yet."""
    path = Path(named) if named else default_dir()
    if path.is_symlink() and os.lstat(path).st_uid not in (0, os.geteuid()):
        raise DevclusterError(f"{path} is somebody else's link: choose another --dir")
    layout = Layout(Path(os.path.realpath(path)))
    size = len(os.fsencode(layout.root))
    if size > MAX_DIR_BYTES:
        raise DevclusterError(
            f"the folder {layout.root} has a path of {size} bytes; Slurm puts sockets in it, "
            f"whose names have a limit: choose a path of at most {MAX_DIR_BYTES} bytes with --dir",
            USAGE,
        )
    if re.search(r"[^A-Za-z0-9_./+-]", str(layout.root)):
        raise DevclusterError(
            f"the folder {layout.root} has a character in its path that slurm.conf cannot hold: "
            "use letters, digits and _ . + - only",
            USAGE,
        )
    return layout


def default_name(layout: Layout) -> str:
    """`dev` for the default folder, else a name made from the folder's."""
    if layout.root == Path(os.path.realpath(f"/tmp/vetta-devcluster-{os.getuid()}")):
        return "dev"
    name = re.sub(r"[^a-z0-9]+", "_", layout.root.name.lower()).strip("_")[:32]
    return name if name else "dev"


def prepare(layout: Layout) -> None:
    """Makes the folder, or refuses one that is somebody else's or holds something else."""
    claim(layout.root, layout.lock, "a dev cluster's", "--dir")


def claim(root: Path, marker: Path, whose: str, option: str) -> None:
    """Makes the folder `root` where it is missing; refuses one whose content may not be deleted: it
    is somebody else's, or holds files without the `marker` that says whose they are."""
    if not root.exists() and not root.is_symlink():
        root.mkdir(parents=True)
        root.chmod(0o755)  # whatever the umask: ordinary users submit jobs
    found = os.lstat(root)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise DevclusterError(
            f"the folder {root} belongs to somebody else, or others may write to it: "
            f"choose another one with {option}"
        )
    if not marker.is_file() and any(root.iterdir()):
        raise DevclusterError(
            f"the folder {root} holds files that are not {whose}: "
            f"choose an empty or a new one with {option}"
        )


def closed_ancestor(layout: Layout) -> Path | None:
    """The first folder on the way that ordinary users cannot pass, if there is one."""
    for folder in [layout.root, *layout.root.parents]:
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return folder
    return None
