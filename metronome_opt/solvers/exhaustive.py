"""Every combination of offsets: slow, plain, the judge of the other solvers in tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from metronome_opt.kernels.jobs import contention, put_job, score_job, state_of
from metronome_opt.solvers.search import Search


def run(search: Search) -> None:
    """Try every combination of the free jobs' offsets; without a time limit this is a proof.

    No symmetry is used. The last job is scored at all its offsets at once.
    """
    compiled, jobs = search.compiled, search.instance.jobs
    best = search.offer([job.unshifted for job in jobs], "exhaustive")
    choices: list[Sequence[int]] = [
        range(job.period) if job.fixed_offset is None else (job.fixed_offset,) for job in jobs
    ]
    last = max((index for index, job in enumerate(jobs) if job.fixed_offset is None), default=0)
    offsets = np.array(choices[last])
    choices[last] = choices[last][:1]
    cost = np.empty(jobs[last].period, dtype=np.int64)
    for chosen in product(*choices):
        if search.stopped:
            return
        state = state_of(compiled, chosen)
        put_job(state, last, chosen[last], -1)
        score_job(state, last, cost)
        offset = int(offsets[cost[offsets].argmin()])
        value = contention(compiled, state) + compiled.fraction(int(cost[offset]), last)
        if value < best:
            best = search.offer([*chosen[:last], offset, *chosen[last + 1 :]], "exhaustive")
    search.raise_bound(best, "exhaustive")
