"""Weighted sums, and objectives within limits, against the judge's word on every schedule."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.result import Level
from metronome_opt.schedule import Status
from metronome_opt.verify import check
from tests.builders import job, network
from tests.multiobjective.enumeration import (
    AT_GIVEN_PERIODS,
    ORDERS,
    Objectives,
    contested,
    cost,
    costs,
    every,
    final,
    in_order,
)
from tests.solving import solve
from tests.tiers import examples

IN_SUMS = ("contention", "latency", "wait", "moves")


def natural_sizes(instance: Instance) -> dict[str, Fraction]:
    """Return what docs/model.md says a weighted sum divides by."""
    jobs = instance.jobs
    traffic = sum(
        Fraction(each.weight * flows * phase.length * phase.rate, each.period)
        for each in jobs
        for phase in each.phases
        for flows in each.links.values()
    )
    sizes = {
        "contention": Fraction(traffic),
        "latency": Fraction(1),
        "wait": Fraction(sum(each.weight * each.period for each in jobs)),
        "moves": Fraction(sum(each.weight for each in jobs if each.current_offset is not None)),
    }
    return {name: size or Fraction(1) for name, size in sizes.items()}


def weighted(instance: Instance, weights: Mapping[str, Fraction], values: Objectives) -> Fraction:
    """Return the sum, each objective divided by its natural size."""
    sizes = natural_sizes(instance)
    return sum(
        (weight * (values[name] or Fraction(0)) / sizes[name] for name, weight in weights.items()),
        Fraction(0),
    )


@st.composite
def weightings(draw: st.DrawFn) -> dict[str, Fraction]:
    names = draw(st.lists(st.sampled_from(IN_SUMS), min_size=1, unique=True))
    return {name: draw(st.fractions(0, 9, max_denominator=4)) for name in names}


@given(contested(), weightings())
@examples(60)
def test_weighted_sum_is_optimal(instance: Instance, weights: dict[str, Fraction]) -> None:
    assume(any(weights.values()))
    least = min(weighted(instance, weights, each) for each in every(instance))
    result = solve(
        instance, objective={name: str(each) for name, each in weights.items()}, workers=1
    )
    assert weighted(instance, weights, result.evaluation.objectives) == least
    assert result.levels == (Level("weighted sum", least, proved=True),)
    assert check(instance, result.schedule) == ()


@st.composite
def limits(draw: st.DrawFn, schedules: list[Objectives]) -> dict[str, Fraction]:
    """Draw limits that some schedule keeps, not all of them values that are reached."""
    kept = draw(st.sampled_from(schedules))
    names = draw(st.lists(st.sampled_from(AT_GIVEN_PERIODS), min_size=1, max_size=2, unique=True))
    slack = draw(st.sampled_from((Fraction(0), Fraction(1, 3))))
    return {
        name: value + (-slack if name == "cushion" else slack)
        for name in names
        if (value := kept[name]) is not None and (name != "cushion" or value)
    }


def within(values: Objectives, epsilon: Mapping[str, Fraction]) -> bool:
    return all(
        cost(name, values[name]) <= (-most if name == "cushion" else most)
        for name, most in epsilon.items()
    )


@given(contested(), ORDERS, st.data())
@examples(60)
def test_epsilon_is_kept_and_order_is_optimal(
    instance: Instance, names: list[str], data: st.DataObject
) -> None:
    schedules = every(instance)
    epsilon = data.draw(limits(schedules))
    stated = {name: str(most) for name, most in epsilon.items()}
    result = solve(instance, objective=names, epsilon=stated, workers=1)
    kept = [each for each in schedules if within(each, epsilon)]
    assert within(result.evaluation.objectives, epsilon)
    assert costs(result.levels) == final(result, names) == in_order(kept, names)
    assert all(level.proved for level in result.levels)
    # What is least within limits bounds no schedule outside: the file must not say so.
    assert check(instance, result.schedule) == ()


def test_minimum_within_epsilon_is_no_bound() -> None:
    # Where nobody waits both meet; within the limit one waits 2 slots.
    instance = network(job("a", 4, (0, 2, 60)), job("b", 4, (0, 2, 60)))
    result = solve(instance, objective="wait", epsilon={"contention": 0}, workers=1)
    assert result.levels == (Level("wait", Fraction(2), proved=True),)
    assert result.lower_bound is None
    assert result.status is Status.FEASIBLE


@given(contested(most_schedules=80), weightings(), st.data())
@examples(30)
def test_weighted_sum_keeps_epsilon(
    instance: Instance, weights: dict[str, Fraction], data: st.DataObject
) -> None:
    assume(any(weights.values()))
    schedules = every(instance)
    epsilon = data.draw(limits(schedules))
    result = solve(instance, objective=weights, epsilon=epsilon, workers=1)
    assert within(result.evaluation.objectives, epsilon)
    assert result.levels[0].value == min(
        weighted(instance, weights, each) for each in schedules if within(each, epsilon)
    )


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        ({"contention": 9}, "contention of 9 cannot be had; the best possible is 10; raise"),
        ({"cushion": 4}, "cushion of 4 cannot be had; the best possible is 1; lower"),
        ({"wait": 0, "contention": 10}, "of 10 cannot be had; the best possible is 20; raise"),
    ],
)
def test_impossible_epsilon_is_refused_with_best(epsilon: dict[str, int], message: str) -> None:
    # a and b meet in 1 slot of 4 at least, 20 over and weight 2; in 2 where nobody waits. c and d,
    # where they are, can grow by 1 slot each.
    instance = network(
        job("a", 4, (0, 2, 60), weight=3),
        job("b", 4, (0, 3, 60), weight=2),
        job("c", 4, (0, 1, 60), links={"other": 1}, fixed_offset=0),
        job("d", 4, (0, 1, 60), links={"other": 1}, ready=2, fixed_offset=2),
        other=100,
    )
    with pytest.raises(InputError, match=message):
        solve(instance, objective="latency", epsilon=epsilon, workers=1)
