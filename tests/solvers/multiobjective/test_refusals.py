"""Refusals of goals, weights and reserves, each in one line."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt import solve
from metronome_opt.errors import InputError
from tests.builders import HARD, HARMLESS

BEYOND_64_BITS = "does not fit 64-bit integers; use "
IN_SUMS = ("moves", "wait", "contention", "latency")
PRIMES = ("1/1000000007", "1/1000000009", "1/998244353", "1/999999937")


@pytest.mark.parametrize(
    ("solver", "arguments", "message"),
    [
        (
            "greedy",
            {"objective": ["contention", "wait"]},
            r"contention, wait: solver greedy cannot; .* and holds contention, latency; .*: auto$",
        ),
        (
            "cassini",
            {"objective": ["contention", "latency"]},
            r"cassini cannot; it optimises contention, latency alone; those that can: auto, greedy",
        ),
    ],
)
def test_unable_solver_is_refused_with_able_ones(
    solver: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        solve(HARD, solver, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": []}, "objectives: none given; choose from contention,"),
        ({"objective": ["speed"]}, "objectives: 'speed' is not known; choose from"),
        ({"objective": ["wait", "wait"]}, "objectives: wait is given twice"),
        ({"objective": {"speed": 1}}, "weights: 'speed' is not known"),
        ({"objective": {"wait": -1}}, "weights.wait: must not be negative, got '-1'"),
        ({"objective": {"wait": 0.5}}, r"weights.wait: must be an exact number .* got 0\.5"),
        ({"objective": {"wait": "half"}}, "weights.wait: must be an exact number .* got 'half'"),
        ({"objective": {"wait": 0}}, "weights: all are 0"),
        ({"objective": {"wait": True}}, "weights.wait: must be an exact number"),
        ({"objective": {"wait": 1, "cushion": 1}}, "weights: cushion has no place in a sum; give"),
        ({"objective": {"stretch": 1}}, "weights: stretch has no place in a sum"),
        ({"cushion_slots": -1}, "cushion_slots: must be a number of slots from 0 on, got -1"),
        ({"cushion_slots": "two"}, "cushion_slots: must be a number of slots from 0 on"),
        ({"cushion_slots": 7}, r"^cushion_slots: 7 is more .* longest period is 6 slots"),
        ({"objective": {"contention": "1e400"}}, "40 digits or fewer"),
        ({"objective": {"contention": "1e99999999"}}, "40 digits or fewer"),
        ({"objective": {"contention": 10**50}}, "40 digits or fewer"),
        ({"objective": {"contention": "1e-30", "wait": 1}}, BEYOND_64_BITS),
        ({"objective": {"moves": "1e30", "wait": 1}}, BEYOND_64_BITS),
        ({"objective": dict(zip(IN_SUMS, PRIMES, strict=True))}, BEYOND_64_BITS),
    ],
)
def test_invalid_goal_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        solve(HARMLESS, threads=1, **arguments)
    assert "\n" not in str(refusal.value)


def test_reserve_of_longest_period_is_accepted() -> None:
    assert solve(HARMLESS, cushion_slots=6, threads=1).schedule.cushion_slots == 6
