# SPDX-License-Identifier: Apache-2.0
"""The command line of devcluster."""

import argparse
import json
import os
import re
import signal
import sys
import time
from types import FrameType
from typing import Any, NoReturn

from devcluster import layout as places
from devcluster import starting, stopping
from devcluster.layout import COULD_NOT, NOT_ALLOWED, USAGE, DevclusterError, Layout
from devcluster.record import SERVICES, Record, load, locked, save

EPILOG = """\
examples:
  devcluster up                             8 nodes of 64 CPUs and 4 GPUs, in a few seconds
  devcluster run -- srun -N2 hostname       one command on it
  devcluster run -- bash                    a shell on it
  devcluster up --dir /tmp/two --nodes 2    a second cluster beside the first
  devcluster up --plugstack 'optional /path/to/spank_vetta.so'
  devcluster kill n003                      that slurmd crashes; `start n003` starts it again
  devcluster down --purge                   ends it and deletes its folder

The GPUs are simulated: Slurm allocates them, nothing is behind them. The partitions are `main`
(default) and `low`, whose jobs are requeued when one in main needs their place.
With --cgroup jobs are confined to their memory and GPUs, as on a production node. Two such
clusters on one host need different --prefix.
SPANK plugins: drop a file with plugstack lines into DIR/etc/plugstack.d/ (NAME.conf).
exit codes: 0 fine (status: up), 1 could not (status: not up), 2 usage, 4 not allowed
"""


def _number(low: int, high: int) -> Any:
    def convert(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"a number from {low} to {high}, not '{text}'")
        return int(text)

    return convert


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="devcluster",
        description="A real Slurm on one machine, with all its state under one folder.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--dir", help="the cluster's folder (default: $VETTA_DEVCLUSTER_DIR, else one in /tmp)"
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    up = verbs.add_parser("up", parents=[common], help="bring the cluster up")
    up.add_argument("--nodes", type=_number(1, 512), help="how many nodes (default: 8)")
    up.add_argument("--cpus", type=_number(1, 4096), help="CPUs of a node (default: 64)")
    up.add_argument("--gpus", type=_number(0, 64), help="simulated GPUs of a node (default: 4)")
    up.add_argument("--memory", type=_number(64, 1 << 24), help="MB of a node (default: 16000)")
    up.add_argument("--name", help="ClusterName (default: dev, or made from the folder's name)")
    up.add_argument("--prefix", help="what the nodes' names begin with (default: n)")
    up.add_argument(
        "--cgroup",
        action="store_const",
        const=True,
        help="jobs in cgroups (version 1), as on a production node",
    )
    up.add_argument("--conf", metavar="FILE", help="lines to append to slurm.conf")
    up.add_argument(
        "--plugstack", metavar="LINE", action="append", help="a line for plugstack.conf; repeatable"
    )
    up.add_argument("--fresh", action="store_true", help="delete all earlier state first")
    up.add_argument("--json", action="store_true", help="print what `status --json` prints")
    down = verbs.add_parser("down", parents=[common], help="end it; jobs end with it")
    down.add_argument("--purge", action="store_true", help="delete the folder, too")
    status = verbs.add_parser("status", parents=[common], help="what runs, and where")
    status.add_argument("--json", action="store_true", help="one JSON object")
    run = verbs.add_parser("run", parents=[common], help="run a command with SLURM_CONF set")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD")
    kill = verbs.add_parser("kill", parents=[common], help="SIGKILL one daemon, as a crash")
    kill.add_argument("--jobs", action="store_true", help="and all that runs on that node")
    kill.add_argument("name", metavar="NAME")
    start = verbs.add_parser("start", parents=[common], help="start one daemon again")
    start.add_argument("name", metavar="NAME")
    return parser


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print("\r\033[K" + (f"devcluster: {text} " if text else ""), end="", file=sys.stderr)
        sys.stderr.flush()


def _need_root(what: str) -> None:
    if os.geteuid() != 0:
        raise DevclusterError(
            f"`devcluster {what}` needs root, because several slurmd start jobs as their users: "
            "run it with sudo",
            NOT_ALLOWED,
        )


def _asked(args: argparse.Namespace) -> dict[str, object]:
    """The settings that were given in so many words, as opposed to defaults."""
    names = ("nodes", "cpus", "gpus", "memory", "prefix", "cgroup", "plugstack")
    asked = {name: getattr(args, name) for name in names}
    asked["cluster"] = args.name
    if args.name is not None and not re.fullmatch("[a-z][a-z0-9_]{0,31}", args.name):
        raise DevclusterError(
            f"--name: up to 32 lower-case letters, digits and _, not '{args.name}'", USAGE
        )
    if args.prefix is not None and not re.fullmatch("[a-z][a-z-]{0,3}", args.prefix):
        raise DevclusterError(
            f"--prefix: up to 4 lower-case letters and -, not '{args.prefix}'", USAGE
        )
    if args.conf is not None:
        try:
            with open(args.conf, encoding="utf-8") as file:
                asked["conf"] = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise DevclusterError(f"--conf {args.conf} cannot be read: {error}", USAGE) from None
    return {name: value for name, value in asked.items() if value is not None}


def _up(args: argparse.Namespace, layout: Layout) -> int:
    asked = _asked(args)
    _need_root("up")
    began = time.monotonic()
    made = starting.up(layout, asked, places.default_name(layout), args.fresh, _progress)
    _progress("")
    record = load(layout)
    if record is None:
        raise DevclusterError(f"the record {layout.record} has gone")
    closed = places.closed_ancestor(layout)
    if closed:
        print(f"devcluster: ordinary users cannot enter {closed}: chmod o+x it", file=sys.stderr)
    if args.json:
        print(json.dumps(_report(layout, record)))
        return 0
    settings = record.settings
    took = f"up after {time.monotonic() - began:.1f} s" if made else "already up"
    print(
        f"cluster {settings.cluster} is {took}: {settings.node_range()}, each {settings.cpus} CPUs "
        f"and {settings.gpus} simulated GPUs\n"
        f"  export SLURM_CONF={layout.slurm_conf}\n"
        f"  {sys.argv[0]} run --dir {layout.root} -- srun -N2 hostname"
    )
    return 0


def _down(args: argparse.Namespace, layout: Layout) -> int:
    _need_root("down")
    if not layout.is_ours():
        print(f"no cluster in {layout.root}")
        return 0
    with locked(layout):
        count = stopping.end_all(layout)
        record = load(layout)
        if record:
            record.complete, record.daemons = False, {}
            save(layout, record)
        if args.purge:
            starting.wipe(layout)
            layout.lock.unlink()
            try:
                layout.root.rmdir()
            except OSError as error:
                raise DevclusterError(f"{layout.root} cannot be deleted: {error}") from None
    print(f"cluster in {layout.root} is down" + ("" if count else " (it was not up)"))
    return 0


def _report(layout: Layout, record: Record) -> dict[str, Any]:
    """Everything that a test needs to know."""
    daemons = {}
    for name in record.names():
        process = record.daemons.get(name)
        daemons[name] = {
            "pid": process.pid if process else None,
            "alive": record.living(name) is not None,
            "log": str(layout.log_of(name)),
        }
    return {
        "state": record.state(),
        "dir": str(layout.root),
        "slurm_conf": str(layout.slurm_conf),
        "plugstack_dir": str(layout.plugstack_dir),
        "cluster": record.settings.cluster,
        "nodes": record.settings.node_names(),
        "cpus": record.settings.cpus,
        "gpus": record.settings.gpus,
        "memory_mb": record.settings.memory,
        "ports": record.ports(),
        "daemons": daemons,
    }


def _status(args: argparse.Namespace, layout: Layout) -> int:
    record = load(layout)
    state = record.state() if record else "down"
    if args.json:
        empty: dict[str, Any] = {"state": "down", "dir": str(layout.root), "cluster": None}
        empty |= {"slurm_conf": str(layout.slurm_conf), "nodes": [], "ports": {}, "daemons": {}}
        print(json.dumps(_report(layout, record) if record else empty))
    elif record is None:
        print(f"no cluster in {layout.root}")
    else:
        print(f"cluster {record.settings.cluster} is {state}: {layout.root}")
        print(f"  SLURM_CONF={layout.slurm_conf}")
        for name in SERVICES + record.settings.node_names():
            living = record.living(name)
            port = record.ports().get(name)
            what = f"pid {living.pid}" if living else "not running"
            print(f"  {name:<10} {what}" + (f", port {port}" if port else ""))
    return 0 if state == "up" else COULD_NOT


def _run(args: argparse.Namespace, layout: Layout) -> NoReturn:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise DevclusterError("run: which command? devcluster run -- srun hostname", USAGE)
    if load(layout) is None:
        raise DevclusterError(f"there is no cluster in {layout.root}: `devcluster up` first")
    os.environ["SLURM_CONF"] = str(layout.slurm_conf)
    os.environ["VETTA_DEVCLUSTER_DIR"] = str(layout.root)
    path = os.environ.get("PATH", "/usr/bin:/bin").split(":")
    os.environ["PATH"] = ":".join(path + [p for p in ("/usr/bin", "/usr/sbin") if p not in path])
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        raise DevclusterError(f"run: no command {command[0]}", 127) from None
    except OSError as error:
        raise DevclusterError(f"run: {command[0]}: {error.strerror}", 126) from None


def _kill(args: argparse.Namespace, layout: Layout) -> int:
    _need_root("kill")
    record = starting.known(layout, args.name)
    if args.jobs and args.name in SERVICES:
        raise DevclusterError(f"kill --jobs: {args.name} is not a node", USAGE)
    killed = stopping.kill(layout, record, args.name, args.jobs)
    print(f"{args.name} killed" if killed else f"{args.name} was not running")
    return 0


def _start(args: argparse.Namespace, layout: Layout) -> int:
    _need_root("start")
    started = starting.start(layout, args.name)
    print(f"{args.name} started" if started else f"{args.name} runs already")
    return 0


def _interrupted(number: int, _frame: FrameType | None) -> NoReturn:
    """SIGTERM and SIGHUP clean up as ^C does; a second one must not stop the cleaning."""
    for other in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main(argv: list[str]) -> int:
    args = _parser().parse_args(argv)
    verbs = {"up": _up, "down": _down, "status": _status, "run": _run, "kill": _kill}
    if args.verb in ("up", "start"):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, _interrupted)
    try:
        return verbs.get(args.verb, _start)(args, places.resolve(args.dir))
    except DevclusterError as error:
        _progress("")
        print(f"devcluster: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
