"""`allocate` is no worse than greedy by any solver, within its bounds and limits."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt import Result, StopReason, allocate, solve
from metronome_opt.allocation.arguments import ALLOCATION_SOLVERS
from metronome_opt.allocation.scenario_search import nearest
from metronome_opt.errors import InputError
from metronome_opt.scenario import build_scenario, read_scenario
from metronome_opt.scenario.scenario_file import locate
from tests.allocation.enumeration import draw_scenario
from tests.allocation.slots.cases import value_of
from tests.allocation.test_joint_model import crowded
from tests.builders import two_jobs

EIGHT = read_scenario(locate("eight-nodes"))


@pytest.fixture(scope="module")
def greedy() -> Result:
    return allocate(EIGHT, "greedy")


def test_greedy_has_the_nearest_places(greedy: Result) -> None:
    assert greedy.schedule.places == nearest(EIGHT).places
    assert greedy.schedule.solver == "greedy"
    assert greedy.pool is None


def test_greedy_gates_jobs_that_gain_by_rotation() -> None:
    """Bursts of 8 of 40 slots and of 4 of 20 meet unshifted; shifted they do not."""
    result = allocate(two_jobs(), "greedy")
    assert result.schedule.gated == {"a": True, "b": True}
    rotated = solve(two_jobs(), "greedy", "contention")
    assert result.offsets == rotated.offsets
    assert 1 <= float(value_of(result) or 0) < 1.02


@pytest.mark.parametrize("solver", ["cpsat", "milp"])
def test_joint_models_are_no_worse_than_greedy_and_state_their_bound(
    solver: str, greedy: Result
) -> None:
    result = allocate(EIGHT, solver, time_limit=30, threads=1)
    assert result.schedule.solver == solver
    assert result.bound == 1
    assert 1 <= value_of(result) <= value_of(greedy)
    pool = result.pool
    assert pool is not None
    assert pool.bound is not None
    assert 0 < pool.bound <= pool.cost
    assert pool.gap == pytest.approx(0, abs=1e-5)
    assert any("at least" in note for note in result.notes)
    instance = build_scenario(EIGHT.at(result.schedule.places or {})).instance
    assert result.instance == instance


@pytest.mark.parametrize("solver", ALLOCATION_SOLVERS)
@pytest.mark.parametrize("seconds", [0, 1e-6])
def test_without_time_jobs_are_at_the_nearest_places(solver: str, seconds: float) -> None:
    scenario = read_scenario(locate("two-racks"))
    result = allocate(scenario, solver, time_limit=seconds)
    assert result.schedule.places == nearest(scenario).places
    assert result.value is None
    assert result.stop_reason is StopReason.TIME_LIMIT


@pytest.mark.parametrize("solver", ALLOCATION_SOLVERS)
def test_little_time_gives_the_schedule_of_greedy_at_least(solver: str, greedy: Result) -> None:
    result = allocate(EIGHT, solver, time_limit=0.6)
    assert value_of(result) <= value_of(greedy)


@pytest.mark.parametrize("solver", ALLOCATION_SOLVERS)
def test_the_lightest_job_waits_where_not_all_fit(solver: str) -> None:
    result = allocate(crowded(), solver, time_limit=20)
    assert result.schedule.waiting == ("light",)
    assert value_of(result) == 1


def test_runs_of_one_thread_are_repeatable() -> None:
    first, second = (
        allocate(draw_scenario(6), "cpsat", time_limit=None, threads=1) for _ in range(2)
    )
    assert first.schedule.places == second.schedule.places
    assert first.value == second.value
    assert first.pool == second.pool


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"solver": "mip"}, "solver: 'mip' is not known; choose from auto, greedy, cpsat, milp"),
        ({"threads": 0}, "threads: must be from 1 to 256, got 0"),
        (
            {"objective": "contention"},
            "must be slowdown, lexicographic or completion, got 'contention'",
        ),
        ({"max_loss": "-1%"}, "must be at least 0, got '-1%'"),
        ({"network": "ring"}, "network: 'ring' is not known"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error):
        allocate(two_jobs(), **arguments)
