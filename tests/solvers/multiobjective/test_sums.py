"""Weighted sums against the judge's word on every schedule."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt import solve
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import Level
from metronome_opt.solvers.multiobjective.costs import weigh
from metronome_opt.verify import evaluate, verify_schedule
from tests.builders import evaluation_of
from tests.solvers.multiobjective.enumeration import Objectives, contested, every
from tests.strategies import assigned, crowded, instances
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
    minimum = min(weighted(instance, weights, each) for each in every(instance))
    result = solve(
        instance, objective={name: str(each) for name, each in weights.items()}, threads=1
    )
    assert weighted(instance, weights, evaluation_of(result).objectives) == minimum
    assert result.levels == (Level("weighted sum", minimum, proved=True),)
    assert verify_schedule(instance, result.schedule) == ()


@given(
    assigned(instances(max_jobs=4, weights=(0, 1, 2, 5)) | crowded()),
    st.fractions(0, 50, max_denominator=12),
    st.fractions(0, 50, max_denominator=12),
)
@examples(60)
def test_weights_give_sum_of_layered_objectives(
    drawn: tuple[Instance, dict[str, int]], contention: Fraction, late: Fraction
) -> None:
    instance, offsets = drawn
    judged = evaluate(instance, offsets)
    total = contention * judged.contention + late * sum(link.unserved for link in judged.links)
    prepared, scale = weigh(instance, {"contention": contention, "latency": late})
    assert evaluate(prepared, offsets).contention * scale == total
