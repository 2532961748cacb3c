"""Fronts against the judge's word on every schedule, and what is said where time ran out."""

from __future__ import annotations

import os
import signal
import threading
import time
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.front import Front, FrontEvent
from metronome_opt.multiobjective.pareto import pareto
from metronome_opt.result import Stop
from metronome_opt.schedule import Status
from metronome_opt.verify import check
from tests.builders import HARD, job, network, tangle
from tests.multiobjective.enumeration import AT_GIVEN_PERIODS, contested, cost, every, front
from tests.tiers import examples

TWO = st.permutations(AT_GIVEN_PERIODS).map(lambda names: names[:2])
THREE = st.permutations(AT_GIVEN_PERIODS).map(lambda names: names[:3])


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
    true = all(check(found.instance, point) == () for point in found.points)
    return true and rows == sorted(rows) and not covered


@given(st.one_of(st.tuples(contested(), TWO), st.tuples(contested(most_schedules=80), THREE)))
@examples(90)
def test_a_front_is_all_there_is(drawn: tuple[Instance, list[str]]) -> None:
    instance, names = drawn
    found = pareto(instance, names, workers=1)
    assert points(found) == front(every(instance), names)
    assert is_sound(found)
    assert found.complete
    assert found.stop is Stop.PROVED


@given(contested(most_schedules=80), TWO, st.data())
@examples(30)
def test_limits_cut_the_front_off(
    instance: Instance, names: list[str], data: st.DataObject
) -> None:
    whole = front(every(instance), names)
    kept, axis = data.draw(st.sampled_from(whole)), data.draw(st.integers(0, 1))
    most = kept[axis]
    assume(names[axis] != "cushion" or -most < 10**6)
    stated = -most if names[axis] == "cushion" else most
    found = pareto(instance, names, epsilon={names[axis]: stated}, workers=1)
    assert points(found) == [point for point in whole if point[axis] <= most]
    assert is_sound(found)


def test_the_least_within_limits_bounds_no_other_schedule() -> None:
    # Contention 0, 5 and 10 at a wait of 2, 1 and 0 slots.
    instance = network(job("a", 4, (0, 2, 60)), job("b", 4, (0, 2, 60)))
    names = ["contention", "wait"]
    bounds = {
        limit: [
            point.lower_bound
            for point in pareto(instance, names, epsilon={"wait": limit}, workers=1).points
        ]
        for limit in (1, 2)
    }
    assert bounds == {1: [None, None], 2: [0, 0, 0]}


def test_cushions_between_those_of_the_other_objectives_are_on_the_front() -> None:
    # The later b starts the more room it leaves, up to half a turn; it runs at 3. A wait of 1 is
    # no better than none, nor one of 3 than 2, but for the cushion.
    instance = network(
        job("a", 12, (0, 1, 60), fixed_offset=0),
        job("b", 12, (0, 1, 60), ready=1, current_offset=3),
    )
    found = pareto(instance, ["wait", "moves", "cushion"], epsilon={"wait": 5}, workers=1)
    expected = [[wait, int(wait != 2), wait] for wait in range(6)]
    assert [list(found.values(point)) for point in found.points] == expected


@given(contested(most_schedules=80), TWO, st.integers(1, 3))
@examples(20)
def test_a_reserved_cushion_gives_the_front_of_longer_bursts(
    instance: Instance, names: list[str], slots: int
) -> None:
    assume(slots <= max(job.period + job.max_stretch for job in instance.jobs))
    found = pareto(instance, names, cushion_slots=slots, workers=1)
    assert points(found) == front(every(instance, longer=slots), names)
    assert is_sound(found)
    assert {point.cushion_slots for point in found.points} == {slots}


# ------------------------------------------------------------------ parts


def two_blocks() -> Instance:
    """Return two links that one job shares, each with a conflict of priority and lateness."""
    return network(
        job("a", 4, (0, 2, 51), weight=100),
        job("b", 4, (0, 2, 51), weight=100, links={"link": 1, "other": 1}),
        job("c", 4, (0, 2, 100), weight=30),
        job("d", 4, (0, 2, 60), weight=3, links={"other": 1}),
        job("e", 4, (0, 3, 80), weight=1, links={"other": 1}),
        other=100,
    )


@pytest.mark.parametrize(
    "names", [["contention", "latency"], ["contention", "moves"], ["contention", "latency", "wait"]]
)
def test_parts_that_share_a_job_come_to_the_front_of_the_whole(names: list[str]) -> None:
    instance = two_blocks()
    found = pareto(instance, names, workers=1)
    assert found.complete
    assert points(found) == front(every(instance), names)
    assert is_sound(found)


# ------------------------------------------------------------------ not the whole front


def test_a_front_that_time_cuts_short_says_so() -> None:
    began = time.monotonic()
    found = pareto(HARD, time_limit=1, workers=1)
    assert not found.complete
    assert found.stop is Stop.TIME_LIMIT
    assert found.points
    assert is_sound(found)
    assert {point.status for point in found.points} == {Status.FEASIBLE}
    assert {point.lower_bound for point in found.points} == {None}
    assert any("may have more points" in note for note in found.notes)
    assert time.monotonic() - began < 15


def test_the_callback_is_told_of_every_part_and_may_end_it() -> None:
    instance = network(
        *(
            job(name, 4, (0, 2, 60), links={link: 1})
            for link in ("link", "b", "c")
            for name in (f"{link}-1", f"{link}-2")
        ),
        b=100,
        c=100,
    )
    told: list[FrontEvent] = []
    whole = pareto(instance, ["contention", "wait"], workers=1, callback=told.append)
    assert [(event.done, event.parts) for event in told] == [(1, 3), (2, 3), (3, 3)]
    # Contention 20 (both wait 0), 10 (1 slot) and 0 (2 slots) in each part.
    assert [event.points for event in told] == [3, 6, 9]
    assert points(whole) == [(Fraction(10 * n, 2), Fraction(6 - n)) for n in range(7)]
    ended = pareto(instance, ["contention", "wait"], workers=1, callback=lambda _: True)
    assert not ended.complete
    assert is_sound(ended)
    assert len(ended.points) < len(whole.points)


def test_three_objectives_of_too_many_schedules_are_refused() -> None:
    wide = tangle(6, 1, 1, periods=(40,), lengths=(5, 9))
    names = ["contention", "latency", "wait"]
    message = (
        r"a front of 3 objectives a part of 6 jobs has 4.1e\+09 schedules, more than 1,000,000; "
        "take two objectives, or say approximate"
    )
    with pytest.raises(InputError, match=message):
        pareto(wide, names, workers=1)
    found = pareto(wide, names, workers=1, approximate=True, time_limit=1)
    assert not found.complete
    assert is_sound(found)


# ------------------------------------------------------------------ what a front is asked


def test_the_share_that_a_front_dominates_by_hand() -> None:
    # Contention 20, 10, 0 at a wait of 0, 1, 2 slots.
    found = pareto(
        network(job("a", 4, (0, 2, 60)), job("b", 4, (0, 2, 60))), ["contention", "wait"], workers=1
    )
    assert points(found) == [(0, 2), (5, 1), (10, 0)]
    # Of a box of 20 x 4: wait 2 to 4 at no contention, 1 to 2 from 5 on, 0 to 1 from 10 on.
    dominated = Fraction(20 * 2 + 15 * 1 + 10 * 1, 20 * 4)
    assert found.hypervolume({"contention": 20, "wait": "4"}) == pytest.approx(float(dominated))
    # Points outside of the box count for nothing.
    assert found.hypervolume({"contention": 4, "wait": 2}) == pytest.approx(0)
    with pytest.raises(InputError, match="reference: wait is missing"):
        found.hypervolume({"contention": 20})
    with pytest.raises(InputError, match=r"reference\.wait: must be positive, got 0"):
        found.hypervolume({"contention": 20, "wait": 0})


def test_a_cushion_counts_the_other_way_round() -> None:
    # One slot beside the other: no cushion at no wait, 1 slot of cushion for 1 slot of wait.
    found = pareto(
        network(job("a", 4, (0, 1, 60), fixed_offset=0), job("b", 4, (0, 1, 60), ready=1)),
        ["cushion", "wait"],
        workers=1,
    )
    frame = found.to_frame()
    assert list(frame.index) == list(range(1, len(found.points) + 1))
    assert [list(found.values(point)) for point in found.points] == [[None, 3], [1, 1], [0, 0]]
    assert found.hypervolume({"cushion": 2, "wait": 4}) == pytest.approx(
        # All of the box from a wait of 3 on, half of it from 1 on, nothing at no cushion.
        float(Fraction(1, 4) + Fraction(2, 4) * Fraction(1, 2))
    )
    assert "3 points, complete" in found._repr_html_()


def test_ctrl_c_gives_the_points_that_were_found() -> None:
    began = time.monotonic()
    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    found = pareto(HARD, ["contention", "wait"], time_limit=100, workers=1)
    timer.join()
    assert found.stop is Stop.INTERRUPTED
    assert not found.complete
    assert found.points
    assert is_sound(found)
    assert time.monotonic() - began < 15
