"""Places of small clusters are those that enumeration of all places finds, or nearly."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.allocation import price
from metronome_opt.allocation.placement_search import PlacementSearch
from metronome_opt.allocation.request import PlacedJob
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
