"""Counters without noise, scraped at a regular step, whose period is few scrapes long."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.profiles import COUNTED, try_case, try_counter
from benchmarks.throughput import measure
from metronome_opt.profiles import profile
from tests.profiles.cases import job, pattern, period_ms


@pytest.mark.parametrize("late_ms", [0, 20])
@pytest.mark.parametrize("snr_db", [np.inf, 40.0])
@pytest.mark.parametrize("period", [1310, 1450, 2050, 2620])
@pytest.mark.parametrize("bursts", COUNTED)
def test_every_burst_of_a_counter_is_found(
    bursts: str, period: int, snr_db: float, late_ms: int
) -> None:
    case = try_counter(bursts, period, late_ms=late_ms, snr_db=snr_db)
    assert case.found.period_ms == pytest.approx(period, rel=1e-3)
    expected = sorted((length * period / 1000, rate) for _, length, rate in COUNTED[bursts])
    found = sorted(case.found.bursts, key=lambda burst: burst.length_ms)
    assert [burst.length_ms for burst in found] == pytest.approx(
        [length for length, _ in expected], abs=10
    )
    assert sorted(burst.rate_mbps for burst in found) == pytest.approx(
        sorted(rate for _, rate in expected), rel=0.04
    )


@pytest.mark.parametrize("late_ms", [0, 5, 30])
@pytest.mark.parametrize("bursts", COUNTED)
def test_a_counter_in_step_with_its_scrapes_is_refused_or_right(bursts: str, late_ms: int) -> None:
    for period in (1300, 2200, 2600):
        case = try_counter(bursts, period, late_ms=late_ms)
        assert case.within or str(case.found.reason).startswith("too coarse: the period is")


@pytest.mark.parametrize("model", ["GPT3", "GPT2", "DLRM"])
@pytest.mark.parametrize("snr_db", [np.inf, 40.0])
def test_a_workload_in_step_with_its_samples_is_refused_or_right(model: str, snr_db: float) -> None:
    for seed in range(3):
        case = try_case(model, jitter=0.0, step=0.1, snr_db=snr_db, seed=seed)
        assert case.within or str(case.found.reason).startswith("too coarse: the period is")


def test_the_finer_step_that_is_asked_for_will_do() -> None:
    refused = try_counter("three bursts", 1300, late_ms=0)
    asked_ms = float(str(refused.found.reason).rpartition("sample every ")[2].removesuffix(" ms"))
    assert asked_ms < 100
    of = pattern([208, 182, 195], [(260, 2000), (260, 1000), (195, 1500)])
    found = profile(measure(job(of, cycles=230), asked_ms / 1000))
    assert found.period_ms == pytest.approx(1300, rel=1e-3)
    assert len(found.bursts) == 3


@pytest.mark.parametrize("period", [1310, 1750, 2620])
def test_the_first_burst_follows_the_longest_pause_though_another_is_weak(period: int) -> None:
    found = try_counter("two bursts, one weak", period, late_ms=5).found
    strong, weak = found.bursts
    assert strong.start_ms == 0
    assert weak.start_ms == pytest.approx(0.54 * period, abs=10)
    assert weak.rate_mbps == pytest.approx(400, rel=0.05)


def test_lengths_and_rates_are_within_their_errors_though_there_is_no_noise() -> None:
    for period in (1310, 1337, 1900, 2510, 3140):
        for late_ms in (0, 10):
            burst = try_counter("one burst", period, late_ms=late_ms).found.bursts[0]
            assert abs(burst.length_ms - 0.3 * period) <= burst.length_error_ms <= 10
            assert abs(burst.rate_mbps - 1000) <= burst.rate_error_mbps <= 50


@pytest.mark.parametrize("step_ms", [10.0, 20.3, 30.7])
@pytest.mark.parametrize(("first", "second"), [(210, 190), (205, 195)])
def test_pauses_that_are_nearly_alike_make_one_period_of_two(
    first: int, second: int, step_ms: float
) -> None:
    for jitter in (0.0, 0.02, 0.05):
        truth = job(pattern([first, second], [(100, 1000)] * 2), cycles=80, jitter=jitter)
        found = profile(measure(truth, step_ms / 1000, snr_db=20))
        assert found.period_ms == pytest.approx(period_ms(truth), rel=0.01)
        assert len(found.bursts) == 2
