"""Profiles: period and bursts of known traffic, within the errors that are stated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metronome_opt.cluster.profile import Profile, profile_record, profile_throughput
from metronome_opt.cluster.recorded import RecordedBurst, read_record
from metronome_opt.cluster.throughput import Throughput
from metronome_opt.errors import InputError
from tests.cluster.test_recorded import recorded
from tests.tiers import examples

Bursts = tuple[tuple[float, float, float], ...]
ONE: Bursts = ((0.0, 0.3, 900.0),)
TWO: Bursts = ((0.0, 0.4, 2000.0), (0.7, 0.3, 1500.0))
THREE: Bursts = ((0.0, 0.2, 2000.0), (0.3, 0.2, 1000.0), (0.7, 0.2, 1500.0))


def sent(
    times_s: NDArray[np.float64], period_s: float, bursts: Bursts, jitter: float, seed: int
) -> NDArray[np.float64]:
    """Return the Mbit that are sent up to each time; periods vary, in silence, by `jitter`."""
    count = int(times_s[-1] / period_s / (1 - 3 * jitter)) + 2
    lengths = period_s * (1 + jitter * np.random.default_rng(seed).standard_normal(count))
    begins = 0.17 + np.cumsum(lengths)
    corners = np.sort(
        np.concatenate(
            [begins + at for start, length, _ in bursts for at in (start, start + length)]
        )
    )
    volumes = [value for _, length, rate in bursts for value in (0.0, length * rate)]
    return np.asarray(np.interp(times_s, corners, np.cumsum(np.tile(volumes, count))))


def sampled(
    period_s: float, bursts: Bursts, *, step_s: float, jitter: float = 0.0, noise: float = 0.0
) -> Throughput:
    """Return two minutes of throughput; noise is a share of 1,000 Mbit/s."""
    times = np.arange(0.0, 120.0, step_s)
    rates = np.diff(sent(times, period_s, bursts, jitter, seed=1)) / step_s
    rates += 1000 * noise * np.random.default_rng(2).standard_normal(len(rates))
    return Throughput(times[1:] + 1.7e9, np.maximum(0.0, rates))


def assert_is(found: Profile, period_s: float, bursts: Bursts) -> None:
    """Assert that the true values are within one and a half of the errors that are stated."""
    assert found.reason is None
    assert found.traffic is not None
    assert found.period_error_ms is not None
    assert found.burst_error_ms is not None
    assert found.rate_error is not None
    close = 1.5 * found.burst_error_ms + 0.1
    period_ms = 1000 * period_s
    assert float(found.traffic.period_ms) == pytest.approx(
        period_ms, abs=1.5 * found.period_error_ms + 0.001 * period_ms
    )
    # Which burst comes first depends on the silences, and starts count from the first.
    phases = found.traffic.phases
    assert len(phases) == len(bursts)
    first = min(range(len(bursts)), key=lambda at: abs(bursts[at][2] - phases[0].rate))
    for phase, (start, length, rate) in zip(
        phases, [*bursts[first:], *bursts[:first]], strict=True
    ):
        since = 1000 * ((start - bursts[first][0]) % period_s)
        assert float(phase.start_ms) == pytest.approx(since, abs=close)
        assert float(phase.length_ms) == pytest.approx(1000 * length, abs=close)
        assert phase.rate == pytest.approx(rate, rel=1.5 * found.rate_error + 0.01)


@pytest.mark.parametrize("jitter", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize(
    ("period_s", "bursts", "step_s"),
    [(1.0, ONE, 0.05), (1.337, ONE, 0.1), (1.3, TWO, 0.05), (1.3, TWO, 0.02), (1.3, THREE, 0.02)],
)
def test_known_traffic_is_found(
    period_s: float, bursts: Bursts, step_s: float, jitter: float, noise: float
) -> None:
    samples = sampled(period_s, bursts, step_s=step_s, jitter=jitter, noise=noise)
    assert_is(profile_throughput(samples), period_s, bursts)


@given(st.floats(0.4, 3.0), st.floats(0.15, 0.6), st.integers(100, 100_000))
@examples(40, deadline=None)
def test_any_period_with_one_burst_is_found(period_s: float, duty: float, rate: int) -> None:
    bursts = ((0.0, duty * period_s, float(rate)),)
    assert_is(profile_throughput(sampled(period_s, bursts, step_s=0.02)), period_s, bursts)


def test_missing_samples_do_no_harm() -> None:
    samples = sampled(1.3, TWO, step_s=0.05)
    samples.rates_mbps[np.random.default_rng(0).random(len(samples.rates_mbps)) < 0.05] = np.nan
    found = profile_throughput(samples)
    assert found.traffic is not None
    assert float(found.traffic.period_ms) == pytest.approx(1300, rel=0.005)


NOISE = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        (np.ones(10), "too short: 10 samples, not 32"),
        (np.zeros(900), "silent: nothing was sent"),
        (np.full(900, 7.0), "not periodic: the rate is constant"),
        (NOISE.random(900), "not periodic: nothing repeats"),
        (np.abs(np.cumsum(NOISE.standard_normal(900))), "not periodic"),
        ((NOISE.random(900) < 0.2) * 100.0, "not periodic"),
        (np.tile([0.0, 0, 9, 9], 225), "too coarse: something repeats about every 400 ms"),
        (50 + np.tile([0.0, 0, 0, 0, 9, 9, 9, 9], 110), "too coarse: rates swing only between"),
        (np.where(np.arange(900) % 3, np.nan, 1.0), "too sparse: 67% of the samples are missing"),
    ],
)
def test_without_a_period_there_is_a_reason(rates: NDArray[np.float64], reason: str) -> None:
    times = 0.1 * np.arange(len(rates), dtype=np.float64)
    found = profile_throughput(Throughput(times, rates))
    assert found.traffic is None
    assert str(found.reason).startswith(reason)


@given(
    st.integers(0, 400),
    st.integers(1, 40),
    st.sampled_from([0.0, 0.3, 1.0, 30.0]),
    st.floats(0, 0.3),
    st.integers(0, 99),
)
@examples(60, deadline=None)
def test_any_samples_have_a_period_or_a_reason(
    count: int, period: int, noise: float, missing: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    pattern = rng.integers(0, 3, period) * 10.0
    rates = np.maximum(0.0, np.resize(pattern, count) + noise * rng.standard_normal(count))
    rates[rng.random(count) < missing] = np.nan
    found = profile_throughput(Throughput(np.cumsum(rng.uniform(0.5, 1.5, count)), rates))
    assert (found.traffic is None) == (found.reason is not None)


# ------------------------------------------------------------------ records of gates


def test_a_record_is_the_loop_without_its_waits(tmp_path: Path) -> None:
    """It computes for 43 and 38 ms on average, and sends for 60 and 31."""
    path, _ = recorded(tmp_path)
    found = profile_record(read_record(path))
    assert_is(found, 0.172, ((0.0, 0.06, 800.0), (0.098, 0.031, 1500 * 8 / 31)))
    assert found.cycles == 99
    assert found.traffic is not None
    assert float(found.traffic.period_ms) == pytest.approx(43 + 38 + 60 + 31, abs=0.2)


def burst(at: float, iteration_ms: float | None = 200.0, **more: float | None) -> RecordedBurst:
    fields = {"at": at, "burst_ms": 50.0, "sent_bytes": 10**6, "iteration_ms": iteration_ms}
    return RecordedBurst.model_validate({**fields, **more})


def test_iterations_with_a_checkpoint_do_not_count() -> None:
    bursts = [burst(0.2 * index) for index in range(50)]
    bursts += [burst(10 + 8 + 0.2 * index, 8200.0 if not index else 200.0) for index in range(50)]
    found = profile_record(bursts)
    assert found.traffic is not None
    assert (float(found.traffic.period_ms), found.cycles) == (200, 98)


def test_a_record_without_bytes_is_refused_and_a_short_one_has_no_period() -> None:
    with pytest.raises(InputError, match=r"sent_bytes: null at 7\.0: what the burst sent is not"):
        profile_record([burst(0.0), burst(7.0, sent_bytes=None)])
    assert profile_record([burst(0.0), burst(0.2)]).reason == "too short: 1 whole iterations, not 4"
