"""Weights, rates and capacities near 2**63: solved exactly, or refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from metronome_opt import pareto, solve
from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.verify import verify_schedule
from tests.builders import job, network

HUGE = 2**63 - 1
ASKED: dict[str, Callable[[Instance], Any]] = {
    "order": lambda i: solve(i, objective=["contention", "wait", "moves"], threads=1),
    "other order": lambda i: solve(i, objective=["wait", "cushion", "latency"], threads=1),
    "sum": lambda i: solve(i, objective={"contention": "1/3", "wait": 1, "moves": 1}, threads=1),
    "stretch": lambda i: solve(i, objective=["contention", "stretch"], threads=1, time_limit=5),
    "front": lambda i: pareto(i, threads=1),
    "stretched front": lambda i: pareto(i, ["latency", "stretch"], threads=1, time_limit=5),
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
def test_large_numbers_are_solved_or_refused_in_one_line(
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
        assert verify_schedule(instance, schedule) == ()


def test_refusal_names_place_value_and_remedy() -> None:
    lonely = meeting(HUGE, 60, 100, stretch=0, meets=False)
    message = (
        rf"^jobs\[0\] \(a\): its wait may reach {6 * HUGE}, that of its group {6 * HUGE}, which "
        "does not fit 64-bit integers; use smaller weights$"
    )
    with pytest.raises(InputError, match=message):
        solve(lonely, objective={"wait": 1, "moves": 1}, threads=1)


def test_units_beyond_64_bits_are_exact() -> None:
    # The hyperperiods, 991 x 997 and so on, have a common multiple of 10**21 slots.
    periods = (997, 991, 983, 977, 971, 967, 953)
    links = [f"l{index}" for index in range(len(periods) - 1)]
    jobs = [
        job(
            f"job-{index}",
            period,
            (0, 600, 60),
            links=dict.fromkeys(links[max(0, index - 1) : index + 1], 1),
        )
        for index, period in enumerate(periods)
    ]
    instance = network(*jobs, **dict.fromkeys(links, 100))
    result = solve(instance, objective=["wait", "contention"], time_limit=2, threads=1)
    assert result.levels[0].value == 0
    assert result.offsets == instance.unshifted
    assert verify_schedule(instance, result.schedule) == ()
