# SPDX-License-Identifier: Apache-2.0
"""Agents: who may connect, what is acknowledged, what comes twice, who is lost."""

import json
import socket
import struct
import time

import fake_agent
import pytest
from daemon import Vettad, running_job, simple_cluster
from told import tell_rank
from waiting import wait_until


@pytest.fixture
def with_job(fresh: Vettad) -> Vettad:
    fresh.set_cluster(simple_cluster([running_job(7, "n001")]))
    fresh.start()
    fresh.wait_ready()
    fresh.wait_job(7)
    return fresh


def marks_of(vettad: Vettad, job: int = 7) -> int:
    info = vettad.get(f"/api/v1/jobs/{job}")["marks"]
    return int(info["marks"]) if info else 0


def test_a_token_is_needed_over_tcp(with_job: Vettad) -> None:
    with pytest.raises(fake_agent.Refused, match="401"):
        fake_agent.Agent(("127.0.0.1", with_job.port), "n001", "toy", "0" * 64)
    agent = fake_agent.Agent(("127.0.0.1", with_job.port), "n001", "toy", with_job.token)
    assert agent.receive()[0] == fake_agent.WELCOME
    agent.close()


def test_an_upgrade_must_name_the_protocol(with_job: Vettad) -> None:
    answer = with_job.ask("/agent/v1/connect")
    assert answer.status == 426
    assert answer.headers["Upgrade"] == "vetta-agent/1"


def test_an_agent_of_another_cluster_is_turned_away(with_job: Vettad) -> None:
    agent = fake_agent.Agent(str(with_job.socket), "n001", "elsewhere")
    with pytest.raises(EOFError):
        agent.receive()
    assert "--cluster toy" in (with_job.dir / "log").read_text()


def test_a_ping_is_answered_with_the_servers_clock(with_job: Vettad) -> None:
    agent = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    sent = time.time_ns()
    agent.send(fake_agent.PING, struct.pack("<qq", sent, 0))
    back, server = struct.unpack("<qq", agent.wait_for(fake_agent.PING))
    assert back == sent
    assert sent <= server <= time.time_ns()


def test_the_same_batch_twice_counts_once(with_job: Vettad) -> None:
    agent = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    tell_rank(agent, 7, 0, steps=10)
    assert marks_of(with_job) == 10
    rank = fake_agent.Rank(7, 1, "n001")
    marks = [fake_agent.mark(i + 1, i, time.time_ns(), 0.1) for i in range(4)]
    first = agent.batch(ranks=[rank], marks=[fake_agent.rank_marks(rank.rank_id, marks)])
    agent.wait_ack(first)
    again = agent.batch(marks=[fake_agent.rank_marks(rank.rank_id, marks)])
    agent.wait_ack(again)
    agent.sequence -= 1
    agent.wait_ack(agent.batch(marks=[fake_agent.rank_marks(rank.rank_id, marks)]))
    assert marks_of(with_job) == 14


def test_a_rank_goes_to_no_job_of_another_user(with_job: Vettad) -> None:
    agent = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    rank = fake_agent.Rank(7, 0, "n001", uid=1001)
    marks = fake_agent.rank_marks(rank.rank_id, [fake_agent.mark(1, 0, time.time_ns(), 0.1)])
    event = fake_agent.event(4, rank, "ValueError: not mine")
    sequence = agent.batch(ranks=[rank], marks=[marks], events=[event])
    assert agent.wait_ack(sequence) == [rank.rank_id]
    assert with_job.get("/api/v1/jobs/7/ranks")["ranks"] == []
    assert with_job.get("/api/v1/events?kind=exception&job=7")["events"] == []
    assert with_job.get("/api/v1/status")["ingest"]["ranks_of_other_user"] == 1


def test_marks_of_a_job_that_is_not_known_stay_with_the_agent(with_job: Vettad) -> None:
    agent = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    rank = fake_agent.Rank(8, 0, "n001")
    marks = fake_agent.rank_marks(rank.rank_id, [fake_agent.mark(1, 0, time.time_ns(), 0.1)])
    assert agent.wait_ack(agent.batch(ranks=[rank], marks=[marks])) == [rank.rank_id]
    with_job.set_cluster(simple_cluster([running_job(7), running_job(8)]))
    with_job.wait_job(8)
    assert agent.wait_ack(agent.batch(ranks=[rank], marks=[marks])) == []
    assert marks_of(with_job, 8) == 1


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff\x04",  # longer than is allowed
        struct.pack("<IB", 1, 99),  # no such kind
        struct.pack("<IBQ", 9, 4, 1),  # a batch cut short
        struct.pack("<IB", 1, 2),  # what only vettad may send
    ],
)
def test_bad_frames_end_the_connection_alone(with_job: Vettad, frame: bytes) -> None:
    good = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    bad = fake_agent.Agent(str(with_job.socket), "n002", "toy")
    bad.wait_for(fake_agent.WELCOME)
    bad.socket.sendall(frame)
    with pytest.raises(EOFError):
        bad.receive()
    tell_rank(good, 7, 0, steps=3)
    assert marks_of(with_job) == 3


def test_burst_reaches_the_agents_of_the_job_alone(with_job: Vettad) -> None:
    mine = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    other = fake_agent.Agent(str(with_job.socket), "n002", "toy")
    mine.wait_for(fake_agent.WELCOME)
    other.wait_for(fake_agent.WELCOME)
    assert with_job.ask("/api/v1/jobs/7/burst?seconds=1", "POST").status == 200
    assert mine.wait_burst() == [7]
    assert mine.wait_burst() == []  # its time is over
    other.send(fake_agent.PING, struct.pack("<qq", 1, 0))
    other.wait_for(fake_agent.PING)
    assert fake_agent.BURST not in [kind for kind, _ in other.frames]


def test_an_open_stream_on_a_job_is_a_burst(with_job: Vettad) -> None:
    agent = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    agent.wait_for(fake_agent.WELCOME)
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(10)
        stream.connect(str(with_job.socket))
        stream.sendall(b"GET /api/v1/events/stream?job=7 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert agent.wait_burst() == [7]
        rank = fake_agent.Rank(7, 0, "n001")
        agent.wait_ack(
            agent.batch(ranks=[rank], events=[fake_agent.event(4, rank, "ValueError: boom")])
        )
        got = b""
        while b"boom" not in got:
            piece = stream.recv(4096)
            assert piece, got
            got += piece
        assert b"event: exception" in got


def test_a_lost_agent_is_an_event_and_so_is_its_return(with_job: Vettad) -> None:
    agent = fake_agent.Agent(str(with_job.socket), "n003", "toy")
    agent.wait_for(fake_agent.WELCOME)
    agent.close()

    def events(kind: str) -> list[str]:
        found = with_job.get(f"/api/v1/events?kind={kind}&node=n003")["events"]
        return [event["message"] for event in found]

    lost = wait_until("it is lost", lambda: events("agent_lost"), 30)
    assert "the agent of n003 is gone" in lost[0]
    node = with_job.get("/api/v1/nodes/n003")["node"]
    assert node["agent"]["is_connected"] is False
    fake_agent.Agent(str(with_job.socket), "n003", "toy")
    assert wait_until("it is back", lambda: events("agent_back")) == ["the agent of n003 is back"]


def test_what_was_acknowledged_survives_kill_9(with_job: Vettad) -> None:
    agent = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    rank = tell_rank(agent, 7, 0, steps=25)
    with_job.stop(9)
    with_job.start()
    assert marks_of(with_job) == 25
    again = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    marks = [fake_agent.mark(i + 1, i, time.time_ns(), 0.1) for i in range(30)]
    again.wait_ack(again.batch(ranks=[rank], marks=[fake_agent.rank_marks(rank.rank_id, marks)]))
    assert marks_of(with_job) == 30
    ranks = with_job.get("/api/v1/jobs/7/ranks")["ranks"]
    assert [json.dumps(r["rank_id"]) for r in ranks] == [f'"{rank.rank_id}"']


def test_other_nodes_do_not_hide_what_happened_to_a_jobs_own(with_job: Vettad) -> None:
    def node_event(node: str, message: str) -> bytes:
        return fake_agent.event(1, fake_agent.Rank(0, -1, node, rank_id=0), message)

    others = fake_agent.Agent(str(with_job.socket), "n002", "toy")
    for start in range(0, 10_000, 2_000):
        events = [node_event("n002", f"IDLE → MIXED {start + i}") for i in range(2_000)]
        others.wait_ack(others.batch(events=events))
    own = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    own.wait_ack(own.batch(events=[node_event("n001", "ALLOCATED → DOWN*")]))
    ended = running_job(7, "n001", State="NODE_FAIL")
    before = with_job.get("/api/v1/jobs/7")["job"]
    ended |= {"SubmitTime": int(before["submit"]), "EndTime": int(time.time())}
    with_job.set_cluster(simple_cluster([ended]))

    def why() -> str:
        return json.dumps(with_job.get("/api/v1/jobs/7/why"), ensure_ascii=False)

    wait_until("the node's own event is the cause", lambda: "ALLOCATED → DOWN*" in why())
    own.close()
    others.close()


@pytest.mark.parametrize("content", [b"", b"no marks at all"])
def test_a_damaged_file_of_marks_is_set_aside(with_job: Vettad, content: bytes) -> None:
    agent = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    rank = tell_rank(agent, 7, 0, steps=25)
    with_job.stop()
    (file,) = (with_job.dir / "state").rglob("*.marks")
    file.write_bytes(content)
    with_job.start()
    for route in ("", "/steps", "/why"):
        assert with_job.ask(f"/api/v1/jobs/7{route}").status == 200, route
    assert with_job.ask("/api/v1/jobs/7/diagnosis").status == 404, "there are no marks"
    again = fake_agent.Agent(str(with_job.socket), "n001", "toy")
    marks = [fake_agent.mark(i + 1, i, time.time_ns(), 0.1) for i in range(25, 30)]
    sequence = again.batch(marks=[fake_agent.rank_marks(rank.rank_id, marks)])
    assert again.wait_ack(sequence) == []
    assert marks_of(with_job) == 5
    assert (file.parent / f"{file.name}.damaged-1").read_bytes() == content
    (gap,) = with_job.get("/api/v1/events?kind=gap&job=7")["events"]
    assert "earlier marks of this job are lost" in gap["message"]
