"""Two jobs that one counter counts together are not taken for one, and one is not taken for two."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.profiles import single_jobs, two_jobs
from benchmarks.throughput import Truth, later, measure, run_alone, together
from metronome_opt.profiles import profile
from tests.profiles.cases import pattern
from tests.tiers import examples


def every_half_second_and(period_ms: int, rate: int) -> Truth:
    """Return a job of a burst of 10 Gbit/s every 500 ms beside one of another period and rate."""
    length = round(0.3 * period_ms)
    first = run_alone(pattern([350], [(150, 10_000)]), 120, 0.0, 1)
    second = run_alone(pattern([period_ms - length], [(length, rate)]), 60_000 // period_ms, 0.0, 2)
    return together([first, later(second, -0.2)])


@pytest.mark.parametrize("rate", [3000, 5000, 10_000])
@pytest.mark.parametrize("step_s", [0.01, 0.02, 0.05])
def test_periods_of_half_a_second_and_of_707_ms_are_two(rate: int, step_s: float) -> None:
    found = profile(measure(every_half_second_and(707, rate), step_s))
    assert (found.period_ms, found.bursts) == (None, ())
    assert "\n" not in str(found.reason)


def test_the_reason_names_both_periods() -> None:
    found = profile(measure(every_half_second_and(707, 3000), 0.01))
    assert found.reason == (
        "more than one period: about every 500 and every 710 ms, as of two jobs; "
        "measure each by itself"
    )


@pytest.mark.parametrize("ratio", ["3:2", "4:3", "5:4", "5:3"])
def test_iterations_of_two_jobs_that_take_as_long_are_not_one_cycle(ratio: str) -> None:
    many, few = map(int, ratio.split(":"))
    found = profile(measure(every_half_second_and(500 * many // few, 6000), 0.01, snr_db=20))
    assert str(found.reason).startswith("more than one period")


def test_a_job_of_twice_the_period_of_another_makes_a_pattern_of_one() -> None:
    found = profile(measure(every_half_second_and(1000, 6000), 0.01))
    assert found.period_ms == pytest.approx(1000, rel=0.01)


@examples(25, deadline=None)
@given(
    ratio=st.floats(0.26, 3.9),
    share=st.floats(0.3, 1.0),
    jitter=st.sampled_from([0.0, 0.01, 0.05]),
    step_s=st.sampled_from([0.011, 0.03, 0.052]),
    seed=st.integers(0, 2**16),
)
def test_no_ratio_of_two_periods_gives_one_job_with_the_period_of_the_first(
    ratio: float, share: float, jitter: float, step_s: float, seed: int
) -> None:
    times = max(ratio, 1 / ratio)
    assume(abs(times - round(times)) > 0.1 * times)
    found = profile(measure(two_jobs(ratio, share, jitter=jitter, seed=seed), step_s, snr_db=30))
    # Some iterations of both may pass for a cycle if neither fills the other's silence; one job
    # alone with its own period never does.
    assert found.period_ms is None or found.period_ms > 1300


def test_single_jobs_that_are_held_up_or_write_checkpoints_are_one() -> None:
    said = [(name, str(profile(samples).reason)) for name, samples in single_jobs(range(6))]
    assert [name for name, reason in said if reason.startswith("more than one")] == []
    assert np.mean([reason == "None" for _, reason in said]) > 0.5
