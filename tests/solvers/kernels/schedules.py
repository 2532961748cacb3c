"""Schedules as the kernels have them, for the tests of what moves jobs about."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.kernels.compiled_instance import (
    CompiledInstance,
    DemandState,
    Ints,
    compile_instance,
)
from metronome_opt.solvers.kernels.jobs import state_of
from metronome_opt.solvers.kernels.local_search import Neighbours, neighbours_of
from metronome_opt.verify import evaluate
from tests.strategies import assigned, instances


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
