"""From profiles of throughput to observations: where in its pattern a job is."""

from __future__ import annotations

import pytest

from metronome_opt.control import from_profile
from metronome_opt.profiles import Burst, Profile
from tests.builders import job


def profiled(period_ms: float | None, origin_s: float | None, *bursts: Burst) -> Profile:
    known = period_ms is not None
    return Profile(
        period_ms=period_ms,
        period_error_ms=0.5 if known else None,
        bursts=bursts,
        origin_s=origin_s,
        origin_error_s=0.002 if known else None,
        mean_mbps=None,
        confidence=1.0,
        missing=0.0,
    )


def burst(start: float, length: float, rate: float = 80.0) -> Burst:
    return Burst(start, length, rate, 1.0, 2.0, 3.0)


def test_the_iteration_begins_where_the_claimed_burst_says() -> None:
    claimed = job("a", 40, (6, 10, 80))  # of 5 ms
    seen = from_profile(profiled(200.0, 7.03, burst(0, 50)), claimed, slot_ms=5, due_ms=7000)
    assert seen.origin_ms == pytest.approx(7000)
    assert seen.bursts is not None
    assert [(each.start_ms, each.length_ms) for each in seen.bursts] == [(30, 50)]
    assert (seen.period_error_ms, seen.origin_error_ms) == pytest.approx((0.5, 2))


def test_bursts_of_different_lengths_tell_where_the_pattern_begins() -> None:
    """The longest silence is before the second claimed burst, so the profile begins with it."""
    claimed = job("a", 40, (0, 4, 80), (24, 10, 80))
    found = profiled(200.0, 5.12, burst(0, 50), burst(80, 20))
    seen = from_profile(found, claimed, slot_ms=5, due_ms=5000)
    assert seen.origin_ms is not None
    assert seen.origin_ms % 200 == pytest.approx(0)
    assert seen.bursts is not None
    assert [(each.start_ms, each.length_ms) for each in seen.bursts] == [(0, 20), (120, 50)]


@pytest.mark.parametrize("due", [5000.0, 5100.0])
def test_bursts_that_are_alike_are_taken_for_the_nearest(due: float) -> None:
    claimed = job("a", 40, (0, 10, 80), (20, 10, 80))
    found = profiled(200.0, 5.01, burst(0, 50), burst(100, 50))
    seen = from_profile(found, claimed, slot_ms=5, due_ms=due)
    assert seen.origin_ms is not None
    assert (seen.origin_ms - due) % 200 == pytest.approx(10)


def test_a_profile_without_a_period_says_nothing() -> None:
    seen = from_profile(profiled(None, None), job("a", 40, (0, 4, 80)), slot_ms=5, due_ms=0.0)
    assert (seen.period_ms, seen.origin_ms, seen.bursts, seen.gone) == (None, None, None, False)


# ------------------------------------------------------------------ bursts that met others


@pytest.mark.parametrize(
    ("phases", "seen", "expected"),
    [
        # 1,600 and 2,400 in 80 ms.
        ([(0, 10, 80)], [(0, 20, 80), (20, 60, 40)], [(0, 80, 50)]),
        (  # pauses part it from others
            [(0, 10, 80), (24, 4, 80)],
            [(0, 20, 80), (20, 40, 40), (60, 10, 80), (150, 20, 80)],
            [(0, 70, 4000 / 70), (150, 20, 80)],
        ),
        (  # of touching bursts those are joined that carry a claimed one
            [(0, 10, 40), (10, 10, 80)],
            [(0, 50, 40), (50, 30, 80), (80, 40, 40)],
            [(0, 50, 40), (50, 70, 4000 / 70)],
        ),
        ([(0, 10, 80)], [(0, 25, 80), (60, 25, 80)], [(0, 25, 80), (160, 25, 80)]),
    ],
)
def test_touching_bursts_may_be_one_that_is_slower_for_a_part(
    phases: list[tuple[int, int, int]],
    seen: list[tuple[float, float, float]],
    expected: list[tuple[float, float, float]],
) -> None:
    found = profiled(220.0, 5.0, *(burst(*each) for each in seen))
    bursts = from_profile(found, job("a", 40, *phases), slot_ms=5, due_ms=0.0).bursts or ()
    told = [each for one in bursts for each in (one.start_ms, one.length_ms, one.rate_mbps)]
    assert told == pytest.approx([each for one in expected for each in one])


def test_an_iteration_begins_when_most_of_them_did() -> None:
    """A fifth of the rate for 30 ms is what is left of one iteration in five that was early."""
    claimed = job("a", 40, (0, 10, 80))
    found = profiled(210.0, 5.0, burst(0, 30, 16.0), burst(30, 44, 80.0))
    seen = from_profile(found, claimed, slot_ms=5, due_ms=5000.0)
    assert seen.origin_ms == pytest.approx(5030)
    found = profiled(210.0, 5.0, burst(0, 30, 40.0), burst(30, 35, 80.0))
    seen = from_profile(found, claimed, slot_ms=5, due_ms=5000.0)
    assert seen.origin_ms == pytest.approx(5000)


def test_what_is_late_because_the_first_burst_was_held_up_does_not_tell_the_beginning() -> None:
    claimed = job("a", 40, (0, 10, 80), (20, 4, 80))
    found = profiled(230.0, 5.0, burst(0, 80, 50.0), burst(130, 20))
    seen = from_profile(found, claimed, slot_ms=5, due_ms=4970.0)
    assert seen.origin_ms == pytest.approx(5000)


@pytest.mark.parametrize("times", [2, 3, 4])
def test_iterations_of_which_one_is_disturbed_are_as_many_as_they_are(times: int) -> None:
    claimed = job("a", 40, (0, 10, 80))
    period = 200.0 * times + 12.0
    others = (burst(12.0 + 200 * index, 50) for index in range(1, times))
    found = profiled(period, 5.0, burst(0, 25), burst(25, 37, 2000 / 37), *others)
    seen = from_profile(found, claimed, slot_ms=5, due_ms=5000.0)
    assert seen.period_ms == pytest.approx(200 + 12 / times)
    (mean,) = seen.bursts or ()
    assert mean.length_ms == pytest.approx(50 + 12 / times)
    assert mean.volume == pytest.approx(4000)


@pytest.mark.parametrize(
    "bursts",
    [
        (burst(0, 50),),  # every second one is left out
        (burst(0, 50), burst(120, 50)),  # not where they are due
        (burst(0, 50), burst(200, 20)),  # not as much
    ],
)
def test_a_period_that_is_twice_as_long_is_longer(bursts: tuple[Burst, ...]) -> None:
    found = profiled(400.0, 5.0, *bursts)
    seen = from_profile(found, job("a", 40, (0, 10, 80)), slot_ms=5, due_ms=5000.0)
    assert seen.period_ms == 400
