"""The place of a job: against all places as the verifier prices them, and cases by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scheduling import place_job
from tests.cluster.small import cluster, gang, running, state_of
from tests.scheduling.oracle import judged_costs, judged_prices, small_case
from tests.tiers import examples


@examples(200)
@given(st.integers(0, 2**32))
def test_place_and_rotation_are_best_of_all_as_judged(seed: int) -> None:
    cycle = small_case(seed)
    prices = judged_prices(cycle)
    decision = place_job(cycle.state, cycle.gang)
    assert (decision is None) == (not prices)
    if decision is None:
        return
    cost = (decision.conflicts, decision.contention)
    assert (cost, decision.racks, decision.fragments) == min(prices.values())
    assert min(prices.values()) == prices[decision.nodes]
    assert judged_costs(cycle, decision.nodes)[decision.offset] == cost


def test_one_link_with_more_contention_is_better_than_two_with_less() -> None:
    # In rack 0 both interfaces would be over by 1, in rack 1 one of them by 5.
    state = state_of(
        cluster([2, 2], gpus=1),
        running("both", "n0 n1", (0, 12, 41)),
        running("one", "n2 n3", (0, 12, 45)),
    )
    state.set_capacity("n3", 200)
    decision = place_job(state, gang(2, (0, 6, 60), most_racks=1))
    assert decision is not None
    assert (decision.nodes, decision.conflicts, decision.cost) == ((2, 3), 1, 2 * 6 * 5)


def test_all_links_have_one_rotation() -> None:
    state = state_of(
        cluster([2], gpus=1),
        running("early", "n0 n0", (0, 6, 60)),
        running("first", "n0 n1", (0, 6, 60)),
    )
    decision = place_job(state, gang(2, (0, 6, 60)))
    assert decision is not None
    assert (decision.offset, decision.cost) == (6, 0)


def test_burst_goes_into_middle_of_what_is_free() -> None:
    state = state_of(cluster([2], gpus=1), running("a", "n0 n1"))
    decision = place_job(state, gang(2))
    assert decision is not None
    # Two bursts of 60 do not fit 100 together. Of 12 slots 4 to 11 are free, 8 for a burst of 4.
    assert decision.claim.offset == 6
    assert decision.cushion == 2
    assert decision.contention == 0
    assert decision.score == 100
    assert decision.claim.nodes == ("n0", "n1")
    assert (decision.racks, decision.fragments) == (1, 0)


def test_what_does_not_fit_costs_what_is_late() -> None:
    state = state_of(cluster([2], gpus=1), running("a", "n0 n1"))
    decision = place_job(state, gang(2, (0, 10, 60)))
    assert decision is not None
    # 10 slots into 8: on two interfaces 20 Mbit/s are late in 2 of 12 slots, of 600 sent there.
    assert decision.contention == Fraction(2 * 2 * 20, 12)
    assert decision.conflicts == 2
    # 6.7 percent are late, and one of two links is in conflict besides.
    assert decision.score == 100 - (100 + 7 + 1) // 2
    assert decision.cushion == 0


def test_job_without_weight_is_late_at_no_cost() -> None:
    """Contention is weighted, and the lightest gives way."""
    state = state_of(cluster([2], gpus=1), running("full", "n0 n1", (0, 12, 100)))
    decision = place_job(state, gang(2, (0, 12, 60), weight=0))
    assert decision is not None
    assert (decision.cost, decision.conflicts, decision.score) == (0, 0, 100)


def test_failed_uplink_keeps_gangs_in_their_racks() -> None:
    state = state_of(cluster([2, 3], gpus=1))
    state.set_capacity("up-0", 0)
    assert place_job(state, gang(2)) is not None
    decision = place_job(state, gang(3))
    assert decision is not None
    assert decision.nodes == (2, 3, 4)
    assert place_job(state, gang(4)) is None


@pytest.mark.parametrize(("tasks", "racks"), [(5, None), (3, 1), (MAX_TASKS, None)])
def test_without_room_there_is_no_place(tasks: int, racks: int | None) -> None:
    state = state_of(cluster([2, 2], gpus=1))
    assert place_job(state, gang(4)) is not None
    assert place_job(state, gang(tasks, most_racks=racks)) is None


def test_job_that_runs_or_costs_too_much_to_count_is_refused() -> None:
    state = state_of(cluster([2], gpus=1, interface=2**29))
    with pytest.raises(InputError, match="new: costs may not fit 64-bit integers; lower its weig"):
        place_job(state, gang(2, (0, 4, 2**29), weight=2**25))
    with pytest.raises(InputError, match="new: runs already; unreserve it first, or rename it"):
        place_job(state_of(cluster([2]), running("new", "n0 n1")), gang(2))
