"""Local search: what is drawn, and the running value of a walk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.kernels.compiled_instance import (
    CompiledInstance,
    DemandState,
    Ints,
    compile_instance,
)
from metronome_opt.solvers.kernels.jobs import state_of
from metronome_opt.solvers.kernels.local_search import (
    BEST,
    VALUE,
    WAITING,
    Neighbours,
    Walk,
    anneal,
    gumbel_noise,
    neighbours_of,
    no_kicks,
    spreads,
    start_walk,
    take_steps,
)
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.strategies import assigned, instances
from tests.tiers import examples


class Scheduled(NamedTuple):
    """An instance, compiled with a common scale, with offsets and their state."""

    instance: Instance
    compiled: CompiledInstance
    around: Neighbours
    offsets: Ints
    state: DemandState

    @property
    def periods(self) -> Ints:
        return np.array([job.period for job in self.instance.jobs])

    def scaled(self) -> int:
        """Return the contention of the offsets as the judge has it, in the kernels' scale."""
        names = [job.name for job in self.instance.jobs]
        offsets = dict(zip(names, map(int, self.offsets), strict=True))
        value = evaluate(self.instance, offsets).contention
        in_units = value / self.compiled.unit * int(self.compiled.tables.jobs["scale"][0])
        assert in_units.denominator == 1
        return int(in_units)

    def check(self, before: Ints) -> None:
        """Assert that the demand is that of the offsets, and that fixed jobs did not move."""
        assert (self.state.demand == state_of(self.compiled, self.offsets).demand).all()
        moved = set(np.flatnonzero(self.offsets != before))
        assert moved <= set(self.around.free)


def scheduled(instance: Instance, offsets: Ints) -> Scheduled:
    compiled = compile_instance(instance, common_scale=True)
    state = state_of(compiled, offsets)
    return Scheduled(instance, compiled, neighbours_of(compiled), offsets.copy(), state)


@st.composite
def schedules(draw: st.DrawFn, max_jobs: int = 6) -> Scheduled:
    """Draw schedules with some job to move; some jobs are fixed, some weigh nothing."""
    some = instances(max_jobs=max_jobs, max_links=3, weights=(0, 1, 2, 4))
    instance, offsets = draw(assigned(some))
    case = scheduled(instance, np.array(list(offsets.values()), dtype=np.int64))
    assume(len(case.around.free))
    return case


def draw_on(
    case: Scheduled, temperature: float, cooling: float, generator: np.random.Generator, steps: int
) -> float:
    return anneal(
        case.state,
        case.offsets,
        case.around.free,
        np.ones(len(case.offsets)),
        temperature,
        cooling,
        gumbel_noise(np.random.default_rng(1), int(case.periods.max())),
        generator,
        steps,
    )


@pytest.mark.slow
@given(schedules(), st.integers(0, 60), st.floats(0, 1000), st.integers(0, 99))
@examples(60)
def test_demand_and_offsets_stay_consistent(
    case: Scheduled, steps: int, temperature: float, seed: int
) -> None:
    before = case.offsets.copy()
    reached = draw_on(case, temperature, 0.9, np.random.default_rng(seed), steps)
    case.check(before)
    assert reached == pytest.approx(temperature * 0.9**steps)


def two_jobs() -> Scheduled:
    """Make a job that is fixed and one that meets it in 0 to 2 of 6 slots."""
    instance = network(job("a", 6, (0, 2, 60), fixed_offset=0), job("b", 6, (0, 2, 60)))
    return scheduled(instance, np.zeros(2, dtype=np.int64))


@pytest.mark.slow
def test_offsets_have_boltzmann_distribution() -> None:
    case = two_jobs()
    # Overlaps of 2, 1, 0, 0, 0, 1 slots, 20 unserved in each; the unit is gcd(60, 100) = 20.
    cost = np.array([2, 1, 0, 0, 0, 1])
    temperature, draws = 1.5, 20_000
    expected = np.exp(-cost / temperature)
    expected /= expected.sum()
    generator = np.random.default_rng(0)
    counts = np.zeros(6)
    for _ in range(draws):
        draw_on(case, temperature, 1.0, generator, 1)
        counts[case.offsets[1]] += 1
    assert counts / draws == pytest.approx(expected, abs=0.02)


def test_spreads_are_standard_deviations() -> None:
    case = two_jobs()
    found = np.empty(len(case.around.free))
    spreads(case.state, case.offsets, case.around.free, found)
    assert found == pytest.approx([np.std([2, 1, 0, 0, 0, 1])])
    case.check(case.offsets)


def walk_on(case: Scheduled, walk: Walk, generator: np.random.Generator, steps: int) -> None:
    tolerance = np.full(len(case.offsets), 50.0)
    take_steps(
        case.state,
        case.offsets,
        case.around,
        walk,
        tolerance,
        generator,
        steps,
    )


@given(schedules(), st.lists(st.integers(0, 40), max_size=5), st.integers(0, 99))
@examples(60)
def test_running_value_matches_evaluate(case: Scheduled, parts: list[int], seed: int) -> None:
    before, value = case.offsets.copy(), case.scaled()
    walk, generator = start_walk(case.offsets, case.around, no_kicks()), np.random.default_rng(seed)
    for steps in parts:
        walk_on(case, walk, generator, steps)
        case.check(before)
        assert case.scaled() == value + walk.counters[VALUE]
        assert scheduled(case.instance, walk.best).scaled() == value + walk.counters[BEST]
        assert walk.counters[BEST] <= 0


@pytest.mark.slow
@given(schedules())
@examples(40)
def test_walk_settles_first(case: Scheduled) -> None:
    walk, generator = start_walk(case.offsets, case.around, no_kicks()), np.random.default_rng(0)
    while walk.counters[WAITING]:
        walk_on(case, walk, generator, 1)
    value = case.scaled()
    for free in case.around.free:  # no job alone can do better
        for offset in range(case.instance.jobs[free].period):
            moved = case.offsets.copy()
            moved[free] = offset
            assert scheduled(case.instance, moved).scaled() >= value
