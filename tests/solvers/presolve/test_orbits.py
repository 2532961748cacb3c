"""Rotating everything changes nothing: the domains keep an optimum."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance, Job
from metronome_opt.solvers.presolve.orbits import orbits
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.landscape import optimum
from tests.strategies import instances
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


def domains_of(instance: Instance, order: list[int] | None = None) -> dict[str, int]:
    return {name: size for orbit in orbits(instance, order) for name, size in orbit.domains.items()}


@given(SMALL, st.data())
@examples(60)
def test_optimal_schedule_remains(instance: Instance, data: st.DataObject) -> None:
    found = domains_of(instance, data.draw(st.none() | ordered(instance)))
    assert set(found) == {j.name for j in instance.jobs if j.fixed_offset is None}
    choices = [
        range(found[job.name]) if job.fixed_offset is None else [job.fixed_offset]
        for job in instance.jobs
    ]
    names = [job.name for job in instance.jobs]
    schedules = (dict(zip(names, offsets, strict=True)) for offsets in product(*choices))
    least = min(evaluate(instance, offsets).contention for offsets in schedules)
    assert least == optimum(instance)


@given(LARGER, st.data())
def test_order_does_not_change_size_of_domains(instance: Instance, data: st.DataObject) -> None:
    counts = {
        math.prod(domains_of(instance, order).values())
        for order in (None, data.draw(ordered(instance)))
    }
    assert len(counts) == 1


CHAIN = xyz(on("a", 12, "x"), on("b", 8, "x", "y"), on("c", 30, "y"))
# Rotating a by 4 slots, or b and c together, leaves f and what they add to it as they are.
HELD = xyz(on("f", 4, "x", "y", fixed=1), on("a", 6, "x"), on("b", 10, "y", "z"), on("c", 5, "z"))
APART = xyz(on("a", 6, "x"), on("b", 6, "x"), on("c", 6, "y"), on("d", 6))


@pytest.mark.parametrize(
    ("instance", "order", "domains"),
    [
        (CHAIN, [0, 1, 2], {"a": 1, "b": 4, "c": 6}),  # lcm 12, 24
        (CHAIN, [2, 1, 0], {"c": 1, "b": 2, "a": 12}),  # lcm 30, 120
        (CHAIN, None, {"c": 1, "a": 6, "b": 4}),  # the longest period first
        (HELD, [1, 2, 3], {"a": 2, "b": 2, "c": 5}),
        (APART, None, {"a": 1, "b": 6, "c": 1, "d": 1}),
    ],
)
def test_domains_are_common_divisors_with_earlier_jobs(
    instance: Instance, order: list[int] | None, domains: dict[str, int]
) -> None:
    assert domains_of(instance, order) == domains
