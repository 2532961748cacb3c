"""Profiles of jobs whose truth is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.profiles import try_case
from benchmarks.throughput import Truth, measure
from metronome_opt.profiles import Profile, Samples, from_series, profile
from tests.profiles.cases import job, pattern, period_ms
from tests.tiers import examples

STEP_S = 0.043


def lengths(found: Profile) -> list[float]:
    return [burst.length_ms for burst in found.bursts]


def off_by(found: Profile, truth: Truth) -> float:
    """Return how far the origin is from the nearest beginning of a burst of ONE_BURST, in ms."""
    begins = truth.edges_s[1::2]
    assert found.origin_s is not None
    return 1000 * float(np.abs(begins - found.origin_s).min())


# ------------------------------------------------------------------ how exact


@pytest.mark.parametrize(
    ("model", "jitter", "step", "snr_db"),
    [
        ("GPT3", 0.0, 0.02, 20.0),
        ("GPT3", 0.1, 0.05, 20.0),
        ("XLM", 0.1, 0.1, 20.0),
        ("BERT", 0.05, 0.1, 20.0),
        ("ResNet50", 0.1, 0.1, 20.0),
        ("ResNet50", 0.1, 0.02, 10.0),
        ("VGG19", 0.05, 0.05, 10.0),
        ("GPT2", 0.0, 0.1, 20.0),
        ("DLRM", 0.1, 0.05, 10.0),
    ],
)
def test_workloads_within_one_percent_of_the_period_and_three_points_of_duty(
    model: str, jitter: float, step: float, snr_db: float
) -> None:
    case = try_case(model, jitter=jitter, step=step, snr_db=snr_db, seed=5, irregular=0.2)
    assert case.period_error is not None
    assert case.duty_error is not None
    assert abs(case.period_error) <= 1
    assert abs(case.duty_error) <= 3


def test_the_true_burst_is_within_the_stated_error() -> None:
    for seed in range(5):
        truth = job(jitter=0.05, seed=seed)
        burst = profile(measure(truth, STEP_S, snr_db=20, seed=seed)).bursts[0]
        assert abs(burst.length_ms - 300) <= 1.5 * burst.length_error_ms
        assert abs(burst.rate_mbps - 10_000) <= 1.5 * burst.rate_error_mbps
        assert burst.length_error_ms < 10


def test_jitter_is_measured() -> None:
    truth = job(cycles=200, jitter=0.1)
    found = profile(measure(truth, STEP_S, snr_db=20))
    # Pauses of 700 ms vary by a tenth.
    assert found.jitter == pytest.approx(np.diff(truth.begins_s).std() / 1.0, rel=0.1)


def test_the_origin_is_near_the_end_and_follows_phases_that_wander() -> None:
    for seed in range(4):
        truth = job(cycles=100, jitter=0.1, seed=seed)
        samples = measure(truth, STEP_S, snr_db=20, seed=seed)
        found = profile(samples)
        assert found.origin_s is not None
        assert found.origin_error_s is not None
        assert 0 <= samples.times_s[-1] - found.origin_s < 5
        assert off_by(found, truth) <= max(2000 * found.origin_error_s, 5)


# ------------------------------------------------------------------ patterns

ALTERNATING = {
    "unequal pauses": (pattern([300, 100], [(100, 1000), (100, 1000)]), 2),
    "nearly equal pauses": (pattern([220, 180], [(100, 1000), (100, 1000)]), 2),
    "rates": (pattern([200, 200], [(100, 1000), (100, 800)]), 2),
    "lengths": (pattern([200, 200], [(100, 1000), (120, 1000)]), 2),
    "three, one pause longer": (pattern([100, 100, 300], [(100, 1000)] * 3), 3),
    "every third differs": (pattern([200] * 3, [(100, 1000), (100, 1000), (100, 600)]), 3),
    "A B A C": (pattern([200] * 4, [(100, 1000), (100, 600), (100, 1000), (100, 400)]), 4),
}


@pytest.mark.parametrize("jitter", [0.0, 0.05])
@pytest.mark.parametrize("name", ALTERNATING)
def test_bursts_that_take_turns_make_one_period(name: str, jitter: float) -> None:
    of, bursts = ALTERNATING[name]
    truth = job(of, cycles=80, jitter=jitter)
    found = profile(measure(truth, float(of.duration) / 60_000, snr_db=20))
    assert found.period_ms == pytest.approx(period_ms(truth), rel=0.01)
    assert len(found.bursts) == bursts


@pytest.mark.parametrize("jitter", [0.0, 0.1])
@pytest.mark.parametrize("samples", [9.87, 10.0, 31.4])
def test_bursts_that_are_alike_do_not_make_a_longer_period(samples: float, jitter: float) -> None:
    truth = job(cycles=150, jitter=jitter)
    found = profile(measure(truth, 1 / samples, snr_db=20))
    assert found.period_ms == pytest.approx(period_ms(truth), rel=0.01)


def test_bursts_of_several_rates_abut() -> None:
    truth = job(pattern([400, 0, 0], [(200, 3000), (200, 6000), (200, 10_000)]))
    found = profile(measure(truth, 0.021, snr_db=30))
    rates = [burst.rate_mbps for burst in found.bursts]
    assert rates == pytest.approx([3000, 6000, 10_000], rel=0.02)
    assert lengths(found) == pytest.approx([200] * 3, abs=10)
    assert found.duty == pytest.approx(0.6, abs=0.01)


def test_a_job_that_never_pauses_sends_all_the_time() -> None:
    truth = job(pattern([0, 0], [(600, 4000), (400, 10_000)]))
    found = profile(measure(truth, 0.021, snr_db=30))
    assert [burst.rate_mbps for burst in found.bursts] == pytest.approx([10_000, 4000], rel=0.02)
    assert found.duty == pytest.approx(1)


def test_rates_below_the_limit_are_silence() -> None:
    truth = job(pattern([0, 0], [(700, 1000), (300, 10_000)]))
    samples = measure(truth, 0.021)
    assert lengths(profile(samples)) == pytest.approx([300], abs=2)
    assert lengths(profile(samples, quiet=0.05)) == pytest.approx([300, 700], abs=2)


# ------------------------------------------------------------------ samples as they come


def test_missing_and_irregular_samples() -> None:
    truth = job(cycles=100, jitter=0.05)
    found = profile(measure(truth, STEP_S, snr_db=20, missing=0.3, irregular=0.4))
    assert found.period_ms == pytest.approx(period_ms(truth), rel=0.01)
    assert found.duty == pytest.approx(0.3, abs=0.03)
    assert found.missing == pytest.approx(0.3, abs=0.05)


def test_a_gap_of_many_cycles() -> None:
    samples = measure(job(cycles=100, jitter=0.05), STEP_S, snr_db=20)
    since = samples.times_s - samples.times_s[0]
    kept = (since < 40) | (since > 60)
    found = profile(Samples(samples.times_s[kept], samples.rates_mbps[kept]))
    assert found.period_ms == pytest.approx(1000, rel=0.01)
    assert found.duty == pytest.approx(0.3, abs=0.01)


def test_a_counter_that_begins_anew() -> None:
    truth = job(cycles=100, jitter=0.05)
    times = truth.edges_s[0] + STEP_S * np.arange(2000)
    sent = truth.sent_mbit(times) / 8e-6
    sent[700:] -= sent[700]
    sent[1500:] -= sent[1500]
    found = profile(from_series(pd.Series(sent, index=times), counter=True))
    assert found.period_ms == pytest.approx(period_ms(truth), rel=0.01)
    assert found.bursts[0].rate_mbps == pytest.approx(10_000, rel=0.01)
    assert found.missing == pytest.approx(2 / 1999, rel=0.1)


MEASURED = measure(job(cycles=40, jitter=0.05), STEP_S, snr_db=20)


@examples(15, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
def test_units_of_rate_and_time_do_not_matter(rate: float, time: float) -> None:
    start = MEASURED.times_s[0]
    scaled = Samples(time * (MEASURED.times_s - start), rate * MEASURED.rates_mbps)
    found = profile(scaled)
    plain = profile(Samples(MEASURED.times_s - start, MEASURED.rates_mbps))
    assert plain.period_ms is not None
    assert found.period_ms == pytest.approx(time * plain.period_ms, rel=1e-3)
    assert found.duty == pytest.approx(plain.duty, abs=2e-3)
    assert found.bursts[0].rate_mbps == pytest.approx(rate * plain.bursts[0].rate_mbps, rel=1e-2)
