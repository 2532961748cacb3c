from __future__ import annotations

import random
import warnings
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.bench.intervals import Interval, mean_interval

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12)


def test_one_value_has_a_mean_and_no_interval() -> None:
    found = mean_interval([3.5])
    assert found == Interval(3.5, None, None, 1)
    assert 0.0 in found  # nothing is certain
    assert 3.5 in found


def test_values_that_are_all_alike_have_an_interval_of_one_point() -> None:
    found = mean_interval([0.1] * 10)
    assert found == Interval(0.1, 0.1, 0.1, 10)
    assert 0.1 in found
    assert 0.2 not in found


@pytest.mark.parametrize(
    "values", [[], [1.0, float("nan")], [float("inf")]], ids=["none", "nan", "inf"]
)
def test_there_is_no_mean_of_what_is_not_known(values: Sequence[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        mean_interval(values)


def test_two_values_lie_at_the_ends() -> None:
    """A quarter of all resamples holds one of two values alone, far more than 2.5 %."""
    assert mean_interval([1.0, 2.0]) == Interval(1.5, 1.0, 2.0, 2)


def test_ten_values_by_the_normal_approximation() -> None:
    """Of 1 to 10 the mean's deviation is sqrt(8.25 / 10) = 0.908; 1.96 of it on either side."""
    found = mean_interval([float(value) for value in range(1, 11)])
    assert found.mean == 5.5
    assert found.low == pytest.approx(5.5 - 1.96 * 0.908, abs=0.1)
    assert found.high == pytest.approx(5.5 + 1.96 * 0.908, abs=0.1)


def test_the_interval_leans_to_where_the_values_are_spread() -> None:
    found = mean_interval([1.0] * 9 + [2.0])
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.mean > found.mean - found.low


def test_most_intervals_hold_the_mean_of_the_population() -> None:
    """Ten normal values: a bootstrap interval is a little too narrow, but near 95 %."""
    draw = random.Random(5)
    held = sum(0.0 in mean_interval([draw.gauss(0, 1) for _ in range(10)]) for _ in range(200))
    assert 0.86 <= held / 200 <= 0.98


def test_moving_an_interval_moves_all_of_it() -> None:
    assert Interval(1.5, 1.0, 2.0, 3) - 1.0 == Interval(0.5, 0.0, 1.0, 3)
    assert Interval(1.5, None, None, 1) - 1.0 == Interval(0.5, None, None, 1)


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_ends_are_around_the_mean_within_the_values_and_repeatable(values: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = mean_interval(values)
    assert found.low is not None
    assert found.high is not None
    slack = 1e-9 * max(1.0, *map(abs, values))
    assert min(values) - slack <= found.low <= found.high <= max(values) + slack
    assert found.low - slack <= found.mean <= found.high + slack
    assert mean_interval(values) == found
