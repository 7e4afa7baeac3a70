# SPDX-License-Identifier: Apache-2.0
"""`up` and `start`: from nothing, or from what a crash has left, to nodes that are idle."""

import shutil
import subprocess
import time
from collections.abc import Callable

from devcluster import cgroups, config, daemons, ports
from devcluster.layout import DevclusterError, Layout, prepare
from devcluster.process import boot_id
from devcluster.record import Record, Settings, load, locked, save
from devcluster.stopping import end_all

READY_SECONDS = 60
ATTEMPTS = 3
ACCOUNT = "research"
USERS = "root,games,nobody"
# In the database's folder once all is in it; a database without it is made again.
COMPLETE = "devcluster-complete"

Say = Callable[[str], None]


def tool(layout: Layout, *argv: str, check: bool = True) -> str:
    """Runs one of Slurm's own commands on this cluster."""
    try:
        done = subprocess.run(
            [daemons.program(argv[0]), *argv[1:]],
            env=daemons.environment(layout),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=READY_SECONDS,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        raise DevclusterError(f"{' '.join(argv)} gave no answer in {READY_SECONDS} s") from None
    if check and done.returncode != 0:
        raise DevclusterError(f"{' '.join(argv)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _install_database(layout: Layout) -> bool:
    """Makes an empty database; one that a crash left half made is made again. True when new."""
    if (layout.db / COMPLETE).exists():
        return False
    shutil.rmtree(layout.db, ignore_errors=True)
    layout.db.mkdir(mode=0o700)
    argv = [daemons.program("mariadb-install-db"), "--no-defaults", f"--datadir={layout.db}"]
    argv += ["--user=root", "--auth-root-authentication-method=normal", "--skip-test-db"]
    with open(layout.log_of("mariadb-install-db"), "wb") as log:
        status = subprocess.run(
            argv + daemons.MARIADB_OPTIONS,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=daemons.environment(layout),
            cwd="/",
        ).returncode
    if status != 0:
        daemons.fail(layout, "mariadb-install-db", f"failed with exit code {status}")
    return True


def _start(layout: Layout, record: Record, *names: str) -> list[daemons.Daemon]:
    started = [daemons.describe(layout, record, name) for name in names]
    for daemon in started:
        daemons.spawn(layout, record, daemon)
    return started


def _accounts(layout: Layout) -> subprocess.Popen[str]:
    """Begins to add accounts as a site has them; slow, so Slurm's other daemons start meanwhile.

    Nothing is enforced: users without an account can submit all the same.
    """
    session = subprocess.Popen(
        [daemons.program("sacctmgr"), "-i", "-Q"],
        env=daemons.environment(layout),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
    )
    assert session.stdin
    session.stdin.write(
        f"add account {ACCOUNT} description=default organization=dev\n"
        f"add user {USERS} account={ACCOUNT}\nquit\n"
    )
    session.stdin.close()
    session.stdin = None
    return session


def _finish(session: subprocess.Popen[str]) -> None:
    try:
        said, _ = session.communicate(timeout=READY_SECONDS)
    except subprocess.TimeoutExpired:
        raise DevclusterError(f"sacctmgr added no accounts in {READY_SECONDS} s") from None
    if session.returncode != 0:
        raise DevclusterError(f"sacctmgr could not add accounts: {said.strip()}")


def _wait_idle(layout: Layout, record: Record, seconds: float) -> None:
    """A node is idle once its slurmd has registered."""
    deadline = time.monotonic() + seconds
    states: dict[str, str] = {}
    while time.monotonic() < deadline:
        for name in record.names():
            if not record.living(name):
                daemons.fail(layout, name, "ended while starting")
        lines = tool(layout, "sinfo", "-h", "-N", "-p", "main", "-o", "%N %T", check=False).split(
            "\n"
        )
        states = dict(line.split(None, 1) for line in lines if " " in line)
        fresh = [s for s in states.values() if s in ("idle", "mixed", "allocated", "completing")]
        if len(fresh) == record.settings.nodes:
            return
        time.sleep(0.1)
    late = [name for name in record.settings.node_names() if states.get(name) != "idle"]
    name = late[0] if late else "slurmctld"
    state = states.get(name, "not known to slurmctld")
    daemons.fail(layout, name, f"was not ready after {seconds:.0f} s (its node is {state})")


def _bring_up(layout: Layout, record: Record, attempt: int, say: Say) -> None:
    """One try; whoever calls ends what it leaves when it fails."""
    say("files and ports")
    held = ports.reserve(layout, record.settings.nodes + 2, attempt)
    try:
        record.first_port = held.first
        record.daemons = {}
        record.complete = False
        record.booted = boot_id()
        config.make_folders(layout, record.settings)
        config.write(layout, record)
        save(layout, record)
        _start_all(layout, record, say)
        record.complete = True
        save(layout, record)
    finally:
        held.release()


def _start_all(layout: Layout, record: Record, say: Say) -> None:
    """In the order in which the daemons need each other."""
    munged = _start(layout, record, "munged")
    say("database")
    new = _install_database(layout)
    database = _start(layout, record, "mariadbd")
    daemons.wait_ready(layout, record, munged + database, READY_SECONDS)
    say("slurmdbd")
    daemons.wait_ready(layout, record, _start(layout, record, "slurmdbd"), READY_SECONDS)
    session = None
    try:
        if new:
            tool(layout, "sacctmgr", "-i", "add", "cluster", record.settings.cluster)
            session = _accounts(layout)
        say("slurmctld")
        daemons.wait_ready(layout, record, _start(layout, record, "slurmctld"), READY_SECONDS)
        say(f"{record.settings.nodes} nodes")
        nodes = _start(layout, record, *record.settings.node_names())
        daemons.wait_ready(layout, record, nodes, READY_SECONDS)
        _wait_idle(layout, record, READY_SECONDS)
        if session:
            say("accounts")
            _finish(session)
        (layout.db / COMPLETE).touch()
    finally:
        if session and session.poll() is None:
            session.kill()
            session.wait()


def _differences(running: Settings, asked: dict[str, object]) -> list[str]:
    """What was asked for in so many words and is not so."""
    return [
        f"--{'name' if name == 'cluster' else name}"
        for name, value in asked.items()
        if getattr(running, name) != value
    ]


def up(layout: Layout, asked: dict[str, object], default_name: str, fresh: bool, say: Say) -> bool:
    """Brings the cluster up; False when it was up already."""
    prepare(layout)
    with locked(layout):
        daemons.trim_logs(layout)
        before = load(layout)
        if before and before.state() == "up" and not fresh:
            if different := _differences(before.settings, asked):
                raise DevclusterError(
                    f"the cluster in {layout.root} is up with other settings than "
                    f"{', '.join(different)} asks for: `devcluster down` first"
                )
            return False
        say("leftovers")
        end_all(layout)
        settings = Settings(cluster=default_name)
        for name, value in asked.items():
            setattr(settings, name, value)
        if settings.cgroup:
            cgroups.check(layout, settings)
        if fresh:
            wipe(layout)
        elif before and before.settings.cluster != settings.cluster and layout.db.exists():
            raise DevclusterError(
                f"{layout.root} holds the accounting of the cluster {before.settings.cluster}, "
                f"not of {settings.cluster}: give the same --name, another --dir, or --fresh to "
                "delete it"
            )
        _try_up(layout, Record(settings), say)
        return True


def wipe(layout: Layout) -> None:
    """Deletes all but the lock, which is the mark that the folder is devcluster's."""
    for entry in layout.root.iterdir():
        if entry == layout.lock:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _try_up(layout: Layout, record: Record, say: Say) -> None:
    """A failed or interrupted try leaves nothing running; a port that was taken is tried again."""
    for attempt in range(ATTEMPTS):
        try:
            _bring_up(layout, record, attempt, say)
            return
        except daemons.PortTaken:
            end_all(layout)
            if attempt == ATTEMPTS - 1:
                raise
        except BaseException:
            end_all(layout)
            raise


def start(layout: Layout, name: str) -> bool:
    """Starts one daemon again; False when it runs already."""
    with locked(layout):
        daemons.trim_logs(layout)
        record = known(layout, name)
        if record.living(name):
            return False
        if record.state() == "down":
            raise DevclusterError(f"the cluster in {layout.root} is down: `devcluster up` first")
        daemons.wait_ready(layout, record, _start(layout, record, name), READY_SECONDS)
        return True


def known(layout: Layout, name: str) -> Record:
    """The record of a cluster that has a daemon of that name."""
    record = load(layout)
    if record is None:
        raise DevclusterError(f"there is no cluster in {layout.root}: `devcluster up` first")
    if name not in record.names():
        raise DevclusterError(f"no daemon {name}: choose one of {', '.join(record.names())}", 2)
    return record
