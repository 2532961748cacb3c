"""The joint model agrees with all choices from its pools, tried one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from metronome_opt.allocation.joint_model import _build_pool, place_by_model
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.placement_search import PlacementSearch
from metronome_opt.allocation.request import PlacedJob
from metronome_opt.allocation.selection import lost
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.flows import Placement
from metronome_opt.solvers.budget import Budget
from tests.allocation.enumeration import cheapest, draw_scenario, price
from tests.allocation.test_scenario_search import job, scene
from tests.simulation.scenes import switch

SOLVERS = ("cpsat", "milp")
COSTLY = (6, 9, 12, 23, 39)
"""Seeds of scenarios whose jobs cost each other something at all placements."""


def choices(search: PlacementSearch, pools: Sequence[Sequence[Placement]]) -> Iterator[Occupancy]:
    """Yield all choices of one placement of each pool, or none, that fit together."""
    for chosen in product(*((*pool, None) for pool in pools)):
        occupancy = search.occupancy()
        for demand, placement in zip(search.unplaced, chosen, strict=True):
            if placement is not None and occupancy.resources.holds(
                placement.nodes, demand.task_resources
            ):
                occupancy.add(PlacedJob(demand, placement))
        yield occupancy


def least(search: PlacementSearch) -> tuple[tuple[int, int], float]:
    """Return what the best choice from the pools leaves out, and its price."""
    pools = [_build_pool(search.occupancy().resources, job) for job in search.unplaced]
    return min(
        (lost([job for job in search.unplaced if job.name not in found.placed]), price(found))
        for found in choices(search, pools)
    )


@pytest.mark.parametrize("seed", COSTLY)
def test_solvers_agree_with_all_choices_from_the_pools(seed: int) -> None:
    search = PlacementSearch(draw_scenario(seed))
    fewest, lowest = least(search)
    assert lowest > 0
    for solver in SOLVERS:
        found, left, pool = place_by_model(search.unplaced, search.occupancy(), solver, Budget(20))
        assert lost(left) == fewest
        assert price(found) == pytest.approx(lowest, abs=1e-6)
        assert pool is not None
        assert pool.bound is not None
        assert pool.bound <= pool.cost == pytest.approx(lowest, abs=1e-6)
        assert pool.gap == pytest.approx(0, abs=1e-5)


def test_no_place_outside_of_the_pools_is_much_cheaper() -> None:
    for seed in range(6):
        search = PlacementSearch(draw_scenario(seed))
        found, left, _ = place_by_model(search.unplaced, search.occupancy(), "cpsat", Budget(20))
        fewest, lowest = cheapest(search.unplaced, search.occupancy())
        assert sum(job.cost_weight for job in left) == fewest
        assert price(found) == pytest.approx(lowest, abs=1e-4)


def crowded() -> Scenario:
    """Return three jobs of two tasks each on two nodes of two GPUs: the lightest one waits."""
    jobs = [job("light", 2), job("a", 2, priority=2), job("b", 2, priority=3)]
    return scene(switch(2, 2), *jobs)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_least_weight_waits(solver: str) -> None:
    search = PlacementSearch(crowded())
    found, left, pool = place_by_model(search.unplaced, search.occupancy(), solver, Budget(20))
    assert [job.name for job in left] == ["light"]
    assert pool is not None
    assert pool.cost == pool.bound == pool.gap == 0  # each of the others has a node
    assert {len(set(each.placement.nodes)) for each in found.placed.values()} == {1}


def test_without_time_places_are_those_of_insertion() -> None:
    search = PlacementSearch(draw_scenario(6))
    found, left, pool = place_by_model(search.unplaced, search.occupancy(), "cpsat", Budget(0))
    assert pool is None
    assert not left
    assert set(found.placed) == {job.name for job in search.unplaced}


def test_pools_have_distinct_placements_that_jobs_tolerate() -> None:
    search = PlacementSearch(draw_scenario(6))
    room = search.occupancy().resources
    for demand in search.unplaced:
        pool = _build_pool(room, demand)
        assert len({placement.nodes for placement in pool}) == len(pool)
        assert all(room.try_nodes(placement.nodes, demand) for placement in pool)
        assert _build_pool(room, demand, pool[-1:])[0] == pool[-1]
