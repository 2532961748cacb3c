"""What stretches promise, against all schedules at all stretches."""

from __future__ import annotations

import itertools
from fractions import Fraction

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from metronome_opt.multiobjective.outlook import Outlook
from metronome_opt.multiobjective.pairs import pair_on, single_cost
from metronome_opt.multiobjective.periods import stretched
from tests.builders import job, network
from tests.landscape import optimum
from tests.strategies import instances

SLACK = 2


def never() -> bool:
    return False


def optimum_at(instance: Instance, slots: tuple[int, ...]) -> Fraction:
    """Return the least contention at some stretches, by looking at all schedules."""
    names = [job.name for job in instance.jobs]
    return optimum(stretched(instance, dict(zip(names, slots, strict=True))))


def alone(instance: Instance, slots: tuple[int, ...]) -> Fraction:
    """Return what the jobs cost by themselves."""
    return sum(
        (
            Fraction(single_cost(each, link), each.period + more)
            for each, more in zip(instance.jobs, slots, strict=True)
            for link in instance.links
            if link.name in each.links
        ),
        Fraction(0),
    )


@given(instances(max_jobs=2, max_period=6, max_stretch=2, weights=(0, 1, 2, 4)))
@settings(max_examples=150)
def test_a_pair_costs_what_its_best_schedule_does(instance: Instance) -> None:
    assume(len(instance.jobs) == 2)
    one, other = instance.jobs
    both = [link for link in instance.links if link.name in one.links and link.name in other.links]
    pair = pair_on(one, other, both, never)
    assert pair is not None
    for mine, its in itertools.product(range(one.max_stretch + 1), range(other.max_stretch + 1)):
        known = pair.least(slice(mine, mine + 1), slice(its, its + 1))
        assert known == optimum_at(instance, (mine, its)) - alone(instance, (mine, its))


def test_a_pair_by_hand() -> None:
    # 3 of 4 slots and 2 of 6: with a divisor of 2 they meet 3 times in 12, wherever they are; with
    # 3 of 6 and 2 of 6 never. In each slot in which they meet 20 are unserved, of weight 1.
    one = job("a", 4, (0, 3, 60), weight=4, max_stretch=2)
    other = job("b", 6, (1, 2, 60))
    pair = pair_on(one, other, network(one, other).links, never)
    assert pair is not None
    at = [pair.least(slice(slots, slots + 1), slice(0, 1)) for slots in range(3)]
    assert at == [Fraction(20 * 3, 12), Fraction(20 * 6, 30), Fraction(0)]


@given(instances(max_jobs=4, max_links=2, max_period=4, max_stretch=1), st.data())
@settings(max_examples=100)
def test_no_schedule_in_a_box_is_below_its_floor(instance: Instance, data: st.DataObject) -> None:
    box = []
    for each in instance.jobs:
        least = data.draw(st.integers(0, each.max_stretch))
        box.append((least, data.draw(st.integers(least, each.max_stretch))))
    reached = min(
        optimum_at(instance, slots)
        for slots in itertools.product(*(range(least, most + 1) for least, most in box))
    )
    assert Fraction(0) <= Outlook(instance, stopped=never).floor(box) <= reached


@given(instances(max_jobs=2, max_links=1, max_period=6, max_stretch=2))
def test_the_floor_of_two_jobs_at_given_stretches_is_what_they_cost(instance: Instance) -> None:
    slots = tuple(each.max_stretch for each in instance.jobs)
    outlook = Outlook(instance, stopped=never)
    least = optimum_at(instance, slots)
    assert outlook.floor([(each, each) for each in slots]) == least
    assert abs(outlook.guess(slots) + alone(instance, slots) - least) < 1e-9


def test_three_jobs_along_a_tree() -> None:
    # Each two of them meet all the time and cost 20; all three cost 80.
    jobs = [job(name, 2, (0, 2, 60)) for name in "abc"]
    outlook = Outlook(network(*jobs), stopped=never)
    assert outlook.floor([(0, 0)] * 3) == 80  # because of the load
    assert outlook.guess((0, 0, 0)) == 60


def test_without_time_the_floor_is_that_of_the_load() -> None:
    jobs = [job(name, 2, (0, 1, 60)) for name in "abc"]
    assert Outlook(network(*jobs), stopped=lambda: True).floor([(0, 0)] * 3) == 0
    assert Outlook(network(*jobs), stopped=never).floor([(0, 0)] * 3) == 0
