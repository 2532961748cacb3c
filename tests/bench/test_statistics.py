"""Measures and distributions against values worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.bench.growth import fit_power_law
from metronome_opt.bench.profiles import cactus, performance_profile, target_distribution
from metronome_opt.bench.statistics import (
    certified_gap,
    penalised_time,
    primal_gap,
    primal_integral,
    shifted_geometric_mean,
    time_to_target,
)

INFINITY = math.inf
TIMES = st.lists(st.floats(0, 1e4), min_size=1, max_size=6)


def exact(*steps: tuple[float, int]) -> list[tuple[float, Fraction]]:
    return [(elapsed, Fraction(value)) for elapsed, value in steps]


# ------------------------------------------------------------------ means


@pytest.mark.parametrize(
    ("values", "shift", "mean"),
    [
        ([1, 3], 1, math.sqrt(8) - 1),
        ([0, 0], 1, 0),
        ([0, 8], 1, 2),
        ([7], 10, 7),
        ([2, 8], 0, 4),
    ],
)
def test_shifted_geometric_mean(values: list[float], shift: float, mean: float) -> None:
    assert shifted_geometric_mean(values, shift) == pytest.approx(mean)


def test_no_values_have_no_mean() -> None:
    with pytest.raises(ValueError, match="no values"):
        shifted_geometric_mean([], 1)


@given(TIMES, st.sampled_from([0.1, 1.0, 10.0]))
def test_shifted_geometric_mean_lies_between_minimum_and_arithmetic_mean(
    values: list[float], shift: float
) -> None:
    mean = shifted_geometric_mean(values, shift)
    assert min(values) <= mean
    assert mean <= math.fsum(values) / len(values) * (1 + 1e-9) + 1e-9


@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)), min_size=1, max_size=5))
def test_mean_of_means_over_seeds_is_the_mean_over_all_runs(
    pairs: list[tuple[float, float]],
) -> None:
    means = [shifted_geometric_mean(pair, 1.0) for pair in pairs]
    runs = [time for pair in pairs for time in pair]
    assert shifted_geometric_mean(means, 1.0) == pytest.approx(
        shifted_geometric_mean(runs, 1.0), abs=1e-6
    )


def test_a_failure_counts_twice_the_limit() -> None:
    assert penalised_time(3.5, 10) == 3.5
    assert penalised_time(None, 10) == 20


# ------------------------------------------------------------------ gaps


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
    assert primal_gap(_fraction(value), _fraction(best)) == gap


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [
        (10, 9, Fraction(1, 10)),
        (10, 10, 0),
        (10, 0, 1),
        (10, None, 1),
        (0, 0, 0),
        (0, None, 0),
        (None, 3, 1),
        (None, None, 1),
    ],
)
def test_certified_gap(value: int | None, bound: int | None, gap: Fraction) -> None:
    assert certified_gap(_fraction(value), _fraction(bound)) == gap


def _fraction(value: int | None) -> Fraction | None:
    return None if value is None else Fraction(value)


# ------------------------------------------------------------------ over time


@pytest.mark.parametrize(
    ("steps", "best", "integral"),
    [
        ([(2, 8), (5, 4)], 4, 0.35),  # 2 s of gap 1, 3 s of 1/2, 5 s of 0
        ([(2, 8)], 4, 0.6),  # the last gap stays
        ([], 4, 1.0),
        ([(0, 4)], 4, 0.0),
        ([(4, 0)], 0, 0.4),
        ([(4, 3)], 0, 1.0),
        ([(12, 4)], 4, 1.0),  # after the limit
        ([(3, 8), (12, 4)], 4, 0.65),
    ],
)
def test_primal_integral(steps: list[tuple[float, int]], best: int, integral: float) -> None:
    assert primal_integral(exact(*steps), Fraction(best), 10) == pytest.approx(integral)


def test_primal_integral_of_a_limit_of_0_is_the_last_gap() -> None:
    assert primal_integral(exact((0.1, 5)), Fraction(4), 0) == pytest.approx(0.2)
    assert primal_integral([], Fraction(4), 0) == 1


@given(
    st.lists(st.tuples(st.floats(0, 20), st.integers(0, 50)), max_size=6),
    st.floats(0.1, 10),
)
def test_primal_integral_is_a_share(steps: list[tuple[float, int]], limit: float) -> None:
    ordered = exact(*sorted(steps, key=lambda step: (step[0], -step[1])))
    best = min((value for _, value in ordered), default=None)
    assert -1e-9 <= primal_integral(ordered, best, limit) <= 1 + 1e-9


def test_time_to_target() -> None:
    steps = exact((1, 10), (2, 6), (3, 5))
    assert time_to_target(steps, Fraction(6)) == 2
    assert time_to_target(steps, Fraction(11)) == 1
    assert time_to_target(steps, Fraction(4)) == INFINITY
    assert time_to_target([], Fraction(4)) == INFINITY


# ------------------------------------------------------------------ distributions


def test_performance_profile_counts_failures_as_infinitely_slow() -> None:
    times = {
        "a": {"p": 1.0, "q": 4.0, "nobody": INFINITY, "only b": INFINITY},
        "b": {"p": 2.0, "q": 2.0, "nobody": INFINITY, "only b": 9.0},
    }
    assert performance_profile(times) == {
        "a": ((1.0, 1 / 4), (2.0, 2 / 4)),
        "b": ((1.0, 2 / 4), (2.0, 3 / 4)),
    }


def test_performance_profile_of_ties_failures_and_one_solver() -> None:
    ties = {"a": {"p": 3.0, "q": 3.0}, "b": {"p": 3.0, "q": 3.0}}
    assert performance_profile(ties) == {"a": ((1.0, 1.0),), "b": ((1.0, 1.0),)}
    assert performance_profile({"a": {"p": INFINITY}, "b": {"p": INFINITY}}) == {"a": (), "b": ()}
    assert performance_profile({"a": {"p": 7.0}}) == {"a": ((1.0, 1.0),)}
    assert performance_profile({}) == {}


def test_performance_profile_holds_no_ratios_of_noise() -> None:
    times = {"a": {"p": 0.001}, "b": {"p": 0.004}, "c": {"p": 0.02}, "d": {"p": 0.0}}
    profile = performance_profile(times, floor=0.01)
    assert profile == dict.fromkeys("abd", ((1.0, 1.0),)) | {"c": ((2.0, 1.0),)}


def test_performance_profile_needs_the_same_problems() -> None:
    with pytest.raises(ValueError, match="same problems"):
        performance_profile({"a": {"p": 1.0}, "b": {"q": 1.0}})


def test_cactus() -> None:
    assert cactus([3.0, INFINITY, 1.0, 3.0]) == ((1, 1.0), (2, 3.0), (3, 3.0))
    assert cactus([INFINITY]) == ()


def test_target_distribution_keeps_runs_that_failed_in_the_denominator() -> None:
    assert target_distribution([2.0, INFINITY, 1.0, 1.0]) == (
        (1.0, 0.125),
        (1.0, 0.375),
        (2.0, 0.625),
    )
    assert target_distribution([INFINITY]) == ()


# ------------------------------------------------------------------ growth


def test_power_law_through_points_that_lie_on_one() -> None:
    fit = fit_power_law([10, 20, 30, 40], [0.5 * size**2 for size in (10, 20, 30, 40)])
    assert fit is not None
    assert (fit.factor, fit.exponent, fit.low, fit.high) == pytest.approx((0.5, 2, 2, 2), abs=1e-6)
    assert fit.at(100) == pytest.approx(5000)


def test_power_law_by_least_squares() -> None:
    # In powers of two: x 0, 1, 2 and y 0, 1, 4. The slope is 2, the residuals 1/3, -2/3, 1/3, so
    # the standard error is sqrt(2/3 / 2); the quantile of t with one degree of freedom is 12.706.
    fit = fit_power_law([1, 2, 4], [1, 2, 16])
    assert fit is not None
    margin = 12.7062 * math.sqrt(1 / 3)
    assert fit.factor == pytest.approx(2 ** (-1 / 3))
    assert fit.exponent == pytest.approx(2)
    assert fit.low == pytest.approx(2 - margin, abs=1e-3)
    assert fit.high == pytest.approx(2 + margin, abs=1e-3)


@pytest.mark.parametrize("sizes", [[], [8], [8, 16], [8, 8, 8]])
def test_too_few_points_have_no_slope(sizes: list[int]) -> None:
    assert fit_power_law(sizes, [1.0] * len(sizes)) is None
