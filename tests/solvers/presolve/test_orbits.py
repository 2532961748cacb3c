"""Rotating everything changes nothing: the domains keep an optimum, `turn` keeps the contention."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance, Job
from metronome_opt.solvers.presolve.orbits import Orbits, orbits
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.landscape import optimum
from tests.strategies import assigned, instances
from tests.tiers import examples

SMALL = instances(max_jobs=4, max_links=3, max_period=6, weights=(0, 1, 2, 4))
LARGER = instances(max_jobs=6, max_links=4, max_period=12, weights=(0, 1, 2, 4))


@st.composite
def ordered(draw: st.DrawFn, instance: Instance) -> list[int]:
    return list(draw(st.permutations(range(len(instance.jobs)))))


def on(name: str, period: int, *links: str, fixed: int | None = None) -> Job:
    """Return a job on some of the links x, y and z."""
    return job(name, period, (0, 1, 60), links=dict.fromkeys(links, 1), fixed_offset=fixed)


def xyz(*jobs: Job) -> Instance:
    return network(*jobs, x=100, y=100, z=100)


def best_within(found: Orbits) -> Fraction:
    """Return the least contention over the domains, by the judge alone."""
    choices = [
        range(found.domains[job.name]) if job.fixed_offset is None else [job.fixed_offset]
        for job in found.instance.jobs
    ]
    names = [job.name for job in found.instance.jobs]
    return min(
        evaluate(found.instance, dict(zip(names, offsets, strict=True))).contention
        for offsets in product(*choices)
    )


@given(SMALL, st.data())
@examples(60)
def test_optimal_schedule_remains(instance: Instance, data: st.DataObject) -> None:
    found = orbits(instance, data.draw(st.none() | ordered(instance)))
    assert set(found.domains) == {j.name for j in instance.jobs if j.fixed_offset is None}
    assert best_within(found) == optimum(instance)


@given(assigned(LARGER), st.data())
@examples(100)
def test_every_schedule_has_equivalent_in_domains(
    case: tuple[Instance, dict[str, int]], data: st.DataObject
) -> None:
    instance, offsets = case
    found = orbits(instance, data.draw(st.none() | ordered(instance)))
    turned = found.rotate(offsets)
    for each in instance.jobs:
        if each.fixed_offset is None:
            assert 0 <= turned[each.name] < found.domains[each.name]
    before, after = evaluate(instance, offsets), evaluate(instance, turned)
    assert after.links == before.links
    assert found.rotate(turned) == turned


def test_domains_are_common_divisors_with_earlier_jobs() -> None:
    instance = xyz(on("a", 12, "x"), on("b", 8, "x", "y"), on("c", 30, "y"))
    assert dict(orbits(instance, [0, 1, 2]).domains) == {"a": 1, "b": 4, "c": 6}  # lcm 12, 24
    assert dict(orbits(instance, [2, 1, 0]).domains) == {"c": 1, "b": 2, "a": 12}  # lcm 30, 120
    assert orbits(instance).domains["c"] == 1  # the longest period first


def test_fixed_job_comes_first_and_connects_nothing() -> None:
    instance = xyz(
        on("f", 4, "x", "y", fixed=1), on("a", 6, "x"), on("b", 10, "y", "z"), on("c", 5, "z")
    )
    # Turning a by 4 slots, or b and c together, leaves f and what they add to it as they are.
    assert dict(orbits(instance, [1, 2, 3]).domains) == {"a": 2, "b": 2, "c": 5}
    turned = orbits(instance, [1, 2, 3]).rotate({"f": 1, "a": 5, "b": 7, "c": 0})
    # a by 4 k to 1, so 8; b by 4 k to 1, so 4 (7 + 4 = 11), and c with it.
    assert turned == {"f": 1, "a": 1, "b": 1, "c": 4}


@given(LARGER, st.data())
def test_order_does_not_change_size_of_domains(instance: Instance, data: st.DataObject) -> None:
    counts = {
        math.prod(orbits(instance, order).domains.values())
        for order in (None, data.draw(ordered(instance)))
    }
    assert len(counts) == 1


def test_components_rotate_independently() -> None:
    instance = xyz(on("a", 6, "x"), on("b", 6, "x"), on("c", 6, "y"), on("d", 6))
    assert dict(orbits(instance).domains) == {"a": 1, "b": 6, "c": 1, "d": 1}
    turned = orbits(instance).rotate({"a": 2, "b": 1, "c": 3, "d": 4})
    assert turned == {"a": 0, "b": 5, "c": 0, "d": 0}
