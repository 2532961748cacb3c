"""Layered objectives as the contention of other weights, against `verify`."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from metronome_opt.multiobjective.objectives import class_cost, weigh
from metronome_opt.verify import evaluate
from tests.strategies import assigned, crowded, instances
from tests.tiers import examples

Prices = st.fractions(0, 50, max_denominator=12)


@given(
    assigned(instances(max_jobs=4, weights=(0, 1, 2, 5)) | crowded()), st.lists(Prices, min_size=4)
)
@examples(60)
def test_weights_give_sum_of_layered_objectives(
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
