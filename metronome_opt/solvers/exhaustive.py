"""Every combination of offsets: slow, plain, the judge of the other solvers in tests."""

from __future__ import annotations

import numpy as np

from metronome_opt.kernels.jobs import contention, put_job, score_job
from metronome_opt.kernels.tables import Compiled, State
from metronome_opt.solvers.search import Search


def run(search: Search) -> None:
    """Try every combination of the free jobs' offsets; without a time limit this is a proof.

    No symmetry is used. The last job is scored at all its offsets at once.
    """
    compiled = search.compiled
    jobs = search.instance.jobs
    offsets = [job.unshifted for job in jobs]
    search.offer(offsets, "exhaustive")
    free = [index for index, job in enumerate(jobs) if job.fixed_offset is None]
    state = compiled.empty()
    for index, job in enumerate(jobs):
        if job.fixed_offset is not None:
            put_job(state, index, job.fixed_offset, 1)
    if not free:
        search.raise_bound(contention(compiled, state), "exhaustive")
        return
    *outer, last = free
    period = jobs[last].period
    cost = np.empty(period, dtype=np.int64)
    for index in outer:
        offsets[index] = 0
        put_job(state, index, 0, 1)
    more = True
    while more and not search.stopped:
        score_job(state, last, cost)
        best = int(cost.argmin())
        value = contention(compiled, state) + compiled.fraction(int(cost[best]), last)
        if search.incumbent is None or value < search.incumbent:
            offsets[last] = best
            search.offer(offsets, "exhaustive")
        more = _advance(compiled, state, offsets, outer)
    if not more and search.incumbent is not None:
        search.raise_bound(search.incumbent, "exhaustive")


def _advance(compiled: Compiled, state: State, offsets: list[int], outer: list[int]) -> bool:
    """Move on to the next combination, like an odometer; return False after the last one."""
    for job in reversed(outer):
        put_job(state, job, offsets[job], -1)
        offsets[job] = (offsets[job] + 1) % compiled.instance.jobs[job].period
        put_job(state, job, offsets[job], 1)
        if offsets[job]:
            return True
    return False
