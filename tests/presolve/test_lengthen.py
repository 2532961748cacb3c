"""Bursts grown one slot at a time, and laws of growing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.instance import Instance, Job
from metronome_opt.presolve.lengthen import lengthen
from tests.builders import job, network
from tests.strategies import instances

Bursts = list[tuple[int, int, int]]


@pytest.mark.parametrize(
    ("bursts", "slots", "expected"),
    [
        ([(1, 2, 60)], 0, [(1, 2, 60)]),
        ([(1, 2, 60)], 3, [(1, 5, 60)]),
        ([(5, 2, 60)], 3, [(0, 2, 60), (5, 3, 60)]),  # on into the next iteration
        ([(5, 2, 60)], 1, [(5, 3, 60)]),  # just to the end
        ([(5, 2, 60)], 6, [(0, 8, 60)]),
        ([(5, 2, 60)], 10**12, [(0, 8, 60)]),
        ([(0, 1, 30), (2, 1, 70)], 2, [(0, 2, 30), (2, 3, 70)]),  # the larger rate counts
        ([(0, 1, 70), (2, 1, 30)], 2, [(0, 3, 70), (3, 2, 30)]),
        ([(0, 1, 30), (1, 1, 70), (4, 1, 30)], 1, [(0, 1, 30), (1, 2, 70), (4, 2, 30)]),
        ([(3, 1, 30), (0, 2, 30)], 1, [(0, 5, 30)]),  # of one rate they become one
    ],
)
def test_bursts_grow_at_their_ends(bursts: Bursts, slots: int, expected: Bursts) -> None:
    longer = lengthen(network(job("a", 8, *bursts)), slots).jobs[0]
    assert [(phase.start, phase.length, phase.rate) for phase in longer.phases] == expected


def pattern(of: Job) -> list[int]:
    rates = [0] * of.period
    for phase in of.phases:
        rates[phase.start : phase.end] = [phase.rate] * phase.length
    return rates


@given(instances(max_phases=3), st.integers(1, 10))
@settings(deadline=None)
def test_each_slot_has_the_largest_rate_of_the_slots_before(problem: Instance, slots: int) -> None:
    for before, after in zip(problem.jobs, lengthen(problem, slots).jobs, strict=True):
        rates = pattern(before)
        reached = [
            max(rates[(slot - back) % before.period] for back in range(slots + 1))
            for slot in range(before.period)
        ]
        assert pattern(after) == reached


@given(instances(max_stretch=2), st.integers(0, 10))
@settings(deadline=None)
def test_nothing_but_the_bursts_changes_and_the_instance_is_valid(
    problem: Instance, slots: int
) -> None:
    longer = lengthen(problem, slots)
    assert Instance.from_dict(longer.to_dict()) == longer
    jobs = zip(problem.jobs, longer.jobs, strict=True)
    restored = tuple(after.model_copy(update={"phases": job.phases}) for job, after in jobs)
    assert longer.replace(jobs=restored) == problem


@given(instances(max_phases=3), st.integers(1, 6), st.integers(0, 6))
@settings(deadline=None)
def test_growing_twice_is_growing_once(problem: Instance, some: int, more: int) -> None:
    assert lengthen(lengthen(problem, some), more) == lengthen(problem, some + more)
