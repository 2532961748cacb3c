"""Annealing draws offsets from the distribution that it claims to draw from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.kernels.perturb import anneal, gumbel_noise, spreads
from tests.kernels.schedules import Scheduled, scheduled, schedules


def draw_on(
    case: Scheduled, temperature: float, cooling: float, generator: np.random.Generator, steps: int
) -> float:
    longest = int(case.compiled.tables.period.max())
    return anneal(
        case.compiled.tables,
        case.demand,
        case.offsets,
        case.around.free,
        np.ones(len(case.offsets)),
        temperature,
        cooling,
        gumbel_noise(np.random.default_rng(1), longest),
        generator,
        steps,
        case.work,
    )


@given(schedules(), st.integers(0, 60), st.floats(0, 1000), st.integers(0, 99))
@settings(max_examples=60)
def test_demand_and_offsets_stay_together(
    case: Scheduled, steps: int, temperature: float, seed: int
) -> None:
    before = case.offsets.copy()
    reached = draw_on(case, temperature, 0.9, np.random.default_rng(seed), steps)
    case.check(before)
    assert reached == pytest.approx(temperature * 0.9**steps)


def two_jobs() -> Scheduled:
    """Make a job that is fixed and one that meets it in 0 to 2 of 6 slots."""
    burst = Phase(start=0, length=2, rate=60)
    fixed = Job(name="a", period=6, phases=(burst,), links={"l": 1}, fixed_offset=0)
    free = Job(name="b", period=6, phases=(burst,), links={"l": 1})
    links = (Link(name="l", capacity=100),)
    instance = Instance(name="two", slot_ms=1, links=links, jobs=(fixed, free))
    return scheduled(instance, np.zeros(2, dtype=np.int64))


def test_offsets_come_from_the_boltzmann_distribution() -> None:
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
    found = spreads(case.compiled.tables, case.demand, case.offsets, case.around.free, case.work)
    assert found == pytest.approx([np.std([2, 1, 0, 0, 0, 1])])
    case.check(case.offsets)
