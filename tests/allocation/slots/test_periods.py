"""Candidate periods leave room for bursts: the least stretch of two jobs is among them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest

from metronome_opt.allocation.slots.periods import CUSHION_SLOTS, PeriodCandidates, largest_stretch
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.budget import Budget
from tests.allocation.slots.cases import NESTED
from tests.allocation.slots.feasibility_cases import fits
from tests.builders import job, network


def plans(instance: Instance, limit: Fraction, **options: Any) -> list[Plan]:
    longest = {each.name: int(each.period * (1 + limit)) for each in instance.jobs}
    made = PeriodCandidates(instance, longest, lambda _: True, Budget(), **options)
    return list(made.plans())


def drawn_pair(seed: int) -> Instance:
    draw = Random(seed)
    return network(
        *(
            job(name, draw.randint(8, 24), (0, draw.randint(1, 6), 100), weight=draw.randint(1, 3))
            for name in "ab"
        )
    )


@pytest.mark.parametrize("seed", range(20))
def test_least_stretch_of_two_jobs_is_among_them(seed: int) -> None:
    pair, limit = drawn_pair(seed), Fraction(seed, 20)

    def cost(periods: Mapping[str, int]) -> Fraction:
        stretches = (
            each.weight * (Fraction(periods[each.name], each.period) - 1) for each in pair.jobs
        )
        return sum(stretches, Fraction(0))

    allowed = [range(each.period, int(each.period * (1 + limit)) + 1) for each in pair.jobs]
    every = [dict(zip("ab", periods, strict=True)) for periods in product(*allowed)]
    fitting = (periods for periods in every if fits(pair, periods, CUSHION_SLOTS))
    least = min(map(cost, fitting), default=None)
    assert min((cost(plan.periods) for plan in plans(pair, limit)), default=None) == least


@pytest.mark.parametrize("seed", range(5))
def test_larger_limit_adds_candidates_after_those_of_a_smaller_one(seed: int) -> None:
    few, many = (plans(drawn_pair(seed), Fraction(share, 4)) for share in (1, 4))
    assert many[: len(few)] == few
    stretches = [largest_stretch(drawn_pair(seed), plan.periods) for plan in many]
    assert all(first <= second for first, second in pairwise(stretches))


def test_idle_time_goes_after_bursts_of_jobs_that_vary() -> None:
    # 70 slots are computing: standard deviations of 7, 7 and 0 slots. Of 10 idle slots c gets 1.
    jitters = {"a": 0.1, "b": 0.1, "c": 0.0}
    trio = network(*(job(name, 100, (0, 30, 100), jitter=j) for name, j in jitters.items()))
    offsets = plans(trio, Fraction(0))[0].offsets
    order = sorted(offsets, key=offsets.__getitem__)
    following = [*order[1:], order[0]]
    room = {
        one: (offsets[other] - offsets[one]) % 100 - 30
        for one, other in zip(order, following, strict=True)
    }
    assert room["a"] >= 4
    assert room["b"] >= 4


def test_periods_divide_the_hyperperiod() -> None:
    found = [plan.periods for plan in plans(NESTED, Fraction(1), hyperperiod=60)]
    assert found
    assert all(60 % period == 0 for periods in found for period in periods.values())
    assert found[0] == {"a": 60, "b": 20}
