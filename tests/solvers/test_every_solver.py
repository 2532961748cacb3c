"""One suite over all solvers: what each states is true, exact ones find and prove the optimum."""

from __future__ import annotations

import sys
from fractions import Fraction
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

import metronome_opt
from metronome_opt import solve
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import ProgressEvent, StopReason
from metronome_opt.problem.schedule import Status
from metronome_opt.solvers import SOLVERS
from metronome_opt.solvers.imports import IMPORTS
from metronome_opt.verify import verify_schedule
from tests.builders import job, network
from tests.landscape import optimum
from tests.strategies import instances
from tests.tiers import examples

ALL = sorted(name for name in SOLVERS if name != "toulbar2" or find_spec("pytoulbar2"))
EXACT = sorted(name for name in ALL if SOLVERS[name].exact)


# Two bursts of 5 slots fill a period of 10 exactly: only offsets 5 apart are without contention.
TIGHT = network(job("a", 10, (0, 5, 60)), job("b", 10, (0, 5, 60)))
# Bursts of 3 with periods 4 and 6 meet whatever one does: 3 + 3 > gcd(4, 6).
CROWDED = network(job("a", 4, (0, 3, 60)), job("b", 6, (0, 3, 60), weight=4))


@pytest.mark.parametrize("name", ALL)
def test_packages_of_each_solver_are_imported(name: str) -> None:
    SOLVERS[name].import_packages()
    # toulbar2 is only looked for: it runs in a process of its own
    assert {*SOLVERS[name].packages} & {*IMPORTS} - {"pytoulbar2"} <= {*sys.modules}


@pytest.mark.parametrize("name", EXACT)
@given(instances(max_jobs=3, max_links=2, max_period=6, weights=(0, 1, 2, 4)))
@examples(15)
def test_exact_solvers_agree_with_enumeration(name: str, instance: Instance) -> None:
    result = solve(instance, name, threads=1)
    assert result.value == result.bound == optimum(instance)
    assert verify_schedule(instance, result.schedule) == ()


@given(instances(max_jobs=4, max_links=3, max_period=8), st.integers(0, 5))
@examples(30)
def test_heuristics_prove_only_zero(instance: Instance, seed: int) -> None:
    for name in sorted(set(ALL) - set(EXACT)):
        result = solve(instance, name, seed=seed)
        assert verify_schedule(instance, result.schedule) == ()
        # Contention is never negative, so 0 is a proof; nothing else is known.
        assert result.bound == (None if result.value else 0)


@pytest.mark.parametrize("name", ALL)
def test_same_seed_gives_same_schedule(name: str) -> None:
    first, second = (solve(CROWDED, name, seed=7, threads=1) for _ in range(2))
    assert first.offsets == second.offsets
    assert first.bound == second.bound


@pytest.mark.parametrize("name", ALL)
def test_trajectory_is_monotone_and_sent_to_callback(name: str) -> None:
    events: list[ProgressEvent] = []
    result = solve(CROWDED, name, threads=1, stop=events.append)
    events = [event for event in events if event.source]  # without those between
    assert tuple(events) == result.trajectory
    times = [event.elapsed_s for event in events]
    values = [event.incumbent for event in events if event.incumbent is not None]
    bounds = [event.bound for event in events if event.bound is not None]
    assert times == sorted(times)
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    assert values[-1] == result.value
    assert all(bound <= value for bound in bounds for value in values)


@pytest.mark.parametrize("name", ALL)
def test_time_limit_of_zero_gives_valid_schedule(name: str) -> None:
    result = solve(CROWDED, name, time_limit=0, threads=1)
    assert verify_schedule(CROWDED, result.schedule) == ()
    assert result.status is Status.FEASIBLE


@pytest.mark.parametrize("name", EXACT)
def test_callback_stops_run(name: str) -> None:
    result = solve(CROWDED, name, threads=1, stop=lambda _: True)
    assert result.stop_reason is StopReason.RULE
    assert result.status is Status.FEASIBLE
    assert len(result.trajectory) == 1


@pytest.mark.parametrize("name", ALL)
def test_latency_is_contention_of_equal_weights(name: str) -> None:
    # Heavy a and b lack 2 where they meet, light c lacks 51 where either of them is: contention
    # keeps a and b apart, latency puts them together.
    instance = network(
        job("a", 4, (0, 2, 51), weight=100),
        job("b", 4, (0, 2, 51), weight=100),
        job("c", 4, (0, 2, 100)),
    )
    result = metronome_opt.solve(instance, name, objective="latency", threads=1)
    best = Fraction(2 * 2, 102 + 102 + 200)
    assert verify_schedule(instance, result.schedule) == ()
    assert result.schedule.primary_objective == "latency"
    assert result.value is not None
    assert result.value >= best
    assert [level.value for level in result.levels] == [result.value]
    if name in EXACT:
        assert result.value == result.bound == best
        assert result.status is Status.OPTIMAL
