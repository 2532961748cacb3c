"""Stated iteration times are exact where they are known, and simulated elsewhere."""

from __future__ import annotations

from fractions import Fraction

import pytest

from metronome_opt.allocation.slots.plan import Plan, expected_ms, mean_slowdown
from tests.builders import job, network

CHAIN = network(
    job("a", 20, (0, 2, 60), links={"x": 1}),
    job("b", 20, (0, 2, 60), links={"x": 1, "y": 1}),
    job("c", 20, (0, 2, 60), links={"y": 1}),
    x=100,
    y=100,
)


def stated(periods: dict[str, int], *slowdowns: float) -> list[Fraction]:
    plan = Plan(dict.fromkeys("abc", 0), periods)
    return list(expected_ms(CHAIN, plan, dict(zip("abc", slowdowns, strict=True))).values())


def test_no_job_is_faster_than_its_slots() -> None:
    assert stated({"a": 20, "b": 21, "c": 20}, 1.07, 0.9, 1.0) == [107, 105, 100]


def test_no_job_is_faster_than_alone() -> None:
    assert stated({}, 0.99, 0.9999999, 1.00001) == [100, 100, Fraction(100_001, 1000)]
    assert stated({"a": 20}, 0.99, 1, 1) == [100, 100, 100]


@pytest.mark.parametrize(
    ("weights", "mean"), [((1, 3), Fraction(7, 4)), ((0, 3), Fraction(2)), ((0, 0), Fraction(3, 2))]
)
def test_mean_is_weighted_unless_weights_are_zero(weights: tuple[int, int], mean: Fraction) -> None:
    pair = network(
        job("a", 20, (0, 2, 60), weight=weights[0]), job("b", 40, (0, 2, 60), weight=weights[1])
    )
    assert mean_slowdown(pair, {"a": Fraction(100), "b": Fraction(400)}) == mean


def test_simulated_times_are_whole_microseconds() -> None:
    assert stated({}, 1.2345678, 2, 1) == [Fraction(123_457, 1000), 200, 100]
