"""Local search: never worse than its start, repeatable, in time, and as a rule optimal if small."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import solve
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers import local
from metronome_opt.solvers.run import SolverRun
from metronome_opt.verify import evaluate, verify_schedule
from tests.builders import evaluation_of, job, network, tangle
from tests.landscape import optimum
from tests.strategies import instances
from tests.tiers import examples

VARIED = instances(max_jobs=5, max_links=3, weights=(0, 1, 2, 4))


def search_of(instance: Instance, *, time_limit: float | None = None, seed: int = 0) -> SolverRun:
    return SolverRun(instance, time_limit=time_limit, seed=seed, threads=1)


@given(VARIED, st.integers(0, 9))
@examples(40)
def test_local_search_is_no_worse_than_greedy(instance: Instance, seed: int) -> None:
    result = solve(instance, "local", seed=seed)
    assert verify_schedule(instance, result.schedule) == ()
    assert evaluation_of(result).contention <= evaluation_of(solve(instance, "greedy")).contention
    for each in instance.jobs:
        assert each.fixed_offset in (None, result.offsets[each.name])


@pytest.mark.parametrize("seed", range(25))
def test_small_instances_are_solved(seed: int) -> None:
    instance = tangle(4, 3, seed, periods=(6, 8, 12), lengths=(2, 5), each=3)
    assert optimum(instance) > 0
    assert solve(instance, "local", seed=seed).value == optimum(instance)


@pytest.mark.parametrize("time_limit", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("jobs", [6, 300])
def test_local_search_ends_in_time(jobs: int, time_limit: float) -> None:
    instance = tangle(jobs, 3 * jobs // 4, 2, periods=(400, 600, 1200), lengths=(100, 300))
    search = search_of(instance, time_limit=time_limit)
    began = time.perf_counter()
    local.run(search)
    assert time.perf_counter() - began < time_limit + 20  # generous: the machine may be busy
    assert jobs == 6 or search.stop is StopReason.TIME_LIMIT
    named = search.offsets_by_job()
    assert named is not None
    assert evaluate(instance, named).contention == search.incumbent


def test_local_search_without_movable_jobs() -> None:
    search = search_of(network(*(job(name, 6, (0, 4, 60), fixed_offset=0) for name in "ab")))
    assert local.begin(search) is None  # no incumbent
    local.run(search)
    assert local.begin(search) is None  # no job that may move
    assert search.incumbent == Fraction(4 * 20, 6)
