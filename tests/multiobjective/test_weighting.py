"""Contention, lateness and what a class lacks, in any sum, are a contention, says the judge."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.weighting import class_cost, weigh
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.strategies import assigned, crowded, instances

Prices = st.fractions(0, 50, max_denominator=12)


@given(
    assigned(instances(max_jobs=4, weights=(0, 1, 2, 5)) | crowded()), st.lists(Prices, min_size=4)
)
@settings(max_examples=100)
def test_other_weights_give_the_sum(
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
    weighting = weigh(instance, priced)
    found = evaluate(weighting.instance, offsets).contention * weighting.scale
    assert found == sum(price * values[name] for name, price in priced.items())


def test_weights_are_as_small_as_they_can_be() -> None:
    instance = network(job("a", 2, (0, 1, 5), weight=3), job("b", 2, (0, 1, 5), weight=0))
    halves, sixths = Fraction(1, 2), Fraction(5, 6)  # 3 : 5
    weighting = weigh(instance, {"contention": halves, "latency": sixths})
    assert [each.weight for each in weighting.instance.jobs] == [3 * 3 + 5, 5]
    assert weighting.scale == Fraction(1, 6)
    nothing = weigh(instance, {"latency": Fraction(0)})
    assert [each.weight for each in nothing.instance.jobs] == [0, 0]


def test_prices_below_0_are_refused() -> None:
    with pytest.raises(InputError, match=r"weights\.latency: must not be negative, got -1"):
        weigh(network(job("a", 2, (0, 1, 5))), {"latency": Fraction(-1)})
