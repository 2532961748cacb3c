"""The walk over local optima: its running value is the judge's, and it can be left at any time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.kernels.perturb import (
    BEST,
    VALUE,
    WAITING,
    Walk,
    go_to,
    no_kicks,
    start_walk,
    take_steps,
)
from tests.kernels.schedules import Scheduled, scheduled, schedules


def walk_on(case: Scheduled, walk: Walk, generator: np.random.Generator, steps: int) -> None:
    tolerance = np.full(len(case.offsets), 50.0)
    take_steps(
        case.compiled.tables,
        case.demand,
        case.offsets,
        case.around,
        walk,
        tolerance,
        generator,
        steps,
        case.work,
    )


@given(schedules(), st.lists(st.integers(0, 40), max_size=5), st.integers(0, 99))
@settings(max_examples=60)
def test_the_running_value_is_that_of_the_judge(
    case: Scheduled, parts: list[int], seed: int
) -> None:
    before, value = case.offsets.copy(), case.scaled()
    walk, generator = start_walk(case.offsets, case.around, no_kicks()), np.random.default_rng(seed)
    for steps in parts:
        walk_on(case, walk, generator, steps)
        case.check(before)
        assert case.scaled() == value + walk.counters[VALUE]
        assert scheduled(case.instance, walk.best).scaled() == value + walk.counters[BEST]
        assert walk.counters[BEST] <= 0


@given(schedules(), st.integers(1, 100), st.integers(0, 100), st.integers(0, 99))
@settings(max_examples=40)
def test_a_walk_in_two_parts_is_the_same_walk(
    case: Scheduled, first: int, second: int, seed: int
) -> None:
    other = scheduled(case.instance, case.offsets)
    one = start_walk(case.offsets, case.around, no_kicks())
    walk_on(case, one, np.random.default_rng(seed), first + second)
    two, generator = (
        start_walk(other.offsets, other.around, no_kicks()),
        np.random.default_rng(seed),
    )
    walk_on(other, two, generator, first)
    walk_on(other, two, generator, second)
    assert (case.offsets == other.offsets).all()
    assert (one.best == two.best).all()


@given(schedules())
@settings(max_examples=40)
def test_a_walk_first_settles(case: Scheduled) -> None:
    walk, generator = start_walk(case.offsets, case.around, no_kicks()), np.random.default_rng(0)
    while walk.counters[WAITING]:
        walk_on(case, walk, generator, 1)
    value = case.scaled()
    for job in case.around.free:  # no job alone can do better
        for offset in range(case.instance.jobs[job].period):
            moved = case.offsets.copy()
            moved[job] = offset
            assert scheduled(case.instance, moved).scaled() >= value


@given(schedules(), st.integers(0, 99))
@settings(max_examples=40)
def test_going_to_other_offsets_takes_the_demand_along(case: Scheduled, seed: int) -> None:
    before = case.offsets.copy()
    periods = case.compiled.tables.period
    target = np.random.default_rng(seed).integers(0, periods)
    go_to(case.compiled.tables, case.demand, case.offsets, case.around.free, target)
    case.check(before)
    assert (case.offsets[case.around.free] == target[case.around.free]).all()
