"""The default: greedy, improved job by job, then CP-SAT from there for the rest and the proof."""

from __future__ import annotations

import numpy as np

from metronome_opt.kernels.jobs import demand_of, descend, workspace
from metronome_opt.solvers import cpsat, greedy
from metronome_opt.solvers.search import Search


def run(search: Search) -> None:
    """Offer the greedy schedule, a local optimum, and what CP-SAT finds in the time left."""
    greedy.run(search)
    if search.stopped or search.best is None:
        return
    search.offer(_local_optimum(search), "descent")
    if not search.stopped:
        cpsat.run(search, start=search.best)


def _local_optimum(search: Search) -> list[int]:
    """Move one job at a time to a cheaper offset until none is left that gains."""
    compiled = search.compiled
    offsets = np.array(search.best, dtype=np.int64)
    demand = demand_of(compiled, offsets)
    free = [i for i, job in enumerate(search.instance.jobs) if job.fixed_offset is None]
    order = np.array(free, dtype=np.int64)
    work = workspace(compiled)
    while not search.stopped and descend(compiled.tables, demand, offsets, order, work)[0]:
        pass
    return [int(offset) for offset in offsets]
