"""The rotation heuristic: heaviest first, each job to its cheapest offset; the baseline.

It is what the Kubernetes proposal (scheduler-plugins issue 955) does when it scores rotations of a
new pod against what runs, applied to all jobs at once.
"""

from __future__ import annotations

from fractions import Fraction

from metronome_opt.kernels.jobs import best_offset, put_job, workspace
from metronome_opt.solvers.search import Search


def run(search: Search) -> None:
    """Offer the greedy schedule; jobs not reached within the time limit start when ready."""
    search.offer(construct(search), "greedy")


def construct(search: Search) -> list[int]:
    """Return the greedy offsets: ties go to the larger cushion, then to the shorter wait."""
    compiled = search.compiled
    tables = compiled.tables
    demand = compiled.empty_demand()
    work = workspace(compiled)
    offsets = [job.unshifted for job in search.instance.jobs]
    for job in order(search):
        free = search.instance.jobs[job].fixed_offset is None
        if free and not search.stopped:
            offsets[job] = best_offset(tables, demand, job, work)[0]
        put_job(tables, demand, job, offsets[job], 1)
    return offsets


def order(search: Search) -> list[int]:
    """Return the jobs: fixed ones, then by weight, then by traffic, largest first."""
    jobs = search.instance.jobs

    def key(index: int) -> tuple[bool, int, Fraction, int]:
        job = jobs[index]
        traffic = Fraction(sum(job.links.values()) * job.volume, job.period)
        return job.fixed_offset is None, -job.weight, -traffic, index

    return sorted(range(len(jobs)), key=key)
