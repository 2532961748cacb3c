"""Places of small clusters are those that enumeration of all places finds, or nearly."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from benchmarks.allocation import price
from metronome_opt.allocation.placement_search import PlacementSearch
from metronome_opt.allocation.request import PlacedJob
from metronome_opt.api import allocate
from metronome_opt.scenario import Scenario
from tests.allocation.enumeration import (
    all_places,
    cheapest,
    compare_prices,
    compare_slowdowns,
    draw_scenario,
)

CASES = range(25)


@pytest.mark.slow
def test_search_reaches_the_lowest_price_of_all_places() -> None:
    for seed in CASES:
        (lost, price), (fewest, lowest) = compare_prices(draw_scenario(seed))
        assert lost == fewest, seed
        assert price == pytest.approx(lowest), seed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("slowdown", range(10)),
        ("lexicographic", range(5)),
        pytest.param("slowdown", CASES, marks=pytest.mark.slow),
        pytest.param("lexicographic", range(10), marks=pytest.mark.slow),
    ],
)
def test_allocation_is_nearly_as_good_as_the_best_of_all_places_simulated(
    name: str, cases: range
) -> None:
    pairs = [pair for seed in cases if (pair := compare_slowdowns(draw_scenario(seed), name))]
    assert len(pairs) > len(cases) // 2
    assert statistics.mean(reached - best for reached, best in pairs) < 0.005


def test_places_that_alike_nodes_make_equal_cost_the_same() -> None:
    for seed in (5, 7, 9):
        search = PlacementSearch(draw_scenario(seed))
        prices = []
        for places in all_places(search.scenario):
            occupancy = search.occupancy()
            for job in search.unplaced:
                occupancy.add(
                    PlacedJob(job, occupancy.resources.placement(places[job.name].nodes, job))
                )
            prices.append(price(occupancy))
        lost, lowest = cheapest(search.unplaced, search.occupancy())
        assert lost == 0
        assert min(prices) == pytest.approx(lowest)


LISTED: dict[str, Any] = {
    "topology": "listed",
    "nodes": [
        {"name": "n0", "has": {"gpus": 2}, "interface": "nic-0", "rack": "r0"},
        {"name": "n1", "has": {"gpus": 8}, "interface": "nic-1", "rack": "r1"},
    ],
    "racks": [{"name": "r0", "uplink": "up-r0"}, {"name": "r1", "uplink": "up-r1"}],
    "links": [
        {"name": name, "capacity": capacity}
        for name, capacity in (("up-r0", 100), ("up-r1", 40_000), ("nic-0", 50_000))
    ]
    + [{"name": "nic-1", "capacity": 50_000}],
}


def test_all_places_of_two_jobs_on_two_nodes_are_simulated() -> None:
    """One of the nine tasks is on n0 at least, and its job sends over 100 Mbit/s.

    20 ms of 10,000 Mbit/s take 2,000 ms there. With 100 ms of computing in 120 that is a slowdown
    of 2,100 over 120, and less than with 60 ms in 80; the other job keeps its period on n1.
    """
    sends = {"start_ms": 5, "length_ms": 20, "rate_mbps": 10_000}
    jobs = [
        {"name": "a", "workers": 6, "traffic": {"period_ms": 120, "phases": [sends]}},
        {"name": "b", "workers": 3, "traffic": {"period_ms": 80, "phases": [sends]}},
    ]
    document = {"format": "metronome-scenario/1", "name": "x", "slot_ms": 1, "cluster": LISTED}
    scenario = Scenario.from_dict({**document, "jobs": jobs})
    search = PlacementSearch(scenario)
    nodes = {places["b"].nodes for places in search.find_all(300)}
    assert nodes == {("n0", "n0", "n1"), ("n0", "n1", "n1"), ("n1",) * 3}
    result = allocate(scenario, time_limit=20)
    assert result.value == pytest.approx((1 + 2100 / 120) / 2, rel=0.001)


def test_places_are_enumerated_only_where_they_are_few() -> None:
    nodes = [{"name": f"n{i}", "has": {"gpus": 8}, "interface": f"n{i}"} for i in range(20)]
    links = [{"name": f"n{i}", "capacity": 1000} for i in range(20)]
    sends = {"start_ms": 5, "length_ms": 20, "rate_mbps": 100}
    jobs = [
        {"name": f"j{i}", "workers": 8, "traffic": {"period_ms": 120, "phases": [sends]}}
        for i in range(10)
    ]
    cluster = {"topology": "listed", "nodes": nodes, "links": links}
    document = {"format": "metronome-scenario/1", "name": "x", "slot_ms": 1, "cluster": cluster}
    assert PlacementSearch(Scenario.from_dict({**document, "jobs": jobs})).find_all(300) == []
