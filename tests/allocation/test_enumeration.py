"""Placements of small clusters are those that enumeration of all placements finds, or nearly."""

from __future__ import annotations

import random
import statistics
from collections import Counter, defaultdict
from itertools import product
from typing import Any

import pytest

from metronome_opt.allocation.placement_search import PlacementSearch, Places, Spot
from metronome_opt.allocation.request import PlacedJob
from metronome_opt.api import allocate
from metronome_opt.scenario import Scenario
from metronome_opt.solvers.budget import Budget
from tests.allocation.enumeration import (
    all_places,
    cheapest,
    compare_prices,
    compare_slowdowns,
    draw_scenario,
    nodes_of,
    price,
    spreads,
)
from tests.fabrics import tree

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
    nodes = {places["b"].nodes for places in search.find_all(300, Budget())}
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
    assert (
        PlacementSearch(Scenario.from_dict({**document, "jobs": jobs})).find_all(300, Budget())
        == []
    )


def _signature(scenario: Scenario, places: Places) -> object:
    """Return what decides iterations: how links carry each job, and the flows on each link."""
    search = PlacementSearch(scenario)
    resources, flows = search.occupancy().resources, defaultdict[str, dict[str, int]](dict)
    transports = []
    for name, job in search.jobs.items():
        placement = resources.by_paths(places[name].nodes, job)
        transports.append(placement.transport)
        for link, count in placement.links.items():
            flows[link][name] = count
    capacities = scenario.cluster.capacities
    links = Counter((capacities[link], *sorted(on.items())) for link, on in flows.items())
    return tuple(transports), frozenset(links.items())


@pytest.mark.parametrize("seed", range(30))
def test_placements_that_only_exchange_equal_nodes_and_racks_are_one(seed: int) -> None:
    """No kind of placement is lost: jobs have the same rates, and links the same flows."""
    draw = random.Random(seed)
    shapes: list[dict[str, str | None]] = [
        {},
        {"r": None},
        {"r": None, "s": None},
        {"r": "p", "s": "p", "t": "p"},
    ]
    racks = draw.choice(shapes)
    above = {**racks, "p": None} if "t" in racks else dict(racks)
    drawn = {f"n{i}": draw.choice([*racks, "s"]) for i in range(5)} | {f"own-{r}": r for r in racks}
    rack_of = {node: rack if rack in racks else None for node, rack in drawn.items()}
    cluster = tree(rack_of, above, gpus=draw.randint(1, 2), nic=100, uplink=150)
    for link in cluster["links"]:
        link["capacity"] = draw.choice([100, 100, link["capacity"]])
    sends = {"start_ms": 5, "length_ms": 20, "rate_mbps": 10}
    traffic = {"period_ms": 120, "phases": [sends]}
    jobs: list[dict[str, Any]] = [
        {"name": name, "workers": draw.randint(2, 3), "traffic": traffic, "allreduce": kind}
        for name, kind in (("a", "tasks"), ("b", draw.choice(["ring", "tree"])))
    ]
    limits: list[dict[str, Any]] = [{}, {"most_racks": 1}, {"allowed_nodes": ["n0", "n1", "n2"]}]
    jobs[0] |= draw.choice(limits)
    document = {"format": "metronome-scenario/1", "name": "x", "slot_ms": 1, "cluster": cluster}
    scenario = Scenario.from_dict({**document, "jobs": jobs})
    search = PlacementSearch(scenario)
    found = search.find_all(10_000, Budget())
    names = sorted(scenario.cluster.nodes_by_name, key=scenario.cluster.node_order.__getitem__)
    every = [
        {"a": Spot(one), "b": Spot(two)}
        for one, two in product(_spread(search, "a", names), _spread(search, "b", names))
        if max(Counter((*one, *two)).values()) <= cluster["nodes"][0]["has"]["gpus"]
    ]
    assert {_signature(scenario, its) for its in found} == {
        _signature(scenario, its) for its in every
    }
    assert len(found) <= len(every)


def _spread(search: PlacementSearch, name: str, names: list[str]) -> list[tuple[str, ...]]:
    job, cluster = search.jobs[name], search.scenario.cluster
    nodes = (nodes_of(its, names) for its in spreads(job.tasks, [2] * len(names)))
    return [its for its in nodes if job.limits.violation(cluster, its) is None]


def test_eight_equal_nodes_are_enumerated() -> None:
    """Three tasks on equal nodes of two GPUs stand as 2+1 or 1+1+1 on them.

    Beside 2+1 on a and b, the other job has on (a, b, elsewhere): b has one GPU left. It has
    0 or 1 of it, and the rest in twos and ones: 2+1, 1+1+1; 1 and 2, 1 and 1+1. That is 4. Beside
    1+1+1 each of the three has one GPU left: 0, 1, 2 or 3 of these, with 2+1 or 1+1+1; 2 or 1+1;
    1; none, which is 6.
    """
    cluster = tree({f"n{i}": None for i in range(8)}, {})
    sends = {"start_ms": 5, "length_ms": 20, "rate_mbps": 10}
    jobs = [
        {"name": name, "workers": 3, "traffic": {"period_ms": 120, "phases": [sends]}}
        for name in "ab"
    ]
    document = {"format": "metronome-scenario/1", "name": "x", "slot_ms": 1, "cluster": cluster}
    search = PlacementSearch(Scenario.from_dict({**document, "jobs": jobs}))
    assert len(search.find_all(300, Budget())) == 10
