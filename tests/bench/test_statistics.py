"""Measures of runs and intervals over seeds equal values worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest

from metronome_opt.bench.cases import certified_gap, primal_gap, primal_integral
from metronome_opt.bench.studies import Interval, mean_interval


def exact(*steps: tuple[float, int]) -> list[tuple[float, Fraction]]:
    return [(elapsed, Fraction(value)) for elapsed, value in steps]


def fraction(value: int | None) -> Fraction | None:
    return None if value is None else Fraction(value)


@pytest.mark.parametrize(
    ("value", "best", "gap"),
    [
        (5, 4, Fraction(1, 5)),
        (4, 4, 0),
        (0, 0, 0),
        (3, 0, 1),
        (-1, 1, 1),
        (-2, -4, Fraction(1, 2)),
        (None, 4, 1),
        (None, None, 1),
    ],
)
def test_primal_gap(value: int | None, best: int | None, gap: Fraction) -> None:
    assert primal_gap(fraction(value), fraction(best)) == gap


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [
        (10, 9, Fraction(1, 10)),
        (10, 0, 1),
        (10, None, 1),
        (0, 0, 0),
        (0, None, 0),
        (None, 3, 1),
    ],
)
def test_certified_gap(value: int | None, bound: int | None, gap: Fraction) -> None:
    assert certified_gap(fraction(value), fraction(bound)) == gap


@pytest.mark.parametrize(
    ("steps", "best", "integral"),
    [
        ([(2, 8), (5, 4)], 4, 0.35),  # 2 s of gap 1, 3 s of 1/2, 5 s of 0
        ([(2, 8)], 4, 0.6),  # the last gap stays
        ([], 4, 1.0),
        ([(0, 4)], 4, 0.0),
        ([(4, 0)], 0, 0.4),
        ([(4, 3)], 0, 1.0),
        ([(3, 8), (12, 4)], 4, 0.65),  # after the limit
    ],
)
def test_primal_integral(steps: list[tuple[float, int]], best: int, integral: float) -> None:
    assert primal_integral(exact(*steps), Fraction(best), 10) == pytest.approx(integral)


# ------------------------------------------------------------------ intervals


def test_one_value_has_a_mean_and_no_interval() -> None:
    found = mean_interval([3.5])
    assert found == Interval(3.5, None, None, 1)
    assert found - 1.0 == Interval(2.5, None, None, 1)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]], ids=["none", "nan", "inf"])
def test_unknown_values_have_no_mean(values: Sequence[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        mean_interval(values)


@pytest.mark.parametrize(
    ("values", "mean", "width"),
    [  # quantiles of Student's t at 97.5 % for 1, 2 and 4 degrees of freedom, as tables have them
        ([1.0, 2.0], 1.5, 12.706 * 0.5),
        ([1.0, 2.0, 3.0], 2.0, 4.303 / math.sqrt(3)),
        ([2.0, 2.0, 2.0, 2.0, 7.0], 3.0, 2.776),
    ],
)
def test_interval_is_that_of_student(values: list[float], mean: float, width: float) -> None:
    found = mean_interval(values)
    assert found.mean == mean
    assert found.low == pytest.approx(mean - width, abs=1e-3)
    assert found.high == pytest.approx(mean + width, abs=1e-3)
    assert found.count == len(values)


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert mean_interval([0.1] * 3) == Interval(0.1, 0.1, 0.1, 3)
