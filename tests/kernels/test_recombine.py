"""Children of two schedules have their offsets from one or, turned, from the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.kernels.perturb import recombine
from tests.kernels.schedules import Scheduled, scheduled, schedules


def other_of(case: Scheduled, seed: int) -> np.ndarray:
    offsets = case.offsets.copy()
    free = case.around.free
    offsets[free] = np.random.default_rng(seed).integers(0, case.compiled.tables.period[free])
    return offsets


@given(schedules(), st.integers(0, 99))
@settings(max_examples=60)
def test_without_turning_every_offset_is_that_of_a_parent(case: Scheduled, seed: int) -> None:
    one, other = case.offsets, other_of(case, seed)
    period = case.compiled.tables.period
    generator = np.random.default_rng(seed)
    child = recombine(period, case.around, one, other, False, generator)
    assert ((child == one) | (child == other)).all()


@given(schedules(), st.integers(0, 99))
@settings(max_examples=60)
def test_children_are_schedules(case: Scheduled, seed: int) -> None:
    period = case.compiled.tables.period
    generator = np.random.default_rng(seed)
    child = recombine(period, case.around, case.offsets, other_of(case, seed), True, generator)
    assert ((child >= 0) & (child < period)).all()
    fixed = sorted(set(range(len(child))) - set(case.around.free))
    assert (child[fixed] == case.offsets[fixed]).all()


def test_a_schedule_recombined_with_itself_turned_is_itself() -> None:
    periods = (20, 30, 60, 60, 12)
    burst = Phase(start=0, length=5, rate=60)
    jobs = tuple(
        Job(name=f"j{index}", period=period, phases=(burst,), links={"l": 1})
        for index, period in enumerate(periods)
    )
    links = (Link(name="l", capacity=100),)
    instance = Instance(name="ring", slot_ms=1, links=links, jobs=jobs)
    offsets = np.array([3, 14, 15, 40, 2])
    case = scheduled(instance, offsets)
    for turn in (1, 17, 59):
        turned = (offsets + turn) % np.array(periods)
        for seed in range(10):
            generator = np.random.default_rng(seed)
            period = case.compiled.tables.period
            child = recombine(period, case.around, offsets, turned, True, generator)
            assert (child == offsets).all()
