"""Fronts against the judge's word on every schedule, and what is said where time ran out."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt import pareto, solve
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import Status
from metronome_opt.solvers.multiobjective import group_front, nondominated
from metronome_opt.solvers.multiobjective.front import Front, FrontEvent, Interval
from metronome_opt.solvers.multiobjective.nondominated import Nondominated
from metronome_opt.solvers.run import SolverRun
from metronome_opt.verify import verify_schedule
from tests.builders import HARD, tangle
from tests.solvers.multiobjective.enumeration import contested, cost, every, front, two_blocks
from tests.tiers import examples

TWO = st.permutations(("contention", "latency"))


def points(found: Front) -> list[tuple[Fraction | int, ...]]:
    """Return the costs of the points, as they come."""
    return [
        tuple(cost(name, value) for name, value in zip(found.objectives, values, strict=True))
        for values in map(found.values, found.points)
    ]


def is_sound(found: Front) -> bool:
    """Return whether points are true, ascend, and none is as good as another."""
    rows = points(found)
    covered = [
        (one, other)
        for one in rows
        for other in rows
        if one is not other and all(a <= b for a, b in zip(one, other, strict=True))
    ]
    true = all(verify_schedule(found.instance, point) == () for point in found.points)
    return true and rows == sorted(rows) and not covered


@given(contested(), TWO)
@examples(60)
def test_front_is_complete(instance: Instance, names: list[str]) -> None:
    found = pareto(instance, names, threads=1)
    assert points(found) == front(every(instance), names)
    assert is_sound(found)
    assert found.complete
    assert found.stop is StopReason.PROVED


@given(contested(most_schedules=80), TWO, st.integers(1, 3))
@examples(20)
def test_front_with_reserve_is_that_of_longer_bursts(
    instance: Instance, names: list[str], slots: int
) -> None:
    assume(slots <= max(job.period + job.max_stretch for job in instance.jobs))
    found = pareto(instance, names, cushion_slots=slots, threads=1)
    assert points(found) == front(every(instance, cushion_slots=slots), names)
    assert is_sound(found)
    assert {point.cushion_slots for point in found.points} == {slots}


# ------------------------------------------------------------------ parts


def test_front_of_blocks_that_share_a_job() -> None:
    instance = two_blocks()
    found = pareto(instance, threads=1)
    assert found.complete
    assert points(found) == front(every(instance), ["contention", "latency"])
    assert is_sound(found)


def test_one_point_needs_no_search_between_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    # With one weight contention and latency are proportional.
    drawn = tangle(4, 2, 3, periods=(20, 30), lengths=(9, 12))
    instance = drawn.replace(
        jobs=tuple(each.model_copy(update={"weight": 1}) for each in drawn.jobs)
    )
    best = solve(instance, threads=1, time_limit=None)
    assert best.status is Status.OPTIMAL
    assert best.value
    monkeypatch.setattr(Nondominated, "settle", lambda *_: pytest.fail("searched between ends"))
    found = pareto(instance, threads=1, time_limit=None)
    assert found.complete
    assert [point.objectives["contention"] for point in found.points] == [best.value]


# ------------------------------------------------------------------ not the whole front


@pytest.mark.parametrize(
    ("limit", "stop"), [(1, StopReason.TIME_LIMIT), (100, StopReason.INTERRUPTED)]
)
def test_front_cut_short_is_not_complete(limit: float, stop: StopReason) -> None:
    began = time.monotonic()
    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    if stop is StopReason.INTERRUPTED:
        timer.start()
    found = pareto(HARD, time_limit=limit, threads=1)
    timer.cancel()
    assert not found.complete
    assert found.stop is stop
    assert found.points
    assert is_sound(found)
    assert {point.status for point in found.points} == {Status.FEASIBLE}
    assert {point.lower_bound for point in found.points} == {None}
    assert any("may have more points" in note for note in found.notes)
    assert time.monotonic() - began < 15


def test_front_callback_is_notified_of_every_part() -> None:
    instance = two_blocks()
    events: list[FrontEvent] = []
    whole = pareto(instance, threads=1, callback=events.append)
    assert [(event.done, event.parts) for event in events] == [(1, 2), (2, 2)]
    assert events[0].points < events[1].points
    assert whole.complete
    ended = pareto(instance, threads=1, callback=lambda _: True)
    assert not ended.complete
    assert is_sound(ended)


# ------------------------------------------------------------------ what is open


def is_open(interval: Interval, value: Fraction | int) -> bool:
    low, high = interval.low, interval.high
    return (low is None or low <= value) and (high is None or value < high)


@contextmanager
def stepwise() -> Iterator[pytest.MonkeyPatch]:
    """Let no front be so small that it is searched in one piece, or a part of it looked through."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(nondominated, "MAX_ENUMERATED", 1)
        patched.setattr(group_front, "MAX_ENUMERATED", 1)
        yield patched


@given(contested(most_schedules=400), TWO, st.integers(1, 2))
@examples(60)
def test_front_in_boxes_is_complete(instance: Instance, names: list[str], threads: int) -> None:
    events: list[FrontEvent] = []
    with stepwise():
        found = pareto(instance, names, threads=threads, callback=events.append)
    assert points(found) == front(every(instance), names)
    assert is_sound(found)
    assert found.complete
    assert found.open_intervals == ()
    if events and events[-1].parts == 1:
        proved = {values for event in events for values in event.proved}
        assert sorted(proved) == points(found)


@given(contested(most_schedules=400), TWO, st.integers(0, 60), st.booleans())
@examples(100)
def test_what_stopped_front_lacks_is_in_open_intervals(
    instance: Instance,
    names: list[str],
    looks: int,
    ends: bool,
) -> None:
    left = looks

    def stopped(_: SolverRun | Nondominated) -> bool:
        nonlocal left
        left -= 1
        return left < 0

    with stepwise() as patched:
        if ends:  # the ends, too, are stopped
            patched.setattr(SolverRun, "stopped", property(stopped))
        patched.setattr(Nondominated, "stopped", property(stopped))
        found = pareto(instance, names, threads=1)
    assert found.points
    assert is_sound(found)
    assert found.complete == (not found.open_intervals)
    lacking = set(front(every(instance), names)) - set(points(found))
    for point in lacking:
        assert any(is_open(interval, point[0]) for interval in found.open_intervals), point


def test_stopped_front_says_where_it_is_open() -> None:
    found = pareto(two_blocks(), threads=1, callback=lambda _: True)
    (interval,) = found.open_intervals
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < interval.high
    text = interval.describe("contention")
    assert text in repr(found)
    assert text in found.notes[-1]
