"""Objectives in order, against the judge's word on every schedule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import solve
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import Status
from metronome_opt.solvers.presolve.extend import extend_bursts
from metronome_opt.verify import verify_schedule
from tests.builders import job, network
from tests.solvers.multiobjective.enumeration import (
    ORDERS,
    contested,
    costs,
    every,
    final,
    in_order,
)
from tests.tiers import examples


@given(contested(), ORDERS)
@examples(60)
def test_lexicographic_order_is_optimal(instance: Instance, names: list[str]) -> None:
    result = solve(instance, objective=names, threads=1)
    assert [level.name for level in result.levels] == names
    assert costs(result.levels) == final(result, names) == in_order(every(instance), names)
    assert all(level.proved for level in result.levels)
    assert result.stop_reason is StopReason.PROVED
    assert verify_schedule(instance, result.schedule) == ()
    # Only a cushion without limit is a value that no bound can meet.
    assert (result.status is Status.OPTIMAL) == (result.value is not None)


@given(contested(most_schedules=80), ORDERS, st.integers(1, 3))
@examples(30)
def test_reserve_is_that_of_longer_bursts(
    instance: Instance, names: list[str], wanted: int
) -> None:
    slots = min(wanted, max(each.period for each in instance.jobs))
    result = solve(instance, objective=names, cushion_slots=slots, threads=1)
    assert costs(result.levels) == in_order(every(instance, cushion_slots=slots), names)
    longer = solve(extend_bursts(instance, slots), objective=names, threads=1)
    assert [level.value for level in result.levels] == [level.value for level in longer.levels]
    assert result.schedule.cushion_slots == slots
    assert verify_schedule(instance, result.schedule) == ()


@pytest.mark.parametrize("solver", ["greedy", "cpsat", "local", "branch-bound"])
def test_solvers_hold_contention_and_minimise_latency(solver: str) -> None:
    names = ["contention", "latency"]
    instance = network(
        job("a", 4, (0, 3, 60)), job("b", 6, (0, 3, 60), weight=4), job("c", 6, (1, 2, 70))
    )
    best = in_order(every(instance), names)
    result = solve(instance, solver, objective=names, threads=1)
    assert verify_schedule(instance, result.schedule) == ()
    assert [level.name for level in result.levels] == names
    if solver in ("cpsat", "branch-bound"):
        assert [level.value for level in result.levels] == best
        assert all(level.proved for level in result.levels)
    else:
        assert costs(result.levels)[0] >= best[0]
        assert not any(level.proved for level in result.levels)
    assert costs(result.levels) == final(result, names)
