# SPDX-License-Identifier: Apache-2.0
"""A vettad of one's own for a test: private state, unix socket and TCP port, a fake Slurm."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import fake_slurm
from waiting import UnixConnection, wait_until

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VETTA_BUILD", ROOT / "build" / "release"))


class Answer:
    """Status, headers and body of a response."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> dict[str, str]:
        error: dict[str, str] = self.json["error"]
        return error


def simple_cluster(jobs: Optional[list[dict[str, Any]]] = None) -> dict[str, Any]:
    """Four nodes, one of them drained."""
    nodes: list[dict[str, Any]] = [{"name": f"n00{i}"} for i in (1, 2, 3)]
    nodes.append({"name": "n004", "state": "IDLE+DRAIN", "reason": "bad dimm"})
    return {"name": "toy", "nodes": nodes, "jobs": jobs or [], "accounting": []}


# One for all: a job that is told again is the same job, which its submit time is a part of.
START = int(time.time()) - 60


def running_job(job_id: int, nodes: str = "n001", **more: Any) -> dict[str, Any]:
    return {
        "JobID": job_id,
        "SubmitTime": START - 5,
        "StartTime": START,
        "EndTime": START + 600,
        "NodeList": nodes,
        **more,
    }


class Vettad:
    """One vettad; its settings can be changed between start() and stop()."""

    def __init__(self, with_slurm: bool = True) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="va-", dir="/tmp"))
        self.socket = self.dir / "s"
        self.port_file = self.dir / "port"
        self.token_file = self.dir / "token"
        self.slurm_file = self.dir / "cluster"
        self.bin = fake_slurm.install(self.dir / "slurm")
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "VETTA"))}
        self.env["FAKE_SLURM"] = str(self.slurm_file)
        self.env["HOME"] = str(self.dir)
        if with_slurm:
            self.set_cluster(simple_cluster())

    def set_cluster(self, cluster: dict[str, Any]) -> None:
        fake_slurm.write(self.slurm_file, cluster)

    def start(self, *more: str) -> "Vettad":
        self.port_file.unlink(missing_ok=True)
        argv = [
            str(BUILD / "bin" / "vettad"),
            *("--state", str(self.dir / "state")),
            *("--listen", f"unix:{self.socket}", "--listen", "127.0.0.1:0"),
            *("--port-file", str(self.port_file), "--token-file", str(self.token_file)),
            *("--slurm-bin-dir", str(self.bin)),
            *more,
        ]
        log = open(self.dir / "log", "ab")
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd="/"
        )
        log.close()
        wait_until("vettad listens", self._listens)
        return self

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.dir / "log").read_text()
        return self.port_file.exists()

    @property
    def port(self) -> int:
        return int(self.port_file.read_text())

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Ends it and gives its exit code (negative: a signal)."""
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(how)
        return process.wait(20)

    def remove(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)

    def ask(
        self,
        target: str,
        method: str = "GET",
        headers: Optional[Mapping[str, str]] = None,
        tcp: bool = False,
        body: Optional[str] = None,
    ) -> Answer:
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            if tcp
            else UnixConnection(str(self.socket), 20)
        )
        try:
            connection.request(method, target, body=body, headers=dict(headers or {}))
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def ask_as(self, uid: int, target: str) -> Answer:
        """Over the socket as another user, whom the kernel names to vettad; only root can."""
        self.dir.chmod(0o711)
        os.seteuid(uid)
        try:
            return self.ask(target)
        finally:
            os.seteuid(0)

    def get(self, target: str) -> Any:
        """The JSON of an answer that must be 200."""
        answer = self.ask(target)
        assert answer.status == 200, (target, answer.status, answer.text)
        return answer.json

    def wait_ready(self) -> None:
        wait_until("Slurm was read", lambda: self.ask("/readyz").status == 200)

    def wait_job(self, job_id: Any) -> Any:
        """Until the job is known, with its allocation if it runs."""

        def known() -> Any:
            answer = self.ask(f"/api/v1/jobs/{job_id}")
            return answer.json if answer.status == 200 else None

        return wait_until(f"job {job_id} is known", known)

    def vetta(
        self, *words: str, env: Optional[Mapping[str, str]] = None
    ) -> subprocess.CompletedProcess[str]:
        return run_vetta(words, {**self.env, "VETTA_SERVER": f"unix:{self.socket}", **(env or {})})


def run_vetta(
    words: Sequence[str], env: Mapping[str, str], timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BUILD / "bin" / "vetta"), *words],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
