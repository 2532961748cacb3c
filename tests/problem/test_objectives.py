"""Every objective has a name, a unit and a format."""

from __future__ import annotations

from fractions import Fraction

import pytest

from metronome_opt.errors import InputError
from metronome_opt.problem.objectives import (
    BY_NAME,
    WEIGHTED_SUM,
    check_names,
    find_objective,
    format_number,
)
from metronome_opt.problem.schedule import OBJECTIVES


def test_objectives_of_schedules_are_registered() -> None:
    assert set(BY_NAME) == {"slowdown", "completion", "delay", "lexicographic", *OBJECTIVES}
    for name, objective in BY_NAME.items():
        assert find_objective(name) is objective
        assert objective.name == name
        assert objective.unit


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("latency", Fraction(1, 8), "12.5%"),
        ("contention", Fraction(1, 8), "0.1"),
        ("contention", Fraction(12345), "12,345.0"),
        ("contention", Fraction(1, 10**5), "1e-05"),
        ("cushion", None, "no limit"),
        ("slowdown", None, "not simulated"),
    ],
)
def test_values_in_tables(name: str, value: Fraction | None, text: str) -> None:
    assert find_objective(name).format(value) == text


def test_only_zero_is_formatted_as_zero() -> None:
    assert [format_number(v) for v in (Fraction(0), Fraction(1, 20), None)] == ["0.0", "0.1", "-"]


@pytest.mark.parametrize("name", ["slowdown", WEIGHTED_SUM, "speed"])
def test_simulated_and_unknown_objectives_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"is simulated|is not known"):
        check_names(["contention", name])
