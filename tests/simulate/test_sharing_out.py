"""Who gets which GPUs, when, and what then crosses the links: read from the rates on all."""

from __future__ import annotations

import random
from collections import defaultdict
from functools import cache

import pytest

from metronome_opt.scenario import Scenario
from metronome_opt.simulate import POLICIES, Run, simulate
from metronome_opt.simulate.state import training_jobs
from tests.simulate.played import job_table
from tests.simulate.scenes import racks, scene, switch, work

EVERYBODY = pytest.mark.parametrize("policy", list(POLICIES))
GPUS = 2
MODELS = ("Short", "Middling", "Long")


@cache
def busy() -> Scenario:
    """Return 16 jobs that come one after the other to a cluster which has room for some of them."""
    draw = random.Random(5)
    pinned = {3: (0, 3), 7: (1, 1), 11: (0, 1, 4, 5)}
    jobs = []
    for index in range(16):
        job = work(
            f"job-{index:02}",
            *pinned.get(index, ()),
            model=draw.choice(MODELS),
            batch=draw.randint(2, 8),
            priority=draw.choice((1, 2, 4)),
            arrival_s=round(index * draw.uniform(0, 0.6), 3),
            iterations=draw.randint(20, 60),
        )
        if index not in pinned:
            job["workers"] = draw.choice((2, 2, 3, 4, 6))
        jobs.append(job)
    return scene(racks(2, 3, GPUS, "3:2"), *jobs)


@cache
def played(policy: str) -> Run:
    """Return a run of these jobs, all links watched."""
    given = busy()
    links = [*given.cluster.node_names, "rack-0-uplink", "rack-1-uplink"]
    return simulate(given, policy, watch=links)


@cache
def flows(policy: str) -> dict[str, dict[str, float]]:
    """Return how many flows of each job crossed each link, from what they sent all in all."""
    run = played(policy)
    carried: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    before: dict[tuple[str, str], tuple[float, float]] = {}
    names = ("time_ms", "link", "job", "rate_mbps")
    for time, link, job, rate in zip(*(run.trace[name].tolist() for name in names), strict=True):
        since, last = before.get((job, link), (0.0, 0.0))
        carried[job][link] += last * (time - since)
        before[job, link] = time, rate
    assert {rate for _, rate in before.values()} <= {0.0}
    sent = {
        job.name: job.iterations * float(sum(job.ideal.volume))
        for job in training_jobs(busy(), 0.0, 0)
    }
    return {
        job: {link: volume / sent[job] for link, volume in links.items()}
        for job, links in carried.items()
    }


@EVERYBODY
def test_each_task_of_a_job_sends_all_its_volume_once(policy: str) -> None:
    """Through the interface of its node, if the job has several; through the uplink, likewise."""
    rows = job_table(played(policy))
    for job in busy().jobs:
        mine = flows(policy).get(job.name, {})
        nodes = {link: count for link, count in mine.items() if link.startswith("node")}
        uplinks = {link: count for link, count in mine.items() if link.startswith("rack")}
        assert all(count == pytest.approx(round(count), rel=1e-6) for count in mine.values())
        assert len(nodes) == (rows[job.name]["nodes"] if rows[job.name]["nodes"] > 1 else 0)
        assert len(uplinks) == (rows[job.name]["racks"] if rows[job.name]["racks"] > 1 else 0)
        for shares in (nodes, uplinks):
            assert not shares or sum(shares.values()) == pytest.approx(job.workers)
        for rack, first in (("rack-0-uplink", 0), ("rack-1-uplink", 3)):
            if rack in uplinks:
                there = sum(nodes.get(f"node-0{node}", 0) for node in range(first, first + 3))
                assert uplinks[rack] == pytest.approx(there)


@EVERYBODY
def test_no_node_has_more_tasks_than_gpus(policy: str) -> None:
    """Tasks of jobs on one node send nothing: they are counted in all, and need a node as well."""
    rows = job_table(played(policy))
    for moment in [row["start_s"] for row in rows.values()]:
        running = [
            name for name, row in rows.items() if row["start_s"] <= moment < row["end_s"] - 1e-9
        ]
        assert sum(rows[name]["workers"] for name in running) <= 6 * GPUS
        taken = {
            node: sum(flows(policy).get(name, {}).get(node, 0) for name in running)
            for node in busy().cluster.node_names
        }
        assert max(taken.values()) <= GPUS + 1e-6
        together = sum(rows[name]["nodes"] == 1 for name in running)
        assert sum(count < 0.5 for count in taken.values()) >= together


@EVERYBODY
def test_of_equal_jobs_the_more_important_and_then_the_earlier_begin_first(policy: str) -> None:
    draw = random.Random(1)
    jobs = [
        work(
            f"job-{index:02}",
            workers=4,
            priority=draw.choice((1, 2, 4)),
            arrival_s=round(draw.uniform(0, 8), 3),
            iterations=40,
        )
        for index in range(12)
    ]
    rows = job_table(simulate(scene(switch(2, 3), *jobs), policy))
    for one in rows.values():
        for other in rows.values():
            waiting = other["arrival_s"] <= one["start_s"] < other["start_s"]
            if waiting:
                assert (-one["priority"], one["arrival_s"]) < (
                    -other["priority"],
                    other["arrival_s"],
                )
