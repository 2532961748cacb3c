"""Every combination of offsets: slow, plain, the judge of the other solvers in tests."""

from __future__ import annotations

import numpy as np

from metronome_opt.kernels.jobs import contention, put_job, score_job, workspace
from metronome_opt.solvers.search import Search


def run(search: Search) -> None:
    """Try every combination of the free jobs' offsets; without a time limit this is a proof.

    No symmetry is used. The last job is scored at all its offsets at once.
    """
    compiled = search.compiled
    tables = compiled.tables
    jobs = search.instance.jobs
    offsets = [job.unshifted for job in jobs]
    search.offer(offsets, "exhaustive")
    free = [index for index, job in enumerate(jobs) if job.fixed_offset is None]
    demand = compiled.empty_demand()
    for index, job in enumerate(jobs):
        if job.fixed_offset is not None:
            put_job(tables, demand, index, job.fixed_offset, 1)
    if not free:
        search.raise_bound(contention(compiled, demand), "exhaustive")
        return
    *outer, last = free
    work = workspace(compiled)
    period = jobs[last].period
    cost, room = np.empty(period, dtype=np.int64), np.empty(period, dtype=np.int64)

    def visit(depth: int) -> None:
        if search.stopped:
            return
        if depth < len(outer):
            job = outer[depth]
            for offset in range(jobs[job].period):
                put_job(tables, demand, job, offset, 1)
                offsets[job] = offset
                visit(depth + 1)
                put_job(tables, demand, job, offset, -1)
            return
        score_job(tables, demand, last, cost, room, work, False)
        best = int(cost.argmin())
        value = contention(compiled, demand) + compiled.fraction(int(cost[best]), last)
        if search.incumbent is None or value < search.incumbent:
            offsets[last] = best
            search.offer(offsets, "exhaustive")

    visit(0)
    if not search.stopped and search.incumbent is not None:
        search.raise_bound(search.incumbent, "exhaustive")
