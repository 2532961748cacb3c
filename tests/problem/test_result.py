"""Gap, frames and views of a result agree with its schedule."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from metronome_opt import solve
from metronome_opt.api import compare
from metronome_opt.problem.result import Result
from metronome_opt.problem.schedule import Schedule, Status
from tests.solvers.test_every_solver import CROWDED, TIGHT


def stating(result: Result, bound: Fraction | None) -> Result:
    """Return the result with another lower bound."""
    fields = {**result.schedule.model_dump(), "lower_bound": bound, "status": Status.FEASIBLE}
    schedule = Schedule(**fields)
    return replace(result, schedule=schedule, build_s=0.0, solve_s=0.0)


def test_gap_is_relative_to_value() -> None:
    crowded = solve(CROWDED, "branch-bound")
    assert crowded.value == Fraction(20, 3)
    assert crowded.gap == 0
    assert stating(crowded, Fraction(5)).gap == Fraction(1, 4)
    assert stating(crowded, Fraction(0)).gap == 1
    assert stating(crowded, None).gap is None
    assert solve(TIGHT, "greedy").gap == 0  # nothing above 0, nothing below


@pytest.mark.parametrize(
    ("name", "value", "bound", "gap"),
    [
        ("slowdown", Fraction(3, 2), Fraction(1), Fraction(1, 3)),
        ("cushion", Fraction(2), Fraction(3), Fraction(1, 2)),
    ],
)
def test_gap_of_other_objectives_is_positive(
    name: str, value: Fraction, bound: Fraction, gap: Fraction
) -> None:
    found = solve(CROWDED, "unshifted")
    fields = {"objectives": {name: value}, "lower_bound": bound}
    result = replace(found, schedule=found.schedule.model_copy(update=fields))
    assert (result.value, result.bound, result.gap) == (value, bound, gap)
    assert f"{name} {float(value):g}, lower bound {bound}, gap {float(gap):.1%}" in result.summary()


def test_frames_of_a_result_and_its_times_add_up() -> None:
    result = solve(CROWDED, "cpsat", threads=1)
    assert list(result.to_frame()["period"]) == [4, 6]
    assert result.build_s > 0
    assert abs(result.build_s + result.solve_s - result.schedule.runtime_s) < 1e-3


def test_comparison_keeps_unknown_values() -> None:
    frame = compare([solve(CROWDED, "unshifted"), solve(CROWDED, "branch-bound")])
    assert list(frame.index) == ["unshifted", "branch-bound"]
    # Unshifted they meet in 5 slots of 12, 20 unserved: 100 / 12.
    assert abs(frame["contention"].iloc[0] - 100 / 12) < 1e-9
    assert frame["lower_bound"].isna().tolist() == [True, False]
    assert frame["gap"].isna().tolist() == [True, False]
    assert frame["gap"].iloc[1] == 0
    assert frame["status"].tolist() == ["feasible", "optimal"]


def test_bounds_of_two_objectives_are_in_two_columns() -> None:
    frame = compare([solve(CROWDED, "greedy"), solve(CROWDED, "cpsat", "latency")])
    assert list(frame["objective"]) == ["contention", "latency"]
    assert "lower_bound" not in frame
    assert frame["contention_bound"].isna().tolist() == [True, True]
    assert frame["latency_bound"].isna().tolist() == [True, False]
    assert frame["value"].iloc[0] == frame["contention"].iloc[0]
