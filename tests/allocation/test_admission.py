"""A job starts at the nearest placement unless another placement or a wait is surely better."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from metronome_opt.allocation.admission import QueuedJob, decide_admissions
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.pair_losses import PairLosses
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.allocation.rollout import Arrivals
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.nodes import Resources
from tests.allocation.test_candidates import room
from tests.builders import iteration_of
from tests.simulation.scenes import switch

MEETINGS = PairLosses("fair")


def traffic(transport: Transport) -> Iteration:
    """Return 50 ms of computing, and on several nodes a burst of 50 ms at 100 Mbit/s."""
    burst = 0 if transport.nodes == 1 else 50
    rate = min(transport.rate, Fraction(100))
    return iteration_of((Fraction(50), Fraction(50 - burst)), (Fraction(burst * 100),), (rate,))


def job(name: str, tasks: int, length_s: float = 100.0, weight: int = 1) -> JobRequest:
    """Return a ring whose tasks have a GPU each."""
    return JobRequest(
        name=name,
        tasks=tasks,
        task_resources=Resources(gpus=1),
        traffic=traffic,
        best_ms=100.0,
        algorithm="ring",
        length_ms=1000 * length_s,
        weight=weight,
    )


def cluster(nodes: int, gpus: int, *running: tuple[JobRequest, tuple[int, ...]]) -> Occupancy:
    """Return nodes on a switch with some jobs on some of them."""
    occupancy = Occupancy(room(switch(nodes, gpus)), [], MEETINGS)
    for each, places in running:
        names = [f"node-{node:02}" for node in places]
        occupancy.add(PlacedJob(each, occupancy.resources.placement(names, each)))
    return occupancy


def start(
    occupancy: Occupancy, *jobs: JobRequest, waited_s: float = 0.0, seed: int = 0
) -> list[tuple[str, ...] | None]:
    """Return the nodes on which jobs start; None for one that waits."""
    arrivals = Arrivals()
    for index, each in enumerate([*(p.job for p in occupancy.placed.values()), *jobs]):
        arrivals.note(each, 30_000.0 * index)
    waiting = [QueuedJob(each, 1000 * waited_s) for each in jobs]
    decisions = decide_admissions(waiting, occupancy, arrivals, seed)
    placements = [decisions[each.name].placement for each in jobs]
    return [None if each is None else each.nodes for each in placements]


def test_job_that_meets_no_other_is_at_the_nearest_nodes() -> None:
    occupancy = cluster(4, 2, (job("other", 2), (0, 0)))
    new = job("new", 3)
    nearest = occupancy.resources.nearest(new)
    assert nearest is not None
    assert start(occupancy, new) == [nearest.nodes]


def test_job_avoids_a_busy_link_if_a_node_as_near_is_free() -> None:
    """The nearest nodes are one of its own and one of the other job, whose interface is busy."""
    occupancy = cluster(4, 2, (job("other", 2, length_s=400), (0, 1)))
    new = job("new", 3)
    nearest = occupancy.resources.nearest(new)
    assert nearest is not None
    assert {"node-00", "node-01"} & {*nearest.nodes}
    assert occupancy.start(new, nearest).losses["new"] > 0.1
    (nodes,) = start(occupancy, new)
    assert nodes is not None
    assert {*nodes} == {"node-02", "node-03"}


def test_small_jobs_leave_whole_nodes_to_large_ones() -> None:
    small = [job(f"small-{index}", 2) for index in range(4)]
    *others, large = start(cluster(3, 8), *small, job("large", 8))
    assert len({nodes for nodes in others if nodes is not None}) == 1
    assert large is not None
    assert len({*large}) == 1


def straddling() -> tuple[Occupancy, JobRequest]:
    """Return a job of four tasks that sends for 50 ms longer on two nodes, and its cluster."""

    def slower(transport: Transport) -> Iteration:
        (burst,) = traffic(transport).bursts
        return Iteration((replace(burst, after=Fraction(50)),), rest=Fraction(50))

    short = [job(name, 2, length_s=5) for name in "ab"]
    occupancy = cluster(2, 4, (short[0], (0, 0)), (short[1], (1, 1)))
    return occupancy, replace(job("new", 4, length_s=500), traffic=slower)


def test_job_waits_for_a_node_of_its_own_if_that_is_soon_free() -> None:
    occupancy, new = straddling()
    assert start(occupancy, new) == [None]
    (nodes,) = start(occupancy, replace(new, length_ms=5_000.0))  # it would lose 2.5 s
    assert nodes is not None


def test_no_job_waits_for_ever() -> None:
    occupancy, new = straddling()
    assert start(occupancy, new, waited_s=4000) == [None]
    (nodes,) = start(occupancy, new, waited_s=6000)  # 20 times as long as the 250 s that it loses
    assert nodes is not None


def test_no_job_waits_at_one_gpu_a_node_where_nothing_is_gained() -> None:
    running = [
        (job(f"job-{index}", 2, length_s=10), (2 * index, 2 * index + 1)) for index in (0, 1)
    ]
    for tasks in (2, 3, 4):
        (nodes,) = start(cluster(8, 1, *running), job("new", tasks, length_s=1000))
        assert nodes is not None


def test_jobs_elsewhere_change_nothing() -> None:
    """They are on nodes of their own, and take no room that the new job could have."""
    new, other = job("new", 3), job("other", 2, length_s=400)
    elsewhere = [(job(f"full-{node}", 2, length_s=9), (node, node)) for node in (4, 5)]
    alone = start(cluster(4, 2, (other, (0, 1))), new)
    assert alone == start(cluster(6, 2, (other, (0, 1)), *elsewhere), new)


def test_equal_seeds_give_equal_decisions() -> None:
    occupancy = cluster(
        4, 4, (job("a", 6), (0, 0, 0, 1, 1, 1)), (job("b", 3, length_s=20), (2, 2, 2))
    )
    jobs = [job("c", 3), job("d", 5, weight=4), job("e", 2)]
    assert start(occupancy, *jobs, seed=3) == start(occupancy, *jobs, seed=3)


def test_jobs_to_come_are_as_seen_but_no_more_than_there_is_room_for() -> None:
    arrivals = Arrivals()
    arrivals.note(job("a", 2), 0.0)
    assert arrivals.sample(0, 1e9, gpus=4) == []
    for index in range(1, 200):
        arrivals.note(job(f"b{index}", 2), 10_000.0 * index)
    arrivals.note(job("b1", 2), 0.0)  # known already
    mean = {gpus: arrivals.sample(0, 1e9, gpus)[-1][0] / 12 for gpus in (1000, 4)}
    assert 8_000 < mean[1000] < 12_000
    assert mean[4] == 50_000  # two GPUs for 100 s on four GPUs
