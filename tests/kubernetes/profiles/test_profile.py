"""Profiles: period and bursts of known traffic, within the errors that are stated."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.profiles.measure import profile_file
from metronome_opt.kubernetes.profiles.profile import (
    Profile,
    RecordedBurst,
    profile_record,
    read_record,
)
from metronome_opt.kubernetes.profiles.sampled import profile_samples, read_samples
from metronome_opt.kubernetes.profiles.source import Source, open_source
from metronome_opt.scenario.traffic import Traffic
from tests.gate.clock import Clock, claim
from tests.tiers import examples

T = TypeVar("T")
Floats = NDArray[np.float64]
Bursts = tuple[tuple[float, float, float], ...]
ONE: Bursts = ((0.0, 0.3, 900.0),)
TWO: Bursts = ((0.0, 0.4, 2000.0), (0.7, 0.3, 1500.0))
THREE: Bursts = ((0.0, 0.2, 2000.0), (0.3, 0.2, 1000.0), (0.7, 0.2, 1500.0))


def sent(times_s: Floats, period_s: float, bursts: Bursts, jitter: float, seed: int) -> Floats:
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
) -> tuple[Floats, Floats]:
    """Return two minutes of throughput; noise is a share of 1,000 Mbit/s."""
    times = np.arange(0.0, 120.0, step_s)
    rates = np.diff(sent(times, period_s, bursts, jitter, seed=1)) / step_s
    rates += 1000 * noise * np.random.default_rng(2).standard_normal(len(rates))
    return times[1:] + 1.7e9, np.maximum(0.0, rates)


def assert_is(found: Profile, period_s: float, bursts: Bursts) -> None:
    """Assert that the true values are within one and a half of the errors that are stated."""
    assert found.reason is None
    assert found.rate_error is not None
    assert found.burst_error_ms is not None
    assert found.period_error_ms is not None
    traffic = Traffic.model_validate(found.traffic)
    close = 1.5 * found.burst_error_ms + 0.1
    period_ms = 1000 * period_s
    assert float(traffic.period_ms) == pytest.approx(
        period_ms, abs=1.5 * found.period_error_ms + 0.001 * period_ms
    )
    # Which burst comes first depends on the silences, and starts count from the first.
    phases = traffic.phases
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
    assert_is(profile_samples(*samples), period_s, bursts)


@given(st.floats(0.4, 3.0), st.floats(0.15, 0.6), st.integers(100, 100_000))
@examples(40, deadline=None)
def test_any_period_with_one_burst_is_found(period_s: float, duty: float, rate: int) -> None:
    bursts = ((0.0, duty * period_s, float(rate)),)
    assert_is(profile_samples(*sampled(period_s, bursts, step_s=0.02)), period_s, bursts)


def test_missing_samples_do_no_harm() -> None:
    times, rates = sampled(1.3, TWO, step_s=0.05)
    rates[np.random.default_rng(0).random(len(rates)) < 0.05] = np.nan
    found = profile_samples(times, rates)
    assert found.traffic is not None
    assert found.traffic["period_ms"] == pytest.approx(1300, rel=0.005)


NOISE = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        (np.ones(10), "too short: 10 of 10 samples are known"),
        (np.full(900, 7.0), "not periodic: the rate is constant"),
        (NOISE.random(900), "not periodic: nothing repeats"),
        (np.abs(np.cumsum(NOISE.standard_normal(900))), "not periodic"),
        ((NOISE.random(900) < 0.2) * 100.0, "not periodic"),
        (np.tile([0.0, 0, 9, 9], 225), "too coarse: something repeats about every 4 samples"),
        (50 + np.tile([0.0, 0, 0, 0, 9, 9, 9, 9], 110), "too coarse: bursts are shorter than"),
        (np.where(np.arange(900) % 3, np.nan, 1.0), "too short: 300 of 900 samples"),
    ],
)
def test_without_a_period_there_is_a_reason(rates: Floats, reason: str) -> None:
    times = 0.1 * np.arange(len(rates), dtype=np.float64)
    found = profile_samples(times, rates)
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
    found = profile_samples(np.cumsum(rng.uniform(0.5, 1.5, count)), rates)
    assert (found.traffic is None) == (found.reason is not None)


# ------------------------------------------------------------------ records of gates


def recorded(folder: Path) -> Path:
    """Let a loop of 240 ms with bursts of 60 and 30 ms run through a gate."""
    path = folder / "gate.jsonl"
    clock = Clock()
    gate = clock.gate(claim(40, 240, 0, 150), record=path)
    for index in range(100):
        clock.passes(40 + index % 7)
        with gate.burst(6_000_000):
            clock.passes(60)
        clock.passes(40 - index % 5)
        with gate.burst(1_500_000):
            clock.passes(30 + index % 3)
    gate.close()
    return path


def test_a_record_is_the_loop_without_its_waits(tmp_path: Path) -> None:
    """It computes for 43 and 38 ms on average, and sends for 60 and 31."""
    found = profile_file(recorded(tmp_path))
    assert_is(found, 0.172, ((0.0, 0.06, 800.0), (0.098, 0.031, 1500 * 8 / 31)))
    assert found.cycles == 99
    # Of i % 7 and i % 5 the variances are 4 and 2.
    assert found.jitter == pytest.approx(math.sqrt((4 + 2) / (43**2 + 38**2)), rel=0.02)


def burst(at: float, iteration_ms: float | None = 200.0, **more: float | None) -> RecordedBurst:
    fields = {"at": at, "burst_ms": 50.0, "sent_bytes": 10**6, "iteration_ms": iteration_ms}
    return RecordedBurst.model_validate({**fields, **more})


def test_iterations_with_a_checkpoint_do_not_count() -> None:
    bursts = [burst(0.2 * index) for index in range(50)]
    bursts += [burst(10 + 8 + 0.2 * index, 8200.0 if not index else 200.0) for index in range(50)]
    found = profile_record(bursts)
    assert found.traffic is not None
    assert (found.traffic["period_ms"], found.cycles) == (200, 98)
    assert found.jitter == pytest.approx(0, abs=1e-4)


def test_a_record_without_bytes_is_refused_and_a_short_one_has_no_period() -> None:
    with pytest.raises(InputError, match=r"sent_bytes: null at 7\.0: not known; enter gate\."):
        profile_record([burst(0.0), burst(7.0, sent_bytes=None)])
    assert profile_record([burst(0.0), burst(0.2)]).reason == "too short: 1 whole iterations, not 4"


# ------------------------------------------------------------------ files


def line(at: float, **more: Any) -> str:
    values = {"at": at, "burst_ms": 50.0, "sent_bytes": 10**7, "job": "bert", "task": 0}
    return json.dumps({**values, **more})


def write(folder: Path, *lines: str) -> Path:
    path = folder / "measured"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def opened(read: Callable[[Source], T], path: Path) -> T:
    with open_source(path) as source:
        return read(source)


def test_lines_that_broke_off_are_left_out(tmp_path: Path) -> None:
    whole = [line(1.7e9 + 0.2 * index) for index in range(4)]
    broken = write(tmp_path, whole[0], whole[1][:40], *whole[1:], whole[0][:7])
    assert opened(read_record, broken) == opened(read_record, write(tmp_path, *whole))


def test_samples_may_be_missing(tmp_path: Path) -> None:
    times, rates = opened(read_samples, write(tmp_path, "time, rate", "10, 1", "11,", "12, 3.5"))
    assert times.tolist() == [10, 11, 12]
    np.testing.assert_array_equal(rates, [1, np.nan, 3.5])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["time,rate", "1,2"], "holds no bursts of a gate"),
        ([line(1), "{7}"], "line 2: is not JSON"),
        (["{}"], "line 1: at: missing"),
        ([line(1, burst_ms=-1)], "line 1: burst_ms: must be at least 0.0, got -1"),
        (['{"at": NaN, "burst_ms": 1}'], "line 1: at: Input should be a finite number, got nan"),
        (
            [line(1), line(2, task=1)],
            "line 2: is of task 1 of job bert, those before of task 0 of job bert; give one",
        ),
        ([line(1), line(1.04)], "line 2: at: 1.04: before the end of the burst"),
        (["\ud800"], "is not UTF-8"),
    ],
)
def test_wrong_records_are_refused_in_one_line(tmp_path: Path, lines: list[str], said: str) -> None:
    path = tmp_path / "gate.jsonl"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(errors="surrogatepass"))
    with pytest.raises(InputError) as caught:
        opened(read_record, path)
    assert str(caught.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize(
    "wrong", ["1", "1,2,3", "lunch,3", "2,fast", ",3", "2,inf", "inf,2", "0,3", "3,-1"]
)
def test_wrong_samples_are_refused_in_one_line(tmp_path: Path, wrong: str) -> None:
    path = write(tmp_path, "time,rate", "1,2", wrong)
    with pytest.raises(InputError) as caught:
        opened(read_samples, path)
    assert str(caught.value).startswith(f"{path}: line 3: '{wrong}': must be a later time in")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder; name a file"):
        opened(read_samples, tmp_path)
