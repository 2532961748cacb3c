"""Weights, rates and capacities near 2**63: solved exactly, or refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.pareto import pareto
from metronome_opt.verify import check
from tests.builders import job, network
from tests.solving import solve

HUGE = 2**63 - 1
ASKED: dict[str, Callable[[Instance], Any]] = {
    "order": lambda i: solve(i, objective=["contention", "wait", "moves"], workers=1),
    "other order": lambda i: solve(i, objective=["wait", "cushion", "latency"], workers=1),
    "strict": lambda i: solve(i, strict=True, workers=1),
    "sum": lambda i: solve(i, objective={"contention": "1/3", "wait": 1, "moves": 1}, workers=1),
    "stretch": lambda i: solve(i, objective=["contention", "stretch"], workers=1, time_limit=5),
    "front": lambda i: pareto(i, ["contention", "wait"], workers=1),
    "stretched front": lambda i: pareto(i, ["wait", "stretch"], workers=1, time_limit=5),
}


def meeting(weight: int, rate: int, capacity: int, *, stretch: int, meets: bool) -> Instance:
    """Return two jobs on a link, or on links of their own."""
    where = [{"link": 1}, {"link": 1} if meets else {"other": 1}]
    return network(
        job("a", 6, (0, 3, rate), weight=weight, max_stretch=stretch, ready=2, links=where[0]),
        job("b", 4, (0, 2, rate), max_stretch=stretch, current_offset=1, links=where[1]),
        capacity=capacity,
        other=capacity,
    )


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("meets", [True, False])
@pytest.mark.parametrize(
    ("weight", "rate", "capacity"),
    [(HUGE, 60, 100), (1, 2**60, 2**60 + 3), (HUGE,) * 3],
)
def test_an_answer_or_one_line(
    weight: int, rate: int, capacity: int, asked: str, meets: bool
) -> None:
    stretch = 2 if "stretch" in asked else 0
    instance = meeting(weight, rate, capacity, stretch=stretch, meets=meets)
    try:
        found = ASKED[asked](instance)
    except InputError as error:
        line = str(error)
        assert "\n" not in line
        assert "does not fit 64-bit integers; use " in line
        return
    for schedule in found.points if hasattr(found, "points") else [found.schedule]:
        assert check(instance, schedule) == ()


def test_the_line_names_place_value_and_remedy() -> None:
    lonely = meeting(HUGE, 60, 100, stretch=0, meets=False)
    message = (
        rf"^jobs\[0\] \(a\): its wait may reach {6 * HUGE}, that of its group {6 * HUGE}, which "
        "does not fit 64-bit integers; use smaller weights$"
    )
    with pytest.raises(InputError, match=message):
        solve(lonely, objective="wait", workers=1)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "greedy"])
def test_seventy_priority_classes(solver: str) -> None:
    many = network(*(job(f"job-{n}", 2, (0, 1, 60), weight=n + 1) for n in range(70)))
    found = solve(many, solver, strict=True, time_limit=2, workers=1)
    assert check(many, found.schedule) == ()


def test_a_link_of_more_jobs_than_an_array_has_axes() -> None:
    many = network(*(job(f"job-{n}", 4, (0, 1, 2)) for n in range(70)))
    found = solve(many, objective=["latency", "wait"], time_limit=1, workers=1)
    assert check(many, found.schedule) == ()
    assert found.schedule.objectives["latency"] == 0
