"""The cost of a placement is the weighted time that jobs lose by it, pair by pair."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.pair_losses import PairLosses
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.allocation.start_options import candidate_starts, cheapest, exchange_nodes
from metronome_opt.engine.conditions import JITTER
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.nodes import Resources
from tests.allocation.test_candidates import room
from tests.builders import iteration_of
from tests.simulation.scenes import switch


def pattern(compute: int, burst: int, rate: int = 100) -> Iteration:
    """Return ms of computing, and then a burst of so many at a rate."""
    volume = Fraction(burst * rate)
    return iteration_of((Fraction(compute), Fraction(0)), (volume,), (Fraction(rate),))


def test_exchanged_nodes_have_room_for_tasks_without_gpus() -> None:
    """A fourth node has its interface to itself, but no CPU."""
    free = room(switch(4, 2))
    free.free[:, 1] = 2, 2, 1, 0
    each = Resources(cpu_millicores=1)
    one, new = (
        JobRequest(name, 2, each, lambda _: pattern(10, 90), 100.0) for name in ("one", "new")
    )
    occupancy = Occupancy(free, [], PairLosses("fair"))
    occupancy.add(PlacedJob(one, free.placement(["node-00", "node-01"], one)))
    best = cheapest(candidate_starts(occupancy, new))
    assert best is not None
    placement = exchange_nodes(occupancy, new, best).placement
    assert occupancy.resources.holds(placement.nodes, each)


def test_jobs_meet_with_their_jitter_or_the_usual_one() -> None:
    def cost(jitter: float | None) -> float:
        one = replace(pattern(50, 50), jitter=jitter)
        return sum(PairLosses("tcp").on_link((one, 1, 1), (pattern(52, 50), 1, 1), 100))

    assert cost(None) == cost(JITTER)
    assert cost(0.2) > cost(0.01) + 0.01


def test_job_on_a_failed_link_does_not_take_for_ever_to_meet() -> None:
    """An iteration of 1 Mbit/s lasts a million times as long as that of the other job."""
    slow = pattern(0, 10**8, rate=1)
    mine, theirs = PairLosses("fair").on_link((pattern(50, 50), 1, 1), (slow, 1, 1), 100)
    assert mine == pytest.approx(0.005, abs=0.003)  # bursts have 99 Mbit/s, half of the time
    assert theirs == 0


def test_first_of_two_classes_goes_first_where_the_other_loses_little() -> None:
    """A short burst of weight 4 that goes first delays a long one by less than 2 %."""
    short, long = pattern(198, 2), pattern(150, 150)
    weighted = (short, 1, 4), (long, 1, 1)
    free = PairLosses("fair").on_link(*weighted, 100)
    classes = PairLosses("fair", classes=2).on_link(*weighted, 100)
    assert 4 * classes[0] + classes[1] <= 4 * free[0] + free[1]
    assert classes[1] <= free[1] + 0.02
    equal = (pattern(50, 50), 1, 4), (pattern(53, 50), 1, 1)
    free, classes = (PairLosses("fair", classes=n).on_link(*equal, 100) for n in (1, 2))
    assert max(one - other for one, other in zip(classes, free, strict=True)) <= 0.02
