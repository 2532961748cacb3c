"""A job that its own links slow down is stated at no time at which it has not ended."""

from __future__ import annotations

from fractions import Fraction

import pytest

from metronome_opt.allocation.slots.iteration_times import IterationTimes
from metronome_opt.api import allocate, solve
from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.verify import verify_schedule
from tests.builders import job

NARROW = (Link(name="l", capacity=1),)
# 10 slots of 25,000 Mbit/s take 250,000 slots of 1 Mbit/s, and 70 slots are computed.
SLOW = job("a", 80, (0, 10, 25_000), links={"l": 1})
ISOLATED_MS = 250_070


def instance(*jobs: Job, links: tuple[Link, ...] = NARROW) -> Instance:
    return Instance(name="slow", slot_ms=1, links=links, jobs=jobs)


@pytest.mark.parametrize("objective", ["slowdown", "lexicographic", ["slowdown", "delay"]])
def test_slow_job_is_simulated_to_its_end(objective: str) -> None:
    """It was stated at the 410 periods that a replication lasts, as was the bound."""
    result = allocate(instance(SLOW), objective=objective, time_limit=20)
    assert result.schedule.expected_ms is not None
    assert result.unshifted_ms is not None
    for time in (result.schedule.expected_ms["a"], result.unshifted_ms["a"]):
        assert ISOLATED_MS <= time <= ISOLATED_MS * 1.001
    assert result.schedule.lower_bound == Fraction(ISOLATED_MS, 80)
    assert verify_schedule(result.instance, result.schedule) == ()


@pytest.mark.slow
def test_slow_jobs_that_share_a_link_take_as_long_as_all_of_them() -> None:
    jobs = [SLOW.model_copy(update={"name": name}) for name in "ab"]
    result = allocate(instance(*jobs), time_limit=20)
    assert result.value is not None
    assert 6250 <= result.value <= 6250 * 1.001  # 2 x 250,000 ms over 80
    assert result.schedule.lower_bound == 6250


@pytest.mark.parametrize(("capacity", "isolated_ms"), [(100, 60 + 5000), (1, 60 + 500_000)])
def test_times_beside_other_objectives_are_true(capacity: int, isolated_ms: int) -> None:
    slow = job("a", 80, (0, 20, 25_000), links={"l": 1})
    result = solve(instance(slow, links=(Link(name="l", capacity=capacity),)), time_limit=10)
    for times in IterationTimes.of(result)[:2]:
        assert isolated_ms <= times["a"] <= isolated_ms * 1.02


@pytest.mark.slow
def test_time_of_a_job_that_never_ends_is_not_known() -> None:
    links = (*NARROW, Link(name="m", capacity=30_000))
    slow = job("a", 80, (0, 10, 25_000_000), links={"l": 1, "m": 1})
    fast = job("b", 2, (0, 1, 30_000), links={"m": 1})
    result = allocate(instance(slow, fast, links=links), time_limit=20)
    assert (result.value, result.schedule.expected_ms) == (None, None)
    assert "the slowdown is not known: no iteration ended in a simulation, of: a" in result.notes
    assert set(result.unshifted_ms or ()) == {"b"}
    # 10 x 25,000,000 and 70 slots, over 80; the other job keeps its period of 2.
    assert result.schedule.lower_bound is not None
    assert result.schedule.lower_bound >= Fraction(Fraction(250_000_070, 80) + 1, 2)
    assert verify_schedule(result.instance, result.schedule) == ()


def test_verify_refuses_a_time_below_the_isolated_one() -> None:
    result = allocate(instance(SLOW), time_limit=20)
    changes = {
        "expected_ms": {"a": Fraction(32_800)},
        "objectives": {**result.schedule.objectives, "slowdown": Fraction(410)},
        "lower_bound": Fraction(410),
    }
    (violation,) = [
        violation
        for violation in verify_schedule(
            result.instance, result.schedule.model_copy(update=changes)
        )
        if violation.location.startswith("expected_ms")
    ]
    assert str(violation) == "expected_ms.a: stated 32800, but it takes 250070 ms at least"
