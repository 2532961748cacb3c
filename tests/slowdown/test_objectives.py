"""Slowdown and the other objectives: who is asked for what, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metronome_opt import solve
from metronome_opt.errors import InputError
from metronome_opt.instance import read_instance
from metronome_opt.multiobjective import solve as solve_objectives
from metronome_opt.result import Result
from metronome_opt.verify import check
from tests.builders import HARMLESS, job, network
from tests.slowdown.cases import ALTERNATING, NESTED, assert_sound, least

COPRIME = Path(__file__).parents[2] / "benchmarks" / "suites" / "coprime"


def assert_alike(found: Result, other: Result) -> None:
    """Assert that two answers differ in their running times alone."""
    assert found.schedule.gated is None
    assert found.schedule.expected_ms is None
    assert found.unshifted_ms is None
    assert found.schedule.model_copy(update={"runtime_s": 0.0}) == other.schedule.model_copy(
        update={"runtime_s": 0.0}
    )
    assert found.levels == other.levels
    assert found.stop is other.stop
    assert check(found.instance, found.schedule) == ()


@pytest.mark.parametrize(
    "asked",
    [
        {"objectives": ("contention",)},
        {"objectives": ["contention", "wait"], "tolerance": {"contention": "5%"}},
        {"objectives": ("wait",), "cushion_slots": 1},
        {"objectives": ("contention",), "strict": True},
    ],
)
def test_other_objectives_are_answered_as_ever(asked: dict[str, Any]) -> None:
    options: dict[str, Any] = {"time_limit": None, "workers": 1, "seed": 3}
    assert_alike(
        solve(HARMLESS, **options, **asked), solve_objectives(HARMLESS, **options, **asked)
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"solver": "greedy"},
        {"solver": "cpsat"},
        {"solver": "unshifted"},
        {"weights": {"latency": 1, "wait": "1/3"}},
        {"epsilon": {"wait": 12}},
        {"strict": True},
    ],
)
def test_what_does_not_know_slowdown_is_about_contention(asked: dict[str, Any]) -> None:
    options: dict[str, Any] = {"time_limit": None, "workers": 1}
    assert_alike(solve(NESTED, **options, **asked), solve_objectives(NESTED, **options, **asked))


def test_shipped_instances_with_coprime_periods_are_answered() -> None:
    instance = read_instance(COPRIME / "coprime-3x1-test-0.json")
    result = solve(instance, time_limit=5, workers=1)
    assert_sound(result)


def test_jobs_that_have_to_be_stretched_first_are_about_contention() -> None:
    # The common multiple of these periods is above a million; they may all become 1000.
    needy = network(*(job(f"j{p}", p, (0, 300, 60), max_stretch=30) for p in (997, 991, 983)))
    assert needy.needs_stretch
    result = solve(needy, time_limit=0.5, workers=1)
    assert result.schedule.first == "contention"
    assert result.schedule.gated is None
    assert check(needy, result.schedule) == ()
    with pytest.raises(InputError, match="name stretch among the objectives"):
        solve(needy, time_limit=0.5, objectives=("slowdown",))


def test_slowdown_may_be_named() -> None:
    named = solve(NESTED, objectives=["slowdown"], time_limit=None, workers=1)
    assert named.offsets == least(NESTED).offsets
    assert named.schedule.expected_ms == least(NESTED).schedule.expected_ms


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"objectives": ("slowdown", "contention")}, "slowdown stands alone; leave the others out"),
        ({"objectives": "slowdown"}, "objectives: must be a list of names, got 'slowdown'"),
        (
            {"solver": "cpsat", "objectives": ("slowdown",)},
            "cpsat does not know slowdown; use auto",
        ),
        (
            {"objectives": ("slowdown",), "weights": {"wait": 1}},
            "slowdown: knows no tolerance, wei",
        ),
        ({"objectives": ("slowdown",), "tolerance": {"wait": 1}}, "slowdown: knows no tolerance"),
        ({"objectives": ("slowdown",), "epsilon": {"wait": 1}}, "slowdown: knows no tolerance"),
        ({"objectives": ("slowdown",), "strict": True}, "slowdown: knows no tolerance"),
        ({"stretch_limit": -1}, "stretch_limit: must be at least 0, got '-1'"),
        ({"stretch_limit": "some"}, "stretch_limit: must be an exact number .* got 'some'"),
        ({"stretch_limit": 0.2}, r"stretch_limit: must be an exact number .* got 0\.2"),
        ({"stretch_limit": True}, "stretch_limit: must be an exact number"),
        ({"stretch_limit": "5%", "objectives": ("contention",)}, "stretch_limit: is for slowdown"),
        ({"stretch_limit": "5%", "solver": "greedy"}, "solver: greedy does not know slowdown"),
        ({"stretch_limit": "5%", "strict": True}, "slowdown: knows no tolerance"),
        ({"sharing": "best"}, "sharing: 'best' is not known; choose from fair, "),
        ({"sharing": "fair", "objectives": ("contention",)}, "sharing: "),
        ({"sharing": "tcp", "solver": "greedy"}, "solver: greedy does not know slowdown"),
        ({"cushion_slots": 41}, "cushion_slots: 41 is more than any burst can grow"),
        ({"time_limit": -1}, "time limit: must be a number of seconds from 0 on"),
        ({"workers": 0}, "workers: must be from 1"),
        ({"seed": -1}, "seed: must be at least 0"),
    ],
)
def test_invalid_argument_is_refused_in_one_line(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        solve(ALTERNATING, **{"time_limit": 1, **asked})
    assert "\n" not in str(refusal.value)
