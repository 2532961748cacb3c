"""Common periods: long enough, not much longer, and soon all together again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.simulate.policies.rotation import common_periods

DURATIONS = st.dictionaries(st.integers(0, 9), st.integers(1, 900), min_size=1, max_size=6)
STRETCH = st.sampled_from((0.0, 0.05, 0.2))


def in_step(periods: dict[int, int]) -> bool:
    """Whether there is a base of which all are multiples or parts, and twelve of which are a round.

    Parts are an eighth at the least.
    """
    together = math.lcm(*periods.values())
    return any(
        all(
            period % base == 0 or (base % period == 0 and base <= 8 * period)
            for period in periods.values()
        )
        for base in (together // count for count in range(1, 13) if together % count == 0)
    )


@settings(max_examples=300)
@given(DURATIONS, STRETCH, st.data())
def test_periods_fit_their_jobs_and_each_other(
    durations: dict[int, int], stretch: float, data: st.DataObject
) -> None:
    weights = {job: data.draw(st.sampled_from((1, 2, 4))) for job in durations}
    idle = data.draw(st.sampled_from((0.0, 0.1, 0.3)))
    periods = common_periods(durations, weights, stretch=stretch, most_idle=idle)
    assert periods.keys() <= durations.keys()
    for job, period in periods.items():
        assert durations[job] <= period <= durations[job] * (1 + stretch + idle)
    assert in_step(periods)


@settings(max_examples=300)
@given(
    st.integers(1, 50),
    st.lists(st.sampled_from((1, 2, 3, 4)), min_size=1, max_size=3),
    DURATIONS,
    st.data(),
)
def test_jobs_that_are_in_step_keep_their_periods(
    base: int, parts: list[int], others: dict[int, int], data: st.DataObject
) -> None:
    """The periods are parts of twelve units, so they repeat together; others fit in with them."""
    fixed = {100 + index: 12 * base // part for index, part in enumerate(parts)}
    fixed[99] = 12 * base
    durations = {
        job: data.draw(st.integers(math.ceil(period / 1.1), period))
        for job, period in fixed.items()
    }
    durations |= others
    weights = dict.fromkeys(durations, 1)
    periods = common_periods(durations, weights, fixed=fixed)
    assert {job: periods.get(job) for job in fixed} == fixed
    assert math.lcm(*periods.values()) <= 12 * max(fixed.values())
    for job in periods.keys() - fixed.keys():
        assert durations[job] <= periods[job] <= durations[job] * 1.1


@pytest.mark.parametrize(
    ("durations", "periods"),
    [
        # A tenth of idle time is not too much, more is.
        ({0: 100, 1: 95}, {0: 100, 1: 100}),
        ({0: 100, 1: 91}, {0: 100, 1: 100}),
        # A part of the base, or a multiple of it.
        ({0: 100, 1: 50}, {0: 100, 1: 50}),
        ({0: 100, 1: 48, 2: 25}, {0: 100, 1: 50, 2: 25}),
    ],
)
def test_periods_by_hand(durations: dict[int, int], periods: dict[int, int]) -> None:
    assert common_periods(durations, dict.fromkeys(durations, 1)) == periods


def test_a_job_that_would_idle_for_too_long_is_left_out() -> None:
    """80 neither fits 100 nor is 100 a multiple: one of them goes its own way."""
    assert len(common_periods({0: 100, 1: 80}, {0: 1, 1: 1})) == 1


def test_stretching_lets_jobs_fit_that_would_not() -> None:
    """80 stretched by 30 % is 104, and 100 idles for 4."""
    assert common_periods({0: 100, 1: 80}, {0: 1, 1: 1}, stretch=0.3) == {0: 104, 1: 104}
