# SPDX-License-Identifier: Apache-2.0
"""What agents tell in the tests of HTTP and command line: ranks of a training job with one slow."""

import time

import fake_agent


def tell_rank(
    agent: fake_agent.Agent, job_id: int, number: int, steps: int = 60
) -> fake_agent.Rank:
    """A rank with `steps` marks of 100 ms; rank 1 spends 60 ms more on data, rank 0 waits."""
    begin = time.time_ns() - 30 * fake_agent.NS
    rank = fake_agent.Rank(job_id, number, agent.node, start_ns=begin)
    data, wait = (0.07, 0.0) if number == 1 else (0.01, 0.06)
    marks = [
        fake_agent.mark(i + 1, i, begin + i * fake_agent.NS // 10, 0.1, data, wait)
        for i in range(steps)
    ]
    sample = fake_agent.rank_sample(time.time_ns(), 12.5, 300_000_000)
    sequence = agent.batch(
        ranks=[rank],
        marks=[fake_agent.rank_marks(rank.rank_id, marks)],
        samples=[(rank.rank_id, [sample])],
    )
    assert agent.wait_ack(sequence) == []
    return rank
