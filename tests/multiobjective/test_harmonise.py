"""Stretches and offsets together, against every choice of both."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.harmonise import Harmonised, harmonise
from metronome_opt.multiobjective.looks import Solved, Values
from metronome_opt.multiobjective.periods import price_of, stretched
from metronome_opt.verify import evaluate
from tests.builders import job, network, tangle
from tests.landscape import optimum
from tests.multiobjective.rotation import rotation
from tests.strategies import instances


def never() -> bool:
    return False


SOLVE_AT = rotation(stopped=never, seed=0, workers=1)


def harmonised(instance: Instance, seconds: float | None = None) -> Harmonised:
    """Return least contention, then least stretch; what is said is what the judge says."""
    found = harmonise(instance, SOLVE_AT, stopped=never, seed=0, seconds=seconds)
    judged = evaluate(instance, found.offsets, found.stretch).objectives
    assert found.values == (judged["contention"], judged["stretch"])
    assert found.bound <= found.values[0]
    assert not found.proved or found.bound == found.values[0]
    return found


def by_enumeration(instance: Instance) -> Values:
    """Return the lexicographically least contention and stretch of all there are, by the judge."""
    best: Values | None = None
    for slots in itertools.product(*(range(each.max_stretch + 1) for each in instance.jobs)):
        stretch = {each.name: more for each, more in zip(instance.jobs, slots, strict=True)}
        ranges = [
            range(each.period + stretch[each.name])
            if each.fixed_offset is None
            else [each.fixed_offset]
            for each in instance.jobs
        ]
        for offsets in itertools.product(*ranges):
            names = [each.name for each in instance.jobs]
            judged = evaluate(instance, dict(zip(names, offsets, strict=True)), stretch).objectives
            values = (judged["contention"] or Fraction(0), judged["stretch"] or Fraction(0))
            best = values if best is None else min(best, values)
    assert best is not None
    return best


@given(instances(max_jobs=3, max_period=6))
@settings(max_examples=25, deadline=None)
def test_where_nothing_may_be_stretched_it_is_the_rotation_problem(instance: Instance) -> None:
    found = harmonised(instance)
    assert found.proved
    assert set(found.stretch.values()) == {0}
    assert found.values == (optimum(instance), Fraction(0))


@given(instances(max_jobs=2, max_links=2, max_period=6, max_stretch=2, weights=(0, 1, 4)))
@settings(max_examples=25, deadline=None)
def test_two_jobs_are_as_good_as_the_best_of_all(instance: Instance) -> None:
    found = harmonised(instance)
    assert found.proved
    assert found.values == by_enumeration(instance)


@given(instances(max_jobs=3, max_links=2, max_period=4, max_stretch=1, weights=(0, 1, 4)))
@settings(max_examples=25, deadline=None)
def test_three_jobs_are_as_good_as_the_best_of_all(instance: Instance) -> None:
    found = harmonised(instance)
    assert found.proved
    assert found.values == by_enumeration(instance)


def test_one_slot_removes_all_contention() -> None:
    # Bursts of 2 in 5 and 3 in 6 slots meet wherever they are; 2 in 6 and 3 in 6 need not.
    instance = network(
        job("a", 5, (0, 2, 60), max_stretch=3, weight=2), job("b", 6, (0, 3, 60), max_stretch=3)
    )
    found = harmonised(instance)
    assert found.proved
    assert found.stretch == {"a": 1, "b": 0}
    assert found.values == (Fraction(0), Fraction(2, 5))
    assert optimum(instance) == Fraction(20 * 6, 30)


def test_of_stretches_that_remove_all_contention_the_cheapest() -> None:
    # Both can be 6: by a slot of the heavy job or by two slots of the other, which are cheaper.
    instance = network(
        job("a", 5, (0, 2, 60), max_stretch=1, weight=9),
        job("b", 8, (0, 2, 60), max_stretch=2),
    )
    found = harmonised(instance)
    assert found.proved
    assert found.stretch == {"a": 0, "b": 2}


def awkward() -> Instance:
    """Return three jobs whose hyperperiod is ten million slots unless they are stretched."""
    return network(
        *(
            job(f"job-{period}", period, (0, period // 4, 60), max_stretch=math.ceil(period / 20))
            for period in (137, 211, 350)
        )
    )


def test_a_hyperperiod_that_is_too_long_is_made_short() -> None:
    instance = awkward()
    assert instance.needs_stretch
    found = harmonised(instance, seconds=2)
    made = stretched(instance, found.stretch)
    assert max(made.hyperperiods.values()) <= instance.hyperperiod_limit
    # Of coprime periods any two meet in a sixteenth of all slots, three in a sixty-fourth.
    assert found.values[0] < 3 * Fraction(20, 16)


def test_components_are_searched_apart_and_put_together() -> None:
    left = job("a", 5, (0, 2, 60), max_stretch=1), job("b", 6, (0, 3, 60))
    right = (
        job("c", 7, (0, 2, 60), max_stretch=1, links={"other": 1}),
        job("d", 8, (0, 4, 60), links={"other": 1}),
    )
    idle = job("e", 3, (0, 1, 60), max_stretch=2, links={})
    found = harmonised(network(*left, *right, idle, other=100))
    assert found.proved
    assert found.stretch == {"a": 1, "b": 0, "c": 1, "d": 0, "e": 0}
    assert found.values == (Fraction(0), Fraction(1, 5) + Fraction(1, 7))


@given(instances(max_jobs=2, max_links=2, max_period=5, max_stretch=2, weights=(0, 1, 4)))
@settings(max_examples=25, deadline=None)
def test_another_order_and_the_whole_at_once(instance: Instance) -> None:
    # The price counts first, a hundredth of the contention is added to it.
    def solve_at(
        part: Instance,
        stretch: Mapping[str, int],
        seconds: float | None,
        beat: Values | None,  # noqa: ARG001
    ) -> Solved:
        solved = SOLVE_AT(part, stretch, seconds, None)
        first = solved.values[1] + solved.values[0] / 100
        return Solved((first,), solved.offsets, None, solved.proved)

    found = harmonise(
        instance,
        solve_at,
        floor_of=lambda contention, price: (price + contention / 100,),
        apart=False,
        stopped=never,
        seed=0,
    )
    assert found.proved
    assert (
        found.values[0]
        == found.bound
        == min(
            optimum(stretched(instance, stretch)) / 100 + price_of(instance, stretch)
            for slots in itertools.product(*(range(each.max_stretch + 1) for each in instance.jobs))
            for stretch in [{e.name: more for e, more in zip(instance.jobs, slots, strict=True)}]
        )
    )


def test_no_common_periods_are_an_error() -> None:
    both = {"link": 1, "other": 1}
    instance = Instance.from_dict(
        network(
            job("a", 4, (0, 1, 60), max_stretch=1),
            job("b", 6, (0, 1, 60), links=both, max_stretch=1),
            job("c", 7, (0, 1, 60), links={"other": 1}),
            other=100,
        ).to_dict(),
        hyperperiod_limit=12,
    )
    # Each link by itself could be within 12 slots, by 4 and 6, and by 7 and 7.
    with pytest.raises(InputError, match="at most 12 slots; allow more stretch"):
        harmonised(instance)


def hard() -> Instance:
    made = tangle(7, 3, 1, periods=(40, 44, 63, 90), lengths=(9, 17))
    return made.replace(
        jobs=tuple(each.model_copy(update={"max_stretch": 4}) for each in made.jobs)
    )


def test_within_a_time_there_is_a_bound_and_something_better_than_no_stretch() -> None:
    instance = hard()
    found = harmonised(instance, seconds=2)
    names = {each.name: 0 for each in instance.jobs}
    still = SOLVE_AT(instance, names, 0, None)
    assert 0 < found.bound <= found.values[0] < still.values[0]


def test_stopping_keeps_what_there_is() -> None:
    looks = 0

    def solve_at(
        part: Instance, stretch: Mapping[str, int], seconds: float | None, beat: Values | None
    ) -> Solved:
        nonlocal looks
        looks += 1
        return SOLVE_AT(part, stretch, seconds, beat)

    found = harmonise(hard(), solve_at, stopped=lambda: looks >= 5, seed=0)
    assert found.looks == looks == 5
    assert not found.proved


def test_ctrl_c_keeps_what_there_is() -> None:
    best: list[Values] = []

    def solve_at(
        part: Instance, stretch: Mapping[str, int], seconds: float | None, beat: Values | None
    ) -> Solved:
        if len(best) == 7:
            raise KeyboardInterrupt
        solved = SOLVE_AT(part, stretch, seconds, beat)
        best.append(solved.values)
        return solved

    found = harmonise(hard(), solve_at, stopped=never, seed=0)
    assert found.values == min(best)
    assert not found.proved


def test_the_same_seed_gives_the_same_stretches() -> None:
    instance = network(*(job(f"j{t}", t, (0, t // 3, 60), max_stretch=2) for t in (9, 10, 14)))
    ones, others = harmonised(instance), harmonised(instance)
    assert ones == others
    assert ones.values[1] == price_of(instance, ones.stretch)
