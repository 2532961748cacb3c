"""Solvers of others: functions, and entry points of packages that are installed beside this one."""

from __future__ import annotations

import traceback

import pytest

import metronome_opt
from metronome_opt import solve
from metronome_opt.errors import InputError, SolverError
from metronome_opt.problem.result import CustomSolverError, StopReason
from metronome_opt.problem.schedule import Status
from metronome_opt.solvers import SolverRun
from metronome_opt.solvers.registry import Solver
from metronome_opt.verify import verify_schedule
from tests.builders import hard_instance, two_jobs


def half(search: SolverRun) -> None:
    """Let every second job begin half a period later."""
    search.offer([job.period // 2 * (index % 2) for index, job in enumerate(search.instance.jobs)])


@pytest.mark.parametrize("objective", ["contention", "latency"])
def test_function_is_solver(objective: str) -> None:
    result = metronome_opt.solve(hard_instance(4, 2), half, objective=[objective], threads=1)
    assert verify_schedule(result.instance, result.schedule) == ()
    assert result.schedule.solver == "half"
    assert result.schedule.primary_objective == objective
    assert result.status is Status.FEASIBLE


def test_met_bound_is_proof() -> None:
    best = solve(hard_instance(3, 2), threads=1).value
    assert best is not None

    def informed(search: SolverRun) -> None:
        search.raise_bound(best)
        for offset in range(search.instance.jobs[1].period):
            for other in range(search.instance.jobs[2].period):
                search.offer([0, offset, other])
                if search.stopped:
                    return

    result = solve(hard_instance(3, 2), informed)
    assert result.stop_reason is StopReason.PROVED
    assert result.trajectory[0].source == "informed"
    assert result.schedule.lower_bound == best


@pytest.mark.parametrize("offsets", [[0], [0, -1], [0, 10**9], [0, 0.5], [0, 0, 0]])
def test_invalid_offer_is_refused(offsets: list[int]) -> None:
    with pytest.raises(SolverError, match="offered for"):
        solve(two_jobs(), lambda search: search.offer(offsets))


def half_then_fails(search: SolverRun) -> None:
    half(search)
    raise KeyError("table")


@pytest.mark.parametrize("objective", ["contention", "latency"])
def test_what_was_found_before_an_exception_is_kept(objective: str) -> None:
    instance = hard_instance(4, 2)
    with pytest.raises(CustomSolverError, match=r"solver half_then_fails failed \(KeyError") as end:
        metronome_opt.solve(instance, half_then_fails, objective, threads=1)
    assert isinstance(end.value, SolverError)
    assert isinstance(end.value.__cause__, KeyError)
    frames = traceback.extract_tb(end.value.__cause__.__traceback__)
    assert frames[-1].name == "half_then_fails"
    result = end.value.result
    assert result is not None
    assert result.stop_reason is StopReason.ERROR
    assert verify_schedule(result.instance, result.schedule) == ()
    assert result.offsets == solve(instance, half, objective=[objective]).offsets


def test_exception_before_any_schedule_has_no_result() -> None:
    with pytest.raises(CustomSolverError, match="ZeroDivisionError") as end:
        solve(two_jobs(), lambda _: 1 / 0)
    assert end.value.result is None
    assert isinstance(end.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("where", ["no_such_package:run", "metronome_opt.solvers.greedy:nothing"])
def test_missing_plugin_is_one_line_error(where: str) -> None:
    with pytest.raises(InputError, match=f"solver: 'toy': {where} cannot be loaded .*; mend"):
        solve(two_jobs(), Solver("toy", "a plug-in", where))
