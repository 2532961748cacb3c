from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.profiles import Samples, from_series
from metronome_opt.profiles.samples import regrid

SECOND = pd.Timestamp("2024-01-01T00:00:00Z").timestamp()


def test_a_series_of_rates_is_taken_as_it_is() -> None:
    times = pd.to_datetime(["2024-01-01T00:00:01", "2024-01-01T00:00:00", "2024-01-01T00:00:03"])
    found = from_series(pd.Series([20.0, 10.0, None], index=times))
    assert found.times_s.tolist() == [SECOND, SECOND + 1, SECOND + 3]
    assert found.rates_mbps[:2].tolist() == [10.0, 20.0]
    assert math.isnan(found.rates_mbps[2])


def test_times_with_a_zone_are_the_same_moments() -> None:
    there = pd.DatetimeIndex(["2024-01-01T01:00:00+01:00", "2024-01-01T01:00:01+01:00"])
    assert from_series(pd.Series([1.0, 2.0], index=there)).times_s[0] == SECOND


def test_a_counter_becomes_the_rates_between_its_samples() -> None:
    # 1,000,000 bytes are 8 Mbit.
    counts = pd.Series([0.0, 1e6, 1e6, 5e6], index=[0.0, 1.0, 2.0, 4.0])
    found = from_series(counts, counter=True)
    assert found.times_s.tolist() == [1.0, 2.0, 4.0]
    assert found.rates_mbps.tolist() == pytest.approx([8.0, 0.0, 16.0])
    assert found.spans_s.tolist() == [1.0, 1.0, 2.0]


def test_what_was_sent_around_a_reset_is_unknown() -> None:
    counts = pd.Series([5e6, 6e6, 1e6, 2e6], index=[0.0, 1.0, 2.0, 3.0])
    rates = from_series(counts, counter=True).rates_mbps
    assert rates[[0, 2]].tolist() == pytest.approx([8.0, 8.0])
    assert math.isnan(rates[1])


def test_a_missing_count_lengthens_the_span_of_the_next() -> None:
    counts = pd.Series([0.0, math.nan, 4e6], index=[0.0, 1.0, 2.0])
    found = from_series(counts, counter=True)
    assert found.rates_mbps.tolist() == pytest.approx([16.0])
    assert found.spans_s.tolist() == [2.0]


@pytest.mark.parametrize(
    ("unit", "counter", "rate"),
    [("Gbit", False, 3000.0), ("byte", False, 24e-6), ("bit", True, 3e-6), ("kbit", True, 3e-3)],
)
def test_units(unit: str, counter: bool, rate: float) -> None:
    series = pd.Series([0.0, 3.0] if counter else [3.0, 3.0], index=[0.0, 1.0])
    assert from_series(series, counter=counter, unit=unit).rates_mbps[-1] == pytest.approx(rate)


@given(
    st.lists(st.floats(0.01, 100), min_size=2, max_size=30),
    st.lists(st.integers(0, 10**9), min_size=30, max_size=30),
)
def test_no_byte_of_a_counter_is_lost(steps: list[float], sent: list[int]) -> None:
    counts = pd.Series(np.cumsum(sent[: len(steps)]), index=np.cumsum(steps))
    found = from_series(counts, counter=True)
    megabits = float(found.rates_mbps @ found.spans_s)
    assert megabits == pytest.approx(8e-6 * (counts.iloc[-1] - counts.iloc[0]), rel=1e-9)


def test_left_out_and_unknown_samples_are_counted_as_missing() -> None:
    times = np.array([0.0, 1.0, 2.0, 5.0, 6.0, 7.0, 8.0, 9.0])  # two are left out
    rates = np.array([1.0, 1.0, math.nan, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert Samples(times, rates).missing == pytest.approx(0.3)


def test_a_rate_after_a_gap_is_taken_for_that_of_one_step() -> None:
    found = Samples(np.array([0.0, 1.0, 2.0, 5.0]), np.ones(4))
    assert found.spans_s.tolist() == [1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("times", "rates", "message"),
    [
        ([0.0, 1.0], [1.0], "rates_mbps: shape"),
        ([0.0, math.nan], [1.0, 1.0], r"times_s\[1\]: nan: not a time"),
        ([0.0, 0.0], [1.0, 1.0], r"times_s\[1\]: 0.0: not after"),
        ([0.0, 1.0], [1.0, math.inf], r"rates_mbps\[1\]: inf: not a rate"),
        ([0.0, 1.0], [1.0, -1.0], r"rates_mbps\[1\]: -1.0: must be at least 0"),
    ],
)
def test_samples_that_are_none(times: list[float], rates: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Samples(np.array(times), np.array(rates))


@pytest.mark.parametrize(
    ("series", "unit", "message"),
    [
        (pd.Series([1.0, 2.0], index=[0.0, 0.0]), None, "given twice"),
        (pd.Series([1.0], index=["noon"]), None, "'noon' is no time"),
        (pd.Series([1.0], index=[math.nan]), None, "missing or infinite"),
        (pd.Series(["fast"], index=[0.0]), None, "no numbers"),
        (pd.Series([math.inf], index=[0.0]), None, "infinite value"),
        (pd.Series([1.0], index=[1.7e12]), None, "after the year 2200; divide milliseconds"),
        (pd.Series([1.0], index=[0.0]), "furlong", "'furlong' is not known; choose from bit"),
    ],
)
def test_a_series_that_is_none(series: pd.Series, unit: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_series(series, unit=unit)


# ------------------------------------------------------------------ on an even grid


@given(st.lists(st.floats(0, 1000), min_size=4, max_size=40), st.integers(1, 4))
def test_what_was_sent_stays_the_same(rates: list[float], joined: int) -> None:
    whole = len(rates) // joined * joined
    values = np.array(rates[:whole])
    grid = regrid(Samples(np.arange(1.0, whole + 1), values), float(joined))
    assert grid.rates == pytest.approx(values.reshape(-1, joined).mean(axis=1), abs=1e-6)


def test_cells_that_were_hardly_measured_are_unknown() -> None:
    times = np.array([1.0, 2.0, 3.0, 7.0, 8.0])
    grid = regrid(Samples(times, np.full(5, 6.0)), 2.0)
    # 0 to 3 and 6 to 8 are measured; of the second cell that is just half.
    assert grid.rates[[0, 1, 3]].tolist() == [6.0, 6.0, 6.0]
    assert np.isnan(grid.rates[2])
