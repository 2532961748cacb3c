"""Flows take the spines where they cost least; windows keep apart those that share one."""

from __future__ import annotations

from fractions import Fraction

import pytest

from metronome_opt import allocate
from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.pair_losses import PairLosses
from metronome_opt.allocation.paths import list_paths, reroute_jobs, route
from metronome_opt.allocation.placement_search import PlacementSearch
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.scenario.nodes import ONE_GPU
from metronome_opt.scenario.verification import verify_placed
from tests.allocation.path_enumeration import compare, draw_fabric
from tests.builders import iteration_of
from tests.fabrics import fabric, ring, scene

SOLVERS = ["auto", "greedy", "cpsat", "milp"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(4))
def test_two_jobs_over_two_spines_never_collide_when_paths_are_chosen(
    solver: str, seed: int
) -> None:
    jobs = ring("a", (0, 2), burst_ms=200), ring("b", (1, 3), burst_ms=200)
    made = scene(fabric(hash_seed=seed), *jobs)
    schedule = allocate(made, solver).schedule
    (a, b) = ((schedule.paths or {})[name] for name in "ab")
    assert {a[0], b[0]} == {a[1], b[1]} == {(0,), (1,)}
    assert schedule.objectives["slowdown"] == 1
    assert verify_placed(made, schedule)[1] == ()


def test_slots_keep_apart_the_two_of_three_jobs_that_share_a_spine() -> None:
    """Bursts of a third of the period: two fit on a spine if they do not begin together."""
    jobs = [ring(name, (at, 3 + at)) for at, name in enumerate("abc")]
    made = scene(fabric(each=3), *jobs)
    schedule = allocate(made).schedule
    spines = {name: its[0] for name, its in (schedule.paths or {}).items()}
    (shared,) = [spine for spine in ((0,), (1,)) if [*spines.values()].count(spine) == 2]
    one, other = (schedule.offsets[name] for name in spines if spines[name] == shared)
    assert 10 <= (one - other) % 30 <= 20  # in slots of 10 ms: bursts are 10 of 30 slots
    assert [(schedule.gated or {})[name] for name in spines if spines[name] == shared] == [True] * 2
    assert schedule.objectives["slowdown"] == 1
    assert verify_placed(made, schedule)[1] == ()


def test_places_and_paths_are_chosen_together() -> None:
    """Two jobs of three tasks on racks of two nodes: both have to cross, by spines of their own."""
    jobs = [{**ring(name, (0, 1, 2), burst_ms=200), "nodes": None, "workers": 3} for name in "ab"]
    made = scene(fabric(racks=3), *({k: v for k, v in job.items() if v} for job in jobs))
    result = allocate(made)
    assert set(result.schedule.places or {}) == {"a", "b"}
    assert result.schedule.objectives["slowdown"] == 1
    assert verify_placed(made, result.schedule)[1] == ()


def test_stated_paths_are_kept() -> None:
    both = [[0], [0]]
    jobs = [ring(name, (at, 2 + at), burst_ms=200, paths=both) for at, name in enumerate("ab")]
    schedule = allocate(scene(fabric(), *jobs)).schedule
    assert schedule.paths == {"a": ((0,), (0,)), "b": ((0,), (0,))}
    assert (schedule.objectives["slowdown"] or 0) > 1


def demand(name: str, burst: int) -> JobRequest:
    compute = Fraction(300 - burst), Fraction(0)
    pattern = iteration_of(compute, (Fraction(1200 * burst),), (Fraction(1200),))
    return JobRequest(name, 2, ONE_GPU, lambda _: pattern, float(300), "ring", length_ms=1000.0)


def test_a_flow_avoids_the_spine_where_it_meets_most_in_time() -> None:
    """Bursts of 200 of 300 ms leave ungated ones of 100 ms no room; of 20 ms they do."""
    room = CandidatePlacements(scene(fabric(each=3), ring("a", (0, 3))).cluster)
    occupancy = Occupancy(room, [], PairLosses("fair"))
    for name, burst, nodes, spine in (("long", 200, (0, 3), 0), ("short", 20, (1, 4), 1)):
        job = demand(name, burst)
        where = [f"node-{node:02}" for node in nodes]
        occupancy.add(PlacedJob(job, room.placement(where, job, ((spine,), (spine,)))))
    new = demand("new", 100)
    hashed = room.placement(["node-02", "node-05"], new)
    assert route(occupancy, new, hashed).paths == ((1,), (1,))


def test_running_flows_make_room() -> None:
    """Two jobs on one spine; that one of them takes the other one costs nothing."""
    made = scene(fabric(), ring("a", (0, 2), burst_ms=200), ring("b", (1, 3), burst_ms=200))
    search = PlacementSearch(made)
    occupancy = search.occupancy()
    for name in "ab":
        each = occupancy.remove(name)
        by_first = occupancy.resources.placement(each.placement.nodes, each.job, ((0,), (0,)))
        occupancy.add(PlacedJob(each.job, by_first))
    changed = reroute_jobs(occupancy, ["a", "b"])
    assert {name: its.paths for name, its in changed.items()} == {"a": ((1,), (1,))}
    assert occupancy.placed["b"].placement.paths == ((0,), (0,))


def test_choices_of_paths_are_all_or_turns() -> None:
    assert len(set(list_paths(((0,), (), (0,)), 4))) == 16
    many = list(list_paths(tuple((0,) for _ in range(5)), 4))
    assert all(len(its) == 5 for its in many)
    assert tuple((n % 4,) for n in range(5)) in many


@pytest.mark.slow
def test_paths_are_nearly_those_of_enumeration() -> None:
    for seed in range(12):
        reached, least = compare(draw_fabric(seed))
        assert reached <= 1.02 * least


def test_a_flow_avoids_a_spine_that_leaves_it_too_little() -> None:
    """One direction of a link to the first spine is nearly taken by others; no job is there yet."""
    for taken in ("80%", "1199 Mbit/s"):
        background = {"rack-0-uplink-0": taken}
        made = scene(fabric(background=background), ring("a", (0, 2)))
        for solver in SOLVERS:
            schedule = allocate(made, solver).schedule
            assert (schedule.paths or {})["a"][0] == (1,)
            assert schedule.objectives["slowdown"] == 1 or solver == "greedy"


def test_flows_of_a_job_share_a_spine_that_carries_them() -> None:
    """Two slow flows of a job fit beside one another, and not beside a fast one of another job."""
    slow = {**ring("a", (0, 1, 3, 4), burst_ms=200, allreduce="tasks"), "rate_mbps": 300}
    made = scene(fabric(each=3), slow, ring("b", (2, 5), burst_ms=200))
    schedule = allocate(made).schedule
    paths = schedule.paths or {}
    assert {spine for its in paths["a"] for spine in its}.isdisjoint(
        {spine for its in paths["b"] for spine in its}
    )
    assert schedule.objectives["slowdown"] == 1
