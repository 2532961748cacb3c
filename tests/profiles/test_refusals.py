"""What has no period gets none, with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.aperiodic import APERIODIC
from benchmarks.throughput import measure
from metronome_opt.profiles import Samples, profile
from tests.profiles.cases import job, pattern, samples_of
from tests.tiers import examples


@pytest.mark.parametrize("name", APERIODIC)
def test_traffic_without_a_period(name: str) -> None:
    for seed in range(4):
        rates = APERIODIC[name](np.random.default_rng(seed), 1000)
        found = profile(samples_of(np.maximum(rates, 0.0)))
        assert found.period_ms is None
        assert found.bursts == ()
        assert str(found.reason).startswith("not periodic")
        assert found.mean_mbps is not None


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        ([], "too short: 0 samples"),
        ([1.0] * 20, "too short: 20 samples, at least 32"),
        ([np.nan] * 100, "too short: 0 samples"),
        ([0.0] * 100, "silent: nothing was sent"),
        ([7.0] * 100, "not periodic: the rate is constant"),
    ],
)
def test_nothing_to_see(rates: list[float], reason: str) -> None:
    found = profile(samples_of(rates))
    assert str(found.reason).startswith(reason)
    assert found.period_ms is found.origin_s is found.duty is found.jitter is None


@pytest.mark.parametrize("missing", [0.8, 0.85, 0.9, 0.95])
def test_samples_of_which_few_are_there_make_no_trouble(missing: float) -> None:
    times = 0.02 * np.arange(3000, dtype=np.float64)
    sent = np.where((times + 0.007) % 0.6 < 0.18, 1000.0, 0.0)
    for seed in range(8):
        lost = np.random.default_rng(seed).random(len(times)) < missing
        found = profile(Samples(times, np.where(lost, np.float64("nan"), sent)))
        assert (found.period_ms is None) == (found.reason is not None)


@pytest.mark.parametrize("samples", [3.1, 4.7, 6.3])
def test_a_period_near_the_sampling_step_is_refused_with_what_is_needed(samples: float) -> None:
    found = profile(measure(job(cycles=200), 1 / samples))
    assert found.period_ms is None
    reason = str(found.reason)
    assert reason.startswith("too coarse")
    asked_ms = float(reason.rpartition("sample every ")[2].removesuffix(" ms"))
    again = profile(measure(job(cycles=200), asked_ms / 1000))
    assert again.period_ms == pytest.approx(1000, rel=0.01)
    assert again.duty == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("step", [0.9, 0.96, 1.04, 1.1, 1.9, 2.1, 3.03])
@pytest.mark.parametrize("jitter", [0.0, 0.02])
def test_an_alias_of_a_period_about_the_sampling_step_is_not_taken_for_it(
    step: float, jitter: float
) -> None:
    found = profile(measure(job(cycles=1500, jitter=jitter), step, snr_db=20))
    assert found.period_ms is None


def test_parts_of_a_period_that_samples_do_not_show() -> None:
    short = pattern([600, 40], [(160, 1000), (200, 1000)])
    found = profile(measure(job(short, cycles=200), 0.0987))
    assert str(found.reason).startswith("too coarse: the period is 1000 ms")
    again = profile(measure(job(short, cycles=200), 0.02))
    assert [round(burst.length_ms, -1) for burst in again.bursts] == [160, 200]


@examples(60, deadline=None)
@given(
    st.integers(0, 120),
    st.integers(0, 2**32 - 1),
    st.floats(0, 1),
    st.sampled_from([1e-6, 1.0, 1e9]),
)
def test_whatever_comes_there_is_an_answer(
    count: int, seed: int, missing: float, scale: float
) -> None:
    chance = np.random.default_rng(seed)
    times = np.cumsum(chance.exponential(1.0, count) + 1e-3)
    period = chance.uniform(2, 20)
    rates = scale * (
        (times % period < period / 3) + chance.integers(2) * chance.uniform(size=count)
    )
    rates[chance.uniform(size=count) < missing] = np.nan
    found = profile(Samples(times, rates))
    assert (found.period_ms is None) == (found.reason is not None)
    assert 0 <= found.confidence <= 1
    assert found.bursts == () or found.bursts[0].start_ms == 0
