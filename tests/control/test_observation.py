"""From profiles of throughput to observations: where in its pattern a job is."""

from __future__ import annotations

import pytest

from metronome_opt.control import from_profile
from metronome_opt.profiles import Burst, Profile
from tests.builders import job


def profiled(period_ms: float | None, origin_s: float | None, *bursts: Burst) -> Profile:
    return Profile(
        period_ms=period_ms,
        period_error_ms=None if period_ms is None else 0.5,
        bursts=bursts,
        origin_s=origin_s,
        origin_error_s=None if origin_s is None else 0.002,
        duty=None,
        mean_mbps=None,
        confidence=1.0,
        jitter=None,
        missing=0.0,
        reason=None,
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
