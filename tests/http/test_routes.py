# SPDX-License-Identifier: Apache-2.0
"""Every route: what it answers when all is well, and what it says when it is not."""

import http.client
import json
import re
import socket
import time
from typing import Any

import pytest
from daemon import Vettad
from waiting import wait_until

JOB_ROUTES = ["", "/ranks", "/steps", "/samples", "/diagnosis", "/why"]


def test_jobs_are_listed_newest_first(vettad: Vettad) -> None:
    found = vettad.get("/api/v1/jobs")
    assert [job["id"] for job in found["jobs"]] == ["4711", "4712"] or [
        job["id"] for job in found["jobs"]
    ] == ["4712", "4711"]
    assert found["schema"] == 1
    assert found["next"] is None
    assert found["counts"]["total"] == 2
    assert abs(found["as_of"] - time.time()) < 60


@pytest.mark.parametrize(
    "query, ids",
    [
        ("user=ada", {"4711"}),
        ("user=ada,grace", {"4711", "4712"}),
        ("state=R", {"4711"}),
        ("state=PENDING", {"4712"}),
        ("state=PD&state=R", {"4711", "4712"}),
        ("name=DDP", {"4711"}),
        ("name=%22;drop", set()),
        ("partition=main", {"4711", "4712"}),
        ("partition=other", set()),
        ("account=ml&user=grace", {"4712"}),
        ("node=n002", {"4711"}),
        ("active=true", {"4711", "4712"}),
        ("since=1", {"4711", "4712"}),
    ],
)
def test_filters(vettad: Vettad, query: str, ids: set[str]) -> None:
    assert {job["id"] for job in vettad.get(f"/api/v1/jobs?{query}")["jobs"]} == ids


def test_pages_cover_everything_once(vettad: Vettad) -> None:
    seen = []
    cursor = ""
    while True:
        page = vettad.get(f"/api/v1/jobs?limit=1{cursor}")
        seen += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert sorted(seen) == ["4711", "4712"]


@pytest.mark.parametrize(
    "query, words",
    [
        ("state=SLEEPING", "is no state of a job"),
        ("since=yesterday", "since=yesterday is not a time"),
        ("since=-1", "is not a time"),
        ("limit=0", "limit=0 asks for nothing"),
        ("limit=1001", "is not a whole number up to 1000"),
        ("active=perhaps", "is not true or false"),
        ("usr=ada", "no parameter 'usr'"),
        ("cursor=nonsense", "cursor"),
        ("name=%zz", "broken percent escape"),
    ],
)
def test_bad_parameters_are_named(vettad: Vettad, query: str, words: str) -> None:
    answer = vettad.ask(f"/api/v1/jobs?{query}")
    assert answer.status == 400
    assert answer.error["code"] == "invalid"
    assert words in answer.error["message"]


def test_a_job_in_full(vettad: Vettad) -> None:
    found = vettad.get("/api/v1/jobs/4711")
    assert found["job"]["name"] == "train ddp"
    assert found["job"]["state"] == "RUNNING"
    assert [a["node"] for a in found["allocations"]] == ["n001", "n002"]
    assert found["incarnations"][0]["ranks"] == 2
    assert found["marks"]["marks"] == 120
    assert found["agents"] == [
        {"node": "n001", "is_connected": True},
        {"node": "n002", "is_connected": True},
    ]


def test_ranks_steps_and_samples(vettad: Vettad) -> None:
    ranks = vettad.get("/api/v1/jobs/4711/ranks")["ranks"]
    assert [(rank["rank"], rank["node"]) for rank in ranks] == [(0, "n001"), (1, "n002")]
    steps = vettad.get("/api/v1/jobs/4711/steps?last=5")
    assert [mark["step"] for mark in steps["ranks"][1]["marks"]] == [55, 56, 57, 58, 59]
    assert steps["ranks"][1]["marks"][0]["phases"]["data"] == pytest.approx(0.07)
    samples = vettad.get("/api/v1/jobs/4711/samples?rank=0")["ranks"]
    assert len(samples) == 1
    assert samples[0]["samples"][0]["rss_bytes"] == 300_000_000
    assert samples[0]["samples"][0]["read_bytes"] is None


def test_the_slow_rank_is_named(vettad: Vettad) -> None:
    diagnosis = vettad.get("/api/v1/jobs/4711/diagnosis")["diagnosis"]
    assert diagnosis["outcome"] == "slow_rank"
    assert (diagnosis["rank"], diagnosis["node"]) == (1, "n002")
    assert diagnosis["phase"] == "data"
    why = vettad.get("/api/v1/jobs/4711/why")["why"]
    assert why["answer"] == "slow_rank"
    assert why["diagnosis"]["rank"] == 1


def test_why_of_a_waiting_job(vettad: Vettad) -> None:
    why = vettad.get("/api/v1/jobs/4712/why")["why"]
    assert why["answer"] == "waiting"
    assert why["diagnosis"] is None


def test_a_job_without_marks_has_no_diagnosis_and_says_how_to_get_one(vettad: Vettad) -> None:
    answer = vettad.ask("/api/v1/jobs/4712/diagnosis")
    assert answer.status == 404
    assert "no step marks" in answer.error["message"]
    assert "probe" in answer.error["hint"]


@pytest.mark.parametrize("rest", JOB_ROUTES)
def test_a_job_that_is_not_there(vettad: Vettad, rest: str) -> None:
    answer = vettad.ask(f"/api/v1/jobs/99{rest}")
    assert answer.status == 404
    assert answer.error["code"] == "not_found"
    assert "99" in answer.error["message"]


@pytest.mark.parametrize("job_id", ["x", "4711_x", "-1", "%00", "4711%2F0", "99999999999999999999"])
def test_a_job_id_that_is_none(vettad: Vettad, job_id: str) -> None:
    answer = vettad.ask(f"/api/v1/jobs/{job_id}")
    assert answer.status == 400
    assert answer.error["code"] == "invalid"


def test_burst_of_a_pending_job_and_of_none(vettad: Vettad) -> None:
    answer = vettad.ask("/api/v1/jobs/4711/burst?seconds=5", "POST")
    assert answer.status == 200
    assert answer.json["until"] > time.time()
    assert vettad.ask("/api/v1/jobs/99/burst", "POST").status == 404
    too_long = vettad.ask("/api/v1/jobs/4711/burst?seconds=301", "POST")
    assert too_long.status == 400
    assert vettad.ask("/api/v1/jobs/4711/burst").status == 405


def test_what_is_asked_with_zero_is_not_what_is_asked_without(vettad: Vettad) -> None:
    assert vettad.get("/api/v1/jobs?array_job_id=0")["counts"]["total"] == 0
    assert vettad.get("/api/v1/jobs")["counts"]["total"] > 0


@pytest.mark.parametrize("key", ["user", "account", "partition"])
def test_a_filter_that_is_too_long_is_refused(vettad: Vettad, key: str) -> None:
    fits = vettad.ask(f"/api/v1/jobs?{key}=" + ",".join(["x"] * 200))
    assert fits.status == 200
    answer = vettad.ask(f"/api/v1/jobs?{key}=" + ",".join(["x"] * 201))
    assert answer.status == 400
    assert "200" in answer.json["error"]["message"]


def test_nodes(vettad: Vettad) -> None:
    found = vettad.get("/api/v1/nodes")
    assert found["cluster"] == "toy"
    nodes = {node["name"]: node for node in found["nodes"]}
    assert set(nodes) == {"n001", "n002", "n003", "n004"}
    assert nodes["n004"]["is_usable"] is False
    assert nodes["n004"]["reason"] == "bad dimm"
    assert nodes["n001"]["agent"]["is_connected"] is True
    assert nodes["n001"]["agent"]["gaps"] == ["no taskstats: needs CAP_NET_ADMIN"]
    assert nodes["n003"]["agent"] is None
    names = [node["name"] for node in vettad.get("/api/v1/nodes?unusable=true")["nodes"]]
    assert names == ["n004"]
    names = [node["name"] for node in vettad.get("/api/v1/nodes?state=DRAIN")["nodes"]]
    assert names == ["n004"]


def test_a_node(vettad: Vettad) -> None:
    found = vettad.get("/api/v1/nodes/n002")
    assert found["node"]["name"] == "n002"
    assert [job["id"] for job in found["jobs"]] == ["4711"]
    answer = vettad.ask("/api/v1/nodes/n999")
    assert answer.status == 404
    assert "no node n999 in cluster toy" in answer.error["message"]


def test_partitions_and_cluster(vettad: Vettad) -> None:
    partitions = vettad.get("/api/v1/partitions")["partitions"]
    assert [(p["name"], p["node_count"], p["gpus"]) for p in partitions] == [("main", 4, 16)]
    cluster = vettad.get("/api/v1/cluster")
    assert cluster["nodes"]["total"] == 4
    assert cluster["nodes"]["usable"] == 3
    assert cluster["gpus"] == {"total": 16, "allocated": 0}
    assert {state["state"] for state in cluster["jobs"]["states"]} == {"RUNNING", "PENDING"}
    assert [agent["node"] for agent in cluster["agents"]] == ["n001", "n002"]
    assert {source["name"]: source["knowledge"] for source in cluster["sources"]}[
        "slurmctld"
    ] == "known"


def test_events(vettad: Vettad) -> None:
    found = vettad.get("/api/v1/events?job=4711")
    kinds = {event["kind"] for event in found["events"]}
    assert "job_state" in kinds
    assert vettad.get(f"/api/v1/events?after={found['last_id']}&job=4711")["events"] == []
    assert vettad.ask("/api/v1/events?kind=earthquake").status == 400
    assert vettad.ask("/api/v1/events?job=99").status == 404


def test_status_and_health(vettad: Vettad) -> None:
    status = vettad.get("/api/v1/status")
    assert status["agents_connected"] == 2
    assert status["ingest"]["marks"] == 120
    assert status["is_ready"] is True
    assert vettad.get("/healthz") == {"schema": 1, "is_alive": True}
    assert vettad.get("/readyz") == {"schema": 1, "is_ready": True, "reasons": []}


def test_metrics_are_prometheus_text(vettad: Vettad) -> None:
    answer = vettad.ask("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    line = re.compile(r'^(# (HELP|TYPE) .+|vetta_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? \S+)$')
    lines = answer.text.splitlines()
    assert all(line.match(text) for text in lines), [t for t in lines if not line.match(t)]
    values = dict(text.rsplit(" ", 1) for text in lines if not text.startswith("#"))
    assert float(values["vetta_agents_connected"]) == 2
    assert float(values["vetta_ingest_marks_total"]) == 120
    assert float(values['vetta_source_up{source="slurmctld"}']) == 1
    assert float(values['vetta_queue_limit{queue="agent_batches"}']) > 0
    assert "4711" not in answer.text


def test_who_may_ask_over_tcp(vettad: Vettad) -> None:
    assert vettad.ask("/api/v1/jobs", tcp=True).status == 401
    wrong = vettad.ask("/api/v1/jobs", tcp=True, headers={"Authorization": "Bearer " + "0" * 64})
    assert wrong.status == 401
    assert wrong.error["code"] == "denied"
    assert "VETTA_TOKEN_FILE" in wrong.error["hint"]
    right = vettad.ask(
        "/api/v1/jobs", tcp=True, headers={"Authorization": f"Bearer {vettad.token}"}
    )
    assert right.status == 200
    for path in ("/healthz", "/readyz", "/api/v1/openapi.json"):
        assert vettad.ask(path, tcp=True).status == 200


def test_nothing_there(vettad: Vettad) -> None:
    answer = vettad.ask("/api/v1/job")
    assert answer.status == 404
    assert "nothing at /api/v1/job" in answer.error["message"]
    wrong = vettad.ask("/api/v1/jobs", "DELETE")
    assert wrong.status == 405
    assert wrong.headers["Allow"] == "GET"


def read_events(vettad: Vettad, target: str, headers: dict[str, str]) -> Any:
    """The response of an event stream, to be read line by line."""
    connection = http.client.HTTPConnection("127.0.0.1", vettad.port, timeout=10)
    connection.request(
        "GET", target, headers={"Authorization": f"Bearer {vettad.token}", **headers}
    )
    return connection.getresponse()


def next_event(response: Any) -> dict[str, str]:
    event: dict[str, str] = {}
    while True:
        line = response.fp.readline().decode().rstrip("\n")
        if not line and event:
            return event
        key, _, value = line.partition(": ")
        if key:
            event[key] = value


def test_the_stream_gives_what_was_missed(vettad: Vettad) -> None:
    first = vettad.get("/api/v1/events?limit=2")["events"]
    response = read_events(vettad, "/api/v1/events/stream", {"Last-Event-ID": str(first[0]["id"])})
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/event-stream"
    event = next_event(response)
    assert event["id"] == str(first[1]["id"])
    assert json.loads(event["data"]) == first[1]
    response.close()


def test_a_stream_refuses_in_json(vettad: Vettad) -> None:
    response = read_events(vettad, "/api/v1/events/stream", {"Last-Event-ID": "x"})
    assert response.status == 400
    assert json.loads(response.read())["error"]["code"] == "invalid"


def test_garbage_is_answered_and_counted(vettad: Vettad) -> None:
    before = vettad.get("/api/v1/status")["http"]["bad_requests"]
    with socket.create_connection(("127.0.0.1", vettad.port), timeout=10) as raw:
        raw.sendall(b"\x16\x03\x01\x02\x00 this is TLS\r\n\r\n")
        assert b"HTTP/1.1 400" in raw.recv(4096)
    wait_until(
        "it is counted",
        lambda: vettad.get("/api/v1/status")["http"]["bad_requests"] == before + 1,
    )
