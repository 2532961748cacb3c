"""Greedy, beam, tree and CP-SAT: against all places as the judge prices them, and each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from benchmarks.clusters import small_case
from metronome_opt.cluster.gang import Gang
from metronome_opt.errors import InputError
from metronome_opt.instance import Phase
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scheduling.cpsat import place_exactly
from metronome_opt.scheduling.cycle import Cycle, First, PlaceDecision
from metronome_opt.scheduling.place import FIRST, place_by_beam, place_greedily
from metronome_opt.scheduling.tree import place_on_tree
from tests.scheduling.clusters import (
    CASES,
    Price,
    cluster,
    gang,
    judged_contention,
    judged_prices,
    running,
    state_of,
    with_gang,
)
from tests.tiers import examples

Search = Callable[[Cycle], PlaceDecision | None]


def by_cpsat(cycle: Cycle) -> PlaceDecision | None:
    decision, proved = place_exactly(cycle, time_limit=60)
    assert proved
    return decision


SEARCHES: dict[str, Search] = {
    "greedy": place_greedily,
    "beam": place_by_beam,
    "tree": place_on_tree,
    "cpsat": by_cpsat,
}
EXACT = ("tree", "cpsat")


def price_of(cycle: Cycle, decision: PlaceDecision) -> Price:
    conflicts = decision.conflicts if cycle.conflict else 0
    return (conflicts, decision.contention), decision.racks, decision.fragments


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
@examples(30)
@given(CASES)
def test_what_is_found_is_a_place_and_priced_as_the_judge_does(name: str, cycle: Cycle) -> None:
    prices = judged_prices(cycle)
    decision = SEARCHES[name](cycle)
    assert (decision is None) == (not prices)
    if decision is None:
        return
    assert price_of(cycle, decision) == prices[decision.nodes]
    claimed = with_gang(cycle, decision.nodes, decision.offset)
    added = judged_contention(claimed) - judged_contention(cycle.state)
    assert added == decision.contention
    if name in EXACT:
        assert price_of(cycle, decision) == min(prices.values())


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("seed", range(20))
def test_larger_cases_are_ranked_as_they_should_be(seed: int, first: First) -> None:
    case = small_case(seed)
    cycle = Cycle(case.state, case.gang, first=first)
    found = {name: search(cycle) for name, search in SEARCHES.items()}
    prices = {name: decision.price[:3] for name, decision in found.items() if decision is not None}
    assert len(prices) in (0, len(SEARCHES))
    if prices:
        assert prices["cpsat"] == prices["tree"] <= prices["beam"] <= prices["greedy"]


@pytest.mark.parametrize("name", ["beam", *EXACT])
def test_one_link_with_more_contention_is_better_than_two_with_less(name: str) -> None:
    # In rack 0 both interfaces would be over by 1, in rack 1 one of them by 5.
    state = state_of(
        cluster([2, 2], gpus=1),
        running("both", "n0 n1", (0, 12, 41)),
        running("one", "n2 n3", (0, 12, 45)),
    )
    state.set_capacity("n3", 200)
    asked = gang(2, (0, 6, 60), most_racks=1)
    best: dict[First, tuple[tuple[int, ...], int, int]] = {
        "compatibility": ((2, 3), 1, 2 * 6 * 5),
        "contention": ((0, 1), 2, 2 * 2 * 6),
    }
    for first, expected in best.items():
        decision = SEARCHES[name](Cycle(state, asked, first=first))
        assert decision is not None
        assert (decision.nodes, decision.conflicts, decision.cost) == expected


@pytest.mark.parametrize("name", ["greedy", "beam", "tree"])
def test_a_gang_far_too_large_gets_none(name: str) -> None:
    state = state_of(cluster([2, 1], gpus=2, uplink=None))
    assert SEARCHES[name](Cycle(state, gang(MAX_TASKS))) is None


def test_a_case_that_is_too_large_for_the_exact_model_is_refused() -> None:
    spec = cluster([40], gpus=8, interface=1000, hyperperiod=1200)
    asked = Gang(name="big", tasks=9, period=1200, phases=(Phase(start=0, length=1, rate=1),))
    with pytest.raises(InputError) as refusal:
        place_exactly(Cycle(state_of(spec), asked), time_limit=1)
    # 8 tasks on each of 40 nodes and of one uplink, at 1200 offsets.
    assert str(refusal.value) == (
        "big: its exact model would have 393600 cells, above the limit of 200000; choose another "
        "search"
    )


def test_without_time_nothing_is_proved() -> None:
    assert place_exactly(small_case(19), time_limit=0.0) == (None, False)
