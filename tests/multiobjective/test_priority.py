"""Strict priority, and layered objectives as contention of other weights, by enumeration."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from metronome_opt.objectives import class_cost, weigh
from metronome_opt.verify import Evaluation, check, evaluate
from tests.multiobjective.enumeration import contested, cost, costs, evaluations
from tests.solving import solve
from tests.strategies import assigned, crowded, instances
from tests.tiers import examples

ZERO = Fraction(0)


def of_classes(instance: Instance, weights: tuple[int, ...]) -> Instance:
    """Return the jobs with these weights in turn."""
    return instance.replace(
        jobs=tuple(
            each.model_copy(update={"weight": weights[index % len(weights)]})
            for index, each in enumerate(instance.jobs)
        )
    )


@given(contested(), st.permutations(("latency", "wait", "moves", "cushion")), st.integers(0, 2))
@examples(30)
def test_strict_priority_serves_class_after_class(
    drawn: Instance, later: list[str], count: int
) -> None:
    instance = of_classes(drawn, (100, 10, 1))
    classes = sorted({each.weight for each in instance.jobs}, reverse=True)
    judged = evaluations(instance)

    def lacking(each: Evaluation) -> list[Fraction]:
        """Return what each class and those above it lack, then the later objectives."""
        ranks = [
            sum((each.unserved[one.name] for one in instance.jobs if one.weight >= weight), ZERO)
            for weight in classes
        ]
        return [*ranks, *(cost(name, each.objectives[name]) for name in later[:count])]

    result = solve(instance, objective=["contention", *later[:count]], strict=True, workers=1)
    assert costs(result.levels) == lacking(result.evaluation) == min(map(lacking, judged))
    assert [level.name for level in result.levels[len(classes) :]] == later[:count]
    assert all(level.proved for level in result.levels)
    assert check(instance, result.schedule) == ()


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
