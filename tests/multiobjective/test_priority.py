"""What weights promise the heaviest jobs, and what strict priority does."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from metronome_opt.verify import Evaluation, check, evaluate
from tests.builders import job, network
from tests.multiobjective.enumeration import contested, cost, costs, evaluations
from tests.solving import solve
from tests.tiers import examples

ZERO = Fraction(0)


def heaviest_unserved(instance: Instance, unserved: Mapping[str, Fraction]) -> Fraction:
    """Return what the heaviest jobs lack in all, Mbit/s."""
    heaviest = max(each.weight for each in instance.jobs)
    return sum((unserved[each.name] for each in instance.jobs if each.weight == heaviest), ZERO)


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


def test_a_hundred_times_the_weight_is_not_priority_at_any_price() -> None:
    """Two heavy jobs give up 1 Mbit/s each, so that a light one does not lack 51."""
    instance = network(
        job("a", 4, (0, 2, 51), weight=100),
        job("b", 4, (0, 2, 51), weight=100),
        job("c", 4, (0, 2, 100), weight=10),
    )
    result = solve(instance, workers=1)
    # Together a and b lack 2 in 2 of 4 slots, and c has the other two for itself.
    assert result.objective == Fraction(100 * 2 * 2, 4)
    assert heaviest_unserved(instance, result.evaluation.unserved) == 1
    # Side by side they lack nothing, and c 51 in both of its slots.
    apart = evaluate(instance, {"a": 0, "b": 2, "c": 0})
    assert apart.contention == Fraction(10 * 51 * 2, 4)
    assert heaviest_unserved(instance, apart.unserved) == 0
    strict = solve(instance, strict=True, workers=1)
    assert strict.objective == apart.contention
    assert [level.value for level in strict.levels] == [0, Fraction(51 * 2, 4)]
