"""Bounds of stretches, and of layered objectives as contention, against all schedules."""

from __future__ import annotations

import itertools
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from metronome_opt.multiobjective.periods import stretched
from metronome_opt.multiobjective.stretchbounds import StretchBounds
from metronome_opt.objectives import class_cost, weigh
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.landscape import optimum
from tests.strategies import assigned, crowded, instances
from tests.tiers import examples


def never() -> bool:
    return False


def optimum_at(instance: Instance, slots: tuple[int, ...]) -> Fraction:
    """Return the least contention at some stretches, by looking at all schedules."""
    names = [job.name for job in instance.jobs]
    return optimum(stretched(instance, dict(zip(names, slots, strict=True))))


@given(instances(max_jobs=4, max_links=2, max_period=4, max_stretch=1), st.data())
@examples(60)
def test_no_schedule_in_a_box_is_below_its_floor(instance: Instance, data: st.DataObject) -> None:
    box = []
    for each in instance.jobs:
        low = data.draw(st.integers(0, each.max_stretch))
        box.append((low, data.draw(st.integers(low, each.max_stretch))))
    ranges = [range(low, high + 1) for low, high in box]
    reached = min(optimum_at(instance, slots) for slots in itertools.product(*ranges))
    assert Fraction(0) <= StretchBounds(instance, stopped=never).lower_bound(box) <= reached


@given(instances(max_jobs=2, max_links=1, max_period=6, max_stretch=2, weights=(0, 1, 2, 4)))
@examples(60)
def test_the_floor_of_two_jobs_is_what_they_cost(instance: Instance) -> None:
    bounds = StretchBounds(instance, stopped=never)
    for slots in itertools.product(*(range(each.max_stretch + 1) for each in instance.jobs)):
        assert bounds.lower_bound([(each, each) for each in slots]) == optimum_at(instance, slots)


def test_two_and_three_jobs_by_hand() -> None:
    # 3 of 4 slots and 2 of 6: with a divisor of 2 they meet 3 times in 12, wherever they are; with
    # 3 of 6 and 2 of 6 never. In each slot in which they meet 20 are unserved, of weight 1.
    two = network(job("a", 4, (0, 3, 60), weight=4, max_stretch=2), job("b", 6, (1, 2, 60)))
    bounds = StretchBounds(two, stopped=never)
    found = [bounds.lower_bound([(slots, slots), (0, 0)]) for slots in range(3)]
    assert found == [Fraction(20 * 3, 12), Fraction(20 * 6, 30), Fraction(0)]
    # Each two of them meet all the time and cost 20; all three cost 80, because of the load.
    three = StretchBounds(network(*(job(n, 2, (0, 2, 60)) for n in "abc")), stopped=never)
    assert three.lower_bound([(0, 0)] * 3) == 80
    assert three.estimate((0, 0, 0)) == 60


def test_without_time_the_floor_is_that_of_the_load() -> None:
    jobs = [job(name, 2, (0, 2, 60)) for name in "abc"]
    assert StretchBounds(network(*jobs), stopped=lambda: True).lower_bound([(0, 0)] * 3) == 80


Prices = st.fractions(0, 50, max_denominator=12)


@given(
    assigned(instances(max_jobs=4, weights=(0, 1, 2, 5)) | crowded()), st.lists(Prices, min_size=4)
)
@examples(60)
def test_other_weights_give_the_sum_of_layered_objectives(
    drawn: tuple[Instance, dict[str, int]], prices: list[Fraction]
) -> None:
    instance, offsets = drawn
    judged = evaluate(instance, offsets)
    values = {
        "contention": judged.contention,
        "latency": sum((link.late for link in judged.links), Fraction(0)),
    }
    for weight in {each.weight for each in instance.jobs}:
        values[class_cost(weight)] = sum(
            (judged.unserved[each.name] for each in instance.jobs if each.weight >= weight),
            Fraction(0),
        )
    priced = dict(zip(values, prices, strict=False))
    weighted, scale = weigh(instance, priced)
    found = evaluate(weighted, offsets).contention * scale
    assert found == sum(price * values[name] for name, price in priced.items())
