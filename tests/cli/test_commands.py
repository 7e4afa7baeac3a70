# SPDX-License-Identifier: Apache-2.0
"""Every command: its result on stdout, its exit code, and its words when things are not well."""

import json
import signal
import socket
import subprocess
from typing import Any

import pytest
from daemon import Vettad, run_vetta

ASKING = [
    ["job", "list"],
    ["job", "show", "4711"],
    ["why", "4711"],
    ["why", "4712"],
    ["diagnose", "job", "4711"],
    ["node", "list"],
    ["node", "show", "n001"],
    ["cluster", "show"],
]
CODES = {"diagnose job 4711": 3}


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_json_is_exactly_one_value(vettad: Vettad, words: list[str]) -> None:
    done = vettad.vetta(*words, "--json")
    assert done.returncode == CODES.get(" ".join(words), 0), done.stderr
    assert json.loads(done.stdout)["schema"] == 1
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_text_has_no_colour_in_a_pipe(vettad: Vettad, words: list[str]) -> None:
    done = vettad.vetta(*words)
    assert done.returncode == CODES.get(" ".join(words), 0), done.stderr
    assert done.stdout
    assert "\x1b" not in done.stdout


def test_the_json_is_the_apis(vettad: Vettad) -> None:
    ours = json.loads(vettad.vetta("job", "show", "4711", "--json").stdout)
    assert ours["allocations"] == vettad.get("/api/v1/jobs/4711")["allocations"]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_job_list_has_one_row_a_job_and_no_blank_in_a_cell(vettad: Vettad) -> None:
    table = rows(vettad.vetta("job", "list").stdout)
    header = ["ID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODE_COUNT", "GPUS", "WHERE"]
    assert table[0] == header
    assert all(len(row) == len(table[0]) for row in table)
    by_id = {row[0]: row for row in table[1:]}
    assert by_id["4711"][2] == "train_ddp"
    assert by_id["4711"][4] == "R"
    assert by_id["4712"][4] == "PD"
    assert by_id["4712"][8] == "(Resources)"


@pytest.mark.parametrize(
    "words, ids",
    [
        (["-t", "R"], ["4711"]),
        (["-t", "PD,R", "-u", "grace"], ["4712"]),
        (["-n", "ddp"], ["4711"]),
        (["-p", "none"], []),
        (["-w", "n002"], ["4711"]),
        (["--since", "1d", "-u", "ada"], ["4711"]),
    ],
)
def test_filters(vettad: Vettad, words: list[str], ids: list[str]) -> None:
    done = vettad.vetta("job", "list", "--no-header", "-o", "id", *words)
    assert done.returncode == 0, done.stderr
    assert [row[0] for row in rows(done.stdout)] == ids
    listed = json.loads(vettad.vetta("job", "list", "--json", *words).stdout)
    assert [job["id"] for job in listed["jobs"]] == ids


def test_a_limit_says_that_there_is_more(vettad: Vettad) -> None:
    done = vettad.vetta("job", "list", "--limit", "1")
    assert len(rows(done.stdout)) == 2
    assert "more jobs" in done.stderr


def test_me_is_who_asks(vettad: Vettad) -> None:
    assert json.loads(vettad.vetta("job", "list", "--me", "--json").stdout)["jobs"] == []


def test_an_unknown_column_names_the_known_ones(vettad: Vettad) -> None:
    done = vettad.vetta("job", "list", "-o", "id,nothing")
    assert done.returncode == 2
    assert "no column 'nothing'" in done.stderr
    assert "node_count" in done.stderr


def test_job_show_puts_the_diagnosis_first(vettad: Vettad) -> None:
    text = vettad.vetta("job", "show", "4711").stdout
    assert text.startswith("job 4711  train ddp")
    assert "rank 1 on n002 holds the others" in text
    assert text.index("holds the others") < text.index("submitted")
    assert "█" in text and "░" in text


def test_why_answers_in_its_first_line(vettad: Vettad) -> None:
    lines = vettad.vetta("why", "4711").stdout.splitlines()
    assert lines[0].startswith("▌ one rank holds the others")
    assert len(lines) < 45
    waiting = vettad.vetta("why", "4712").stdout.splitlines()
    assert waiting[0].startswith("▌ it waits")


def test_diagnose_exits_with_3_when_a_rank_is_named(vettad: Vettad) -> None:
    done = vettad.vetta("diagnose", "job", "4711")
    assert done.returncode == 3
    assert "rank 1 on n002" in done.stdout
    none = vettad.vetta("diagnose", "job", "4712")
    assert none.returncode == 1
    assert none.stdout == ""
    assert "no step marks" in none.stderr


def test_nodes(vettad: Vettad) -> None:
    table = rows(vettad.vetta("node", "list").stdout)
    assert [row[0] for row in table[1:]] == ["n001", "n002", "n003", "n004"]
    assert table[4][8] == "bad_dimm"
    some = vettad.vetta("node", "list", "-w", "n[002-003]", "-o", "name", "--no-header").stdout
    assert some.split() == ["n002", "n003"]
    unusable = vettad.vetta("node", "list", "--unusable", "-o", "name").stdout
    assert unusable.split() == ["NAME", "n004"]
    assert "bad dimm" in vettad.vetta("node", "show", "n004").stdout


@pytest.mark.parametrize(
    "words, code, text",
    [
        (["job", "show", "99"], 1, "99"),
        (["job", "show", "x"], 2, "x"),
        (["job", "watch", "99"], 1, "99"),
        (["why", "99"], 1, "99"),
        (["diagnose", "job", "99"], 1, "99"),
        (["node", "show", "n9"], 1, "no node n9"),
        (["node", "list", "-w", "n[3-1]"], 2, "n[3-1]"),
        (["job", "list", "-t", "ASLEEP"], 2, "no state of a job"),
        (["job", "list", "--since", "later"], 2, "later"),
        (["job", "list", "--limit", "0"], 2, "asks for nothing"),
        (["job", "list", "--server", "nonsense"], 2, "no address of a vettad"),
        (["job", "list", "--token-file", "/nonexistent"], 4, "/nonexistent"),
        (["job", "list", "--timeout", "soon"], 2, "soon"),
        (["job", "list", "extra"], 2, "extra"),
        (["job", "show"], 2, "job"),
        (["config", "explain", "colour"], 2, "colour"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_unhappy(vettad: Vettad, words: list[str], code: int, text: str) -> None:
    done = vettad.vetta(*words)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stderr.startswith("vetta: ")
    assert text in done.stderr
    as_json = vettad.vetta(*words, "--json")
    assert as_json.returncode == code
    assert as_json.stdout == ""
    error: dict[str, Any] = json.loads(as_json.stderr)["error"]
    assert set(error) == {"code", "message", "hint"}


@pytest.mark.parametrize(
    "words, text",
    [
        (["jobs"], "there is no command 'jobs'; did you mean 'job'?"),
        (["job", "list", "--jsno"], "there is no option '--jsno'; did you mean '--json'?"),
        (["why"], "which job?\n       try: vetta why 4711 (vetta job list --me)"),
        (["job", "list", "--since"], "--since needs a value\n       try: --since 1h"),
        (["completion", "tcsh"], "tcsh"),
        (["help", "nothing"], "nothing"),
    ],
)
def test_unhappy_without_a_server(fresh: Vettad, words: list[str], text: str) -> None:
    done = run_vetta(words, fresh.env)
    assert done.returncode == 2
    assert text in done.stderr


def test_nobody_answers(fresh: Vettad) -> None:
    done = fresh.vetta("cluster", "show")
    assert done.returncode == 5
    assert f"unix:{fresh.socket}" in done.stderr
    assert "--server unix:PATH or VETTA_SERVER" in done.stderr
    assert "vetta config explain" in done.stderr


def test_a_server_that_does_not_answer_in_time(fresh: Vettad) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(fresh.socket))
        listener.listen(1)
        done = fresh.vetta("cluster", "show", "--timeout", "200ms")
    assert done.returncode == 124
    assert "no answer within" in done.stderr


def test_what_answers_is_no_vettad(fresh: Vettad) -> None:
    with socket.socket(socket.AF_INET) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        server = f"http://127.0.0.1:{listener.getsockname()[1]}"
        argv = ["cluster", "show", "--server", server]
        import threading

        def answer() -> None:
            other, _ = listener.accept()
            other.recv(4096)
            other.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            other.close()

        thread = threading.Thread(target=answer)
        thread.start()
        done = fresh.vetta(*argv)
        thread.join()
    assert done.returncode == 1
    assert "is that a vettad?" in done.stderr


def test_the_token_opens_tcp(vettad: Vettad) -> None:
    server = {"VETTA_SERVER": f"http://127.0.0.1:{vettad.port}"}
    assert vettad.vetta("cluster", "show", env=server).returncode == 4
    token = {"VETTA_TOKEN_FILE": str(vettad.token_file)}
    assert vettad.vetta("cluster", "show", env={**server, **token}).returncode == 0
    where = vettad.vetta("config", "explain", "--json", env={**server, **token})
    origins = {s["key"]: s["origin"] for s in json.loads(where.stdout)["settings"]}
    assert origins == {"server": "VETTA_SERVER", "token_file": "VETTA_TOKEN_FILE"}


def test_a_pipe_that_closes_early_is_no_failure(vettad: Vettad) -> None:
    env = {**vettad.env, "VETTA_SERVER": f"unix:{vettad.socket}"}
    from daemon import BUILD

    done = subprocess.run(
        f"{BUILD}/bin/vetta job list; echo $? >&2",
        shell=True,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.stderr.strip() == "0"
    assert signal.SIGPIPE  # the shell's own pipe below closes before anything is written
    closed = subprocess.run(
        ["bash", "-c", f"{BUILD}/bin/vetta job list | true; echo ${{PIPESTATUS[0]}}"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert closed.stdout.strip() == "0"


def test_help_leads_with_examples_and_topics_are_there(fresh: Vettad) -> None:
    env = fresh.env
    assert run_vetta([], env).returncode == 0
    bare = run_vetta(["job"], env)
    assert (bare.returncode, bare.stdout[:4]) == (2, "Jobs")
    for words in (["job"], ["job", "list"], ["why"], ["probe", "exec"], ["node", "show"]):
        done = run_vetta([*words, "--help"], env)
        assert done.returncode == 0
        assert done.stdout.index("Examples:") < done.stdout.index("Options:")
    for topic in ("exit-codes", "environment", "formats"):
        assert len(run_vetta(["help", topic], env).stdout.splitlines()) > 8
    assert run_vetta(["help", "job", "list"], env).stdout.startswith("Lists jobs")
    assert run_vetta(["--version"], env).stdout.startswith("vetta ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_that_shell(fresh: Vettad, shell: str) -> None:
    done = run_vetta(["completion", shell], fresh.env)
    assert done.returncode == 0
    assert f"vetta completion {shell}" in done.stdout


def test_bash_completes(fresh: Vettad) -> None:
    script = run_vetta(["completion", "bash"], fresh.env).stdout
    tail = '\nCOMP_WORDS=(vetta job wa); COMP_CWORD=2; _vetta; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script + tail], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "watch"
