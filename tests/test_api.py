"""The verbs take problems alike, stop by rules, and refuse invalid arguments in a line."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from metronome_opt import (
    SOLVERS,
    Instance,
    MaxIterations,
    MaxRuntime,
    NoImprovement,
    ProgressEvent,
    StopReason,
    allocate,
    compare,
    load,
    read_instance,
    simulate,
    solve,
    write_instance,
)
from metronome_opt.errors import InputError, SolverError
from metronome_opt.problem.result import CustomSolverError
from metronome_opt.problem.stopping import StoppingRule
from metronome_opt.solvers import SolverRun
from metronome_opt.verify import verify_schedule
from tests.allocation.slots.cases import ALTERNATING, assert_sound
from tests.builders import HARD, job, network, two_jobs

COPRIME = Path(__file__).parents[1] / "benchmarks" / "suites" / "coprime"
# The common multiple of these periods is above a million; they may all become 1000.
NEEDY = network(*(job(f"j{p}", p, (0, 300, 60), max_stretch=30) for p in (997, 991, 983)))


# ------------------------------------------------------------------ the objective


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_every_solver_takes_the_default_objective(name: str) -> None:
    assert solve(two_jobs(), name, threads=1).schedule.primary_objective == "contention"
    assert solve(two_jobs(), name, "latency", threads=1).schedule.primary_objective == "latency"


def test_allocation_minimises_slowdown_whatever_the_instance() -> None:
    assert_sound(allocate(read_instance(COPRIME / "coprime-3x1-test-0.json"), time_limit=5))
    assert NEEDY.needs_stretch
    unknown = allocate(NEEDY, time_limit=0)
    assert (unknown.schedule.primary_objective, verify_schedule(NEEDY, unknown.schedule)) == (
        "slowdown",
        (),
    )
    result = solve(NEEDY, objective=["contention", "stretch"], time_limit=0.5, threads=1)
    assert result.schedule.primary_objective == "contention"
    assert verify_schedule(NEEDY, result.schedule) == ()


def test_slowdown_alone_states_times_and_gates() -> None:
    result = solve(ALTERNATING, objective="contention", time_limit=None, threads=1)
    assert (result.schedule.gated, result.schedule.expected_ms, result.unshifted_ms) == (None,) * 3


INVALID = [
    ({"time_limit": -1}, "time limit: must be a number of seconds from 0 to 1e9"),
    ({"time_limit": float("nan")}, "time limit: must be"),
    ({"stop": MaxRuntime(1)}, "time_limit: conflicts with MaxRuntime"),
    ({"threads": 0}, "threads: must be from 1 to 256, got 0"),
    ({"seed": -1}, "seed: must be at least 0, got -1"),
    ({"seed": None}, "seed: must be an integer, got None"),
    ({"stop": 3}, "stop: must be a rule or several, got 3"),
    ({"solver": 3}, "solver: 3 is not known"),
    ({"solver": "best"}, "solver: 'best' is not known; choose from auto,"),
    ({"objective": ()}, "none given; choose from|must be slowdown, lexicographic or completion"),
    ({"objective": 3}, "objective: must be a name or several, got 3"),
]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        *INVALID,
        ({"objective": "slowdown"}, "objectives: slowdown is simulated; use `allocate`"),
        ({"objective": {"slowdown": 1}}, "slowdown is simulated; use `allocate`"),
        ({"objective": "speed"}, "'speed' is not known; choose from "),
        ({"objective": "weighted sum"}, "'weighted sum' is not known"),
        ({"cushion_slots": 41}, "cushion_slots: 41 is more than any burst can grow"),
        ({"warm_start": "schedule.json"}, "warm_start: must be a Schedule, got str"),
    ],
)
def test_solve_refuses_invalid_arguments(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        solve(ALTERNATING, **{"time_limit": 1, **asked})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        *INVALID,
        (
            {"solver": lambda _: None},
            "solver: .* is not known; choose from auto, greedy, cpsat, mi",
        ),
        (
            {"objective": "contention"},
            "slowdown, lexicographic or completion, got 'con",
        ),
        ({"objective": ("slowdown", "wait")}, "got .slowdown,wait.; `solve` minimises others"),
        (
            {"objective": "delay"},
            "objectives: delay: slowdown or lexicographic comes",
        ),
        ({"objective": ("slowdown", "strict")}, "slowdown or lexicographic comes first"),
        ({"stretch_limit": -1}, "stretch_limit: must be at least 0, got '-1'"),
        ({"stretch_limit": "some"}, "stretch_limit: must be an exact number .* got 'some'"),
        ({"stretch_limit": 0.2}, r"stretch_limit: must be an exact number .* got 0\.2"),
        ({"max_loss": "-1%"}, "max_loss: must be at least 0, got '-1%'"),
        ({"network": "best"}, "network: 'best' is not known; choose from fair, tcp, weighted, str"),
    ],
)
def test_allocate_refuses_invalid_arguments(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        allocate(ALTERNATING, **{"time_limit": 1, **asked})
    assert "\n" not in str(refusal.value)


# ------------------------------------------------------------------ the problem


def test_problem_may_be_a_problem_or_a_file(tmp_path: Path) -> None:
    write_instance(two_jobs(), tmp_path / "two.json")
    expected = solve(two_jobs(), "greedy", "contention").offsets
    for problem in (tmp_path / "two.json", str(tmp_path / "two.json"), load(tmp_path / "two.json")):
        assert solve(problem, "greedy", "contention").offsets == expected
    assert solve("paper-24", "unshifted", "contention").instance.name == "paper-24"
    with pytest.raises(InputError, match="problem: must be an Instance"):
        solve(two_jobs().to_dict())  # type: ignore[arg-type]


def test_results_are_compared_and_simulated(tmp_path: Path) -> None:
    write_instance(two_jobs(), tmp_path / "two.json")
    result = solve(tmp_path / "two.json")
    table = compare([tmp_path / "two.json", result])
    assert list(table.index) == ["unshifted", "auto"]
    assert table.value["unshifted"] > table.value["auto"] == 0
    before, after = (
        simulate(each, iterations=20).jobs.iteration_mean_ms.sum()
        for each in (solve(two_jobs(), "unshifted"), result)
    )
    assert after < before
    with pytest.raises(InputError, match="policy: a result is simulated as it was"):
        simulate(result, "nearest")
    with pytest.raises(InputError, match="a policy places jobs of a scenario"):
        simulate(two_jobs(), "nearest")


# ------------------------------------------------------------------ stopping rules


@pytest.mark.slow
def test_iterations_limit_a_run_repeatably() -> None:
    first, again, longer = (
        solve(HARD, "local", "contention", stop=MaxIterations(n), time_limit=None, threads=1)
        for n in (20, 20, 60)
    )
    assert first.stop_reason is StopReason.RULE
    assert first.offsets == again.offsets
    assert [event.incumbent for event in first.trajectory] == [
        event.incumbent for event in longer.trajectory[: len(first.trajectory)]
    ]


def test_run_without_improvement_ends() -> None:
    seen: list[ProgressEvent] = []
    rules: list[StoppingRule] = [seen.append, NoImprovement(seconds=0.3)]
    result = solve(HARD, "local", "contention", stop=rules, time_limit=60, threads=1)
    assert result.stop_reason is StopReason.RULE
    assert seen[-1].stalled_s >= 0.3
    assert seen[-1].incumbent == result.value
    assert [event for event in seen if event.source] == list(result.trajectory)


def test_rules_are_plain_functions_of_an_event() -> None:
    event = ProgressEvent(2.0, Fraction(3), None, "x", iteration=10, stalled=4, stalled_s=1.5)
    assert [MaxRuntime(s)(event) for s in (2, 2.5)] == [True, False]
    assert [MaxIterations(n)(event) for n in (10, 11)] == [True, False]
    assert [NoImprovement(n)(event) for n in (4, 5)] == [True, False]
    assert [NoImprovement(seconds=s)(event) for s in (1.5, 2)] == [True, False]
    for rule, arguments in ((NoImprovement, ()), (NoImprovement, (-1,)), (MaxIterations, ("9",))):
        with pytest.raises(InputError, match=rule.__name__):
            rule(*arguments)


def test_rule_ends_a_run_of_several_objectives() -> None:
    def enough(event: ProgressEvent) -> bool:
        return event.incumbent is not None

    result = solve(HARD, objective=["contention", "wait"], stop=enough, time_limit=60, threads=1)
    assert result.stop_reason is StopReason.RULE
    assert not any(level.proved for level in result.levels)


# ------------------------------------------------------------------ solvers of others that fail


def raising(error: BaseException) -> Callable[[SolverRun], None]:
    def solver(_: SolverRun) -> None:
        raise error

    return solver


def offering(offsets: Any) -> Callable[[SolverRun], None]:
    def solver(search: SolverRun) -> None:
        search.offer(offsets)

    return solver


def bounding(bound: Any) -> Callable[[SolverRun], None]:
    def solver(search: SolverRun) -> None:
        search.raise_bound(bound)

    return solver


APART: Instance = network(job("a", 10, (0, 5, 60)), job("b", 10, (0, 5, 60)))
"""Two jobs that fit half a period apart, and nowhere else."""


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        (raising(ValueError("no\nidea")), "solver {} failed (ValueError: no idea)"),
        (raising(SystemExit(3)), "solver {} failed (SystemExit: 3)"),
        (offering("ab"), "'a' was offered for a, which is no offset"),
        (offering([float("nan")] * 2), "nan was offered for a, which is no offset"),
        (offering(None), "None was offered for 2 jobs"),
        (bounding(float("nan")), "nan was given as a lower bound"),
        (bounding("much"), "'much' was given as a lower bound"),
    ],
)
def test_solver_that_fails_is_an_error_that_keeps_its_schedule(fail: Any, said: str) -> None:
    with pytest.raises(SolverError) as refusal:
        solve(APART, fail, "contention")
    assert str(refusal.value) == said.format("solver")

    def later(search: SolverRun) -> None:
        search.offer([0, 4])
        fail(search)

    with pytest.raises(CustomSolverError) as failure:
        solve(APART, later, "contention")
    assert str(failure.value) == said.format("later")
    assert failure.value.__cause__ is not None
    result = failure.value.result
    assert result is not None
    assert result.offsets == {"a": 0, "b": 4}
    assert verify_schedule(APART, result.schedule) == ()


def test_false_bound_is_not_stated() -> None:
    # Bursts that meet in 1 of 10 slots leave 20 of 120 unserved there: a contention of 2.
    def before(search: SolverRun) -> None:
        search.raise_bound(Fraction(3))
        search.offer([0, 4])

    def after(search: SolverRun) -> None:
        search.offer([0, 4])
        search.raise_bound(Fraction(3))

    def above_unshifted(search: SolverRun) -> None:
        search.raise_bound(Fraction(11))

    for solver, value, source in ((before, 2, "before"), (after, 2, "after")):
        with pytest.raises(CustomSolverError) as failure:
            solve(APART, solver, "contention")
        said = f"{source}: 3 is no lower bound: a schedule of contention 2 was offered"
        assert str(failure.value) == said
        result = failure.value.result
        assert result is not None
        assert result.value == value
        assert result.bound is None
        assert verify_schedule(APART, result.schedule) == ()
    with pytest.raises(SolverError, match="11 is no lower bound: a schedule of contention 10 was"):
        solve(APART, above_unshifted, "contention")
