"""What a link costs because of its load alone."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.kernels.tables import compile_instance
from metronome_opt.presolve import restrict
from metronome_opt.solvers.load import load_bound
from tests.landscape import optimum
from tests.strategies import crowded


def three_jobs() -> Instance:
    """Return bursts of half a period: 30 of weight 1, 40 of weight 2, 240 of weight 5, into 100."""
    sizes = {"a": (1, 30), "b": (2, 40), "c": (5, 240)}
    return Instance(
        name="i",
        slot_ms=1,
        links=(Link(name="l", capacity=100),),
        jobs=tuple(
            Job(
                name=name,
                period=4,
                weight=weight,
                phases=(Phase(start=0, length=2, rate=rate),),
                links={"l": 1},
            )
            for name, (weight, rate) in sizes.items()
        ),
    )


def test_by_hand() -> None:
    compiled = compile_instance(three_jobs())
    # On average 120 of weight 5, 140 of weight 2 and more, 155 in all; prices 3, 1 and 1.
    assert load_bound(compiled, compiled.links[0]) == 3 * 20 + 1 * 40 + 1 * 55


@given(crowded())
@settings(max_examples=60)
def test_no_schedule_costs_less(instance: Instance) -> None:
    compiled = compile_instance(instance)
    for link in compiled.links:
        assert Fraction(0) <= load_bound(compiled, link) <= optimum(restrict(instance, [link.name]))
