# SPDX-License-Identifier: Apache-2.0
"""A dev cluster with Vetta on it: vettad, an agent a node, the rank plugin.

For quickstart, tests and benches.

Everything lies under one folder; a record of the processes started lets a later command end them,
and nothing else.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from devcluster.process import Process, alive, boot_id, end, find
from waiting import UnixConnection, wait_until

ROOT = Path(__file__).resolve().parents[2]
DEVCLUSTER = ROOT / "tools" / "devcluster"
ENDED = "COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL OUT_OF_MEMORY PREEMPTED DEADLINE".split()


class StackError(Exception):
    """Something could not be started; the sentence names the log to read."""


class Stack:
    """Vetta on a dev cluster in `folder` (a short path: unix sockets lie below it)."""

    def __init__(
        self, folder: Path, nodes: int = 4, build: Path = ROOT / "build" / "release"
    ) -> None:
        self.dir = folder.resolve()
        self.build = build
        self.bin = build / "bin"
        self.node_count = nodes
        self.run_dir = self.dir / "vetta" / "run"
        self.state_dir = self.dir / "vetta" / "state"
        self.log_dir = self.dir / "vetta" / "log"
        self.socket = self.dir / "vetta" / "vettad.sock"
        self.token = self.dir / "vetta" / "token"
        self.port_file = self.dir / "vetta" / "port"
        self.record = self.dir / "vetta" / "processes.json"
        self.info: dict[str, Any] = {}
        self.env = {name: value for name, value in os.environ.items() if name[:5] != "SLURM"}

    # -- the whole

    def up(self, with_agents: bool = True, with_plugin: bool = True, conf: str = "") -> None:
        """Starts the dev cluster and Vetta on it; on a failure nothing is left running."""
        for folder in (self.run_dir, self.state_dir, self.log_dir):
            folder.mkdir(parents=True, exist_ok=True)
        self.dir.chmod(0o755)
        try:
            self._cluster_up(with_plugin, conf)
            self.start_vettad()
            if with_agents:
                for node in self.nodes:
                    self.start_agent(node)
                wait_until("every agent is connected", self._agents_connected, 20)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Ends what this folder's stack started, Slurm's daemons and jobs included."""
        processes = [process for process in self._recorded().values() if alive(process)]
        end(processes, 5)
        self.record.unlink(missing_ok=True)
        if (self.dir / "slurm").exists():
            self._devcluster("down", check=False)

    def _cluster_up(self, with_plugin: bool, conf: str) -> None:
        options = [
            "--nodes",
            str(self.node_count),
            "--name",
            self.dir.name.replace("-", "_").lower(),
        ]
        if with_plugin:
            plugin = self.build / "lib" / "spank_vetta.so"
            options += [
                "--plugstack",
                f"optional {plugin} rundir={self.run_dir} python_dir={ROOT / 'python'}",
            ]
        if conf:
            extra = self.dir / "extra.conf"
            extra.write_text(conf)
            options += ["--conf", str(extra)]
        self._devcluster("up", *options)
        self._load_info()

    def attach(self) -> None:
        """Takes up a stack that an earlier command left running."""
        self._load_info()

    def _load_info(self) -> None:
        self.info = json.loads(self._devcluster("status", "--json").stdout)
        self.env["SLURM_CONF"] = self.info["slurm_conf"]
        self.env["VETTA_SERVER"] = f"unix:{self.socket}"

    @property
    def nodes(self) -> list[str]:
        return list(self.info["nodes"])

    # -- processes

    def start_vettad(self) -> None:
        self.port_file.unlink(missing_ok=True)
        argv = [self.bin / "vettad", "--state", self.state_dir]
        argv += ["--listen", f"unix:{self.socket}", "--listen", "127.0.0.1:0"]
        argv += ["--port-file", self.port_file, "--token-file", self.token]
        self._start("vettad", argv)
        wait_until("vettad listens", self.port_file.exists, 15)

    def start_agent(self, node: str) -> None:
        argv = [self.bin / "vetta-agent", "--node", node, "--cluster", self.info["cluster"]]
        argv += ["--rundir", self.run_dir, "--vettad", f"unix:{self.socket}"]
        argv += ["--token-file", self.token]
        self._start(f"agent-{node}", argv)

    def _start(self, name: str, argv: Sequence[Any]) -> None:
        log = self.log_dir / f"{name}.log"
        with open(log, "ab") as out:
            process = subprocess.Popen(
                [str(word) for word in argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self.env,
                cwd="/",
                start_new_session=True,
            )
        started = find(process.pid)
        time.sleep(0.05)
        if started is None or process.poll() is not None:
            tail = log.read_text(errors="replace")[-2000:]
            raise StackError(f"{name} ended at once; {log} ends with:\n{tail}")
        self._remember(name, started)

    def pid(self, name: str) -> int:
        """The pid of `vettad` or `agent-<node>`."""
        return self._recorded()[name].pid

    def kill(self, name: str) -> None:
        """SIGKILL, as a crash."""
        end([self._recorded()[name]], 0)

    def stop(self, name: str) -> None:
        end([self._recorded()[name]], 10)

    def crash_node(self, node: str) -> None:
        """A node goes dark: its slurmd, its jobs' processes and its agent are killed at once."""
        self.kill(f"agent-{node}")
        self._devcluster("kill", "--jobs", node)

    def start_node(self, node: str) -> None:
        self._devcluster("start", node)
        self.start_agent(node)

    def kill_daemon(self, name: str) -> None:
        """SIGKILL of slurmctld, slurmdbd or one slurmd; jobs go on."""
        self._devcluster("kill", name)

    def start_daemon(self, name: str) -> None:
        self._devcluster("start", name)

    def _recorded(self) -> dict[str, Process]:
        try:
            found = json.loads(self.record.read_text())
        except (OSError, ValueError):
            return {}
        if found["boot_id"] != boot_id():
            return {}
        return {name: Process(**entry) for name, entry in found["processes"].items()}

    def _remember(self, name: str, process: Process) -> None:
        processes = self._recorded() | {name: process}
        entries = {key: asdict(value) for key, value in processes.items()}
        temporary = self.record.with_suffix(".new")
        temporary.write_text(json.dumps({"boot_id": boot_id(), "processes": entries}))
        os.replace(temporary, self.record)

    # -- use

    def _devcluster(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(DEVCLUSTER), args[0], "--dir", str(self.dir / "slurm"), *args[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if check and done.returncode != 0:
            raise StackError(f"devcluster {' '.join(args)}: {done.stderr.strip()}")
        return done

    def run(
        self,
        argv: Sequence[str],
        check: bool = True,
        seconds: float = 60,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """A command with the cluster's and the server's environment."""
        done = subprocess.run(
            list(argv),
            env={**self.env, **(env or {})},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if check and done.returncode != 0:
            raise StackError(f"{' '.join(argv)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def vetta(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run([str(self.bin / "vetta"), *args], check=check)

    def vetta_json(self, *args: str) -> Any:
        """The one JSON value that a command prints; exit 3 (found something) is an answer too."""
        done = self.vetta(*args, "--json", check=False)
        if done.returncode not in (0, 3):
            raise StackError(f"vetta {' '.join(args)}: {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    def api(self, path: str) -> Any:
        """GET from vettad's API over its unix socket; an error's text becomes a StackError."""
        connection = UnixConnection(str(self.socket))
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            body = reply.read()
        finally:
            connection.close()
        if reply.status != 200:
            raise StackError(f"GET {path}: {reply.status} {body.decode(errors='replace')}")
        return json.loads(body)

    def sbatch(self, *args: str, env: Mapping[str, str] | None = None) -> str:
        """Submits and gives back the job's id."""
        out = self.run(["sbatch", "--parsable", *args], env=env).stdout
        return out.strip().partition(";")[0]

    def job_state(self, job: str) -> str:
        """Slurm's own word for the state, not Vetta's."""
        done = self.run(["scontrol", "-o", "show", "job", job], check=False)
        for word in done.stdout.split():
            if word.startswith("JobState="):
                return word.partition("=")[2]
        # slurmctld forgets a job a few minutes after its end.
        done = self.run(["sacct", "-X", "-n", "-P", "-o", "State", "-j", job], check=False)
        lines = done.stdout.split("\n") if done.returncode == 0 else []
        words = [line.split()[0] for line in lines if line.strip()]  # "CANCELLED by 0"
        return words[-1] if words else ""

    def wait_job(self, job: str, states: Sequence[str] = tuple(ENDED), seconds: float = 180) -> str:
        def reached() -> str:
            state = self.job_state(job)
            return state if state in states else ""

        return str(wait_until(f"job {job} in {'/'.join(states)}", reached, seconds))

    def _agents_connected(self) -> bool:
        done = self.vetta("cluster", "show", "--json", check=False)
        if done.returncode != 0:
            return False
        agents = json.loads(done.stdout).get("agents", [])
        return sum(1 for agent in agents if agent.get("is_connected")) >= self.node_count


def progress(text: str) -> None:
    """A word on long work; only people want it."""
    if sys.stderr.isatty():
        print(f"\033[2m{text}\033[0m", file=sys.stderr)
