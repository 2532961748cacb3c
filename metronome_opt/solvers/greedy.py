"""Constructive heuristics: unshifted, random, and the rotation heuristic.

The heuristic, highest weight first, every job at its cheapest offset, is the baseline: what the
Kubernetes proposal (scheduler-plugins issue 955) does when it scores rotations of a new pod against
what runs, applied to all jobs at once.
"""

from __future__ import annotations

import random
from fractions import Fraction

from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.kernels.jobs import best_offset, put_job
from metronome_opt.solvers.run import SolverRun


def unshifted(search: SolverRun) -> None:
    """Offer the schedule in which every job starts when it is ready."""
    search.offer([job.unshifted for job in search.instance.jobs], "unshifted")


def draw(search: SolverRun) -> None:
    """Offer one schedule drawn uniformly, by the seed."""
    generator = random.Random(search.seed)  # noqa: S311 (not for cryptography)
    offsets = [
        generator.randrange(job.period) if job.fixed_offset is None else job.fixed_offset
        for job in search.instance.jobs
    ]
    search.offer(offsets, "random")


def run(search: SolverRun) -> None:
    """Offer the greedy schedule: ties go to the larger cushion, then to the shorter wait.

    Any time is enough; without any, or after Ctrl-C, jobs start when ready.
    """
    state = search.compiled.empty()
    offsets = [job.unshifted for job in search.instance.jobs]
    for job in _order(search.instance):
        if search.instance.jobs[job].fixed_offset is None and not search.barred:
            offsets[job] = best_offset(state, job)[0]
        put_job(state, job, offsets[job], 1)
    search.offer(offsets, "greedy")


def _order(instance: Instance) -> list[int]:
    """Return the jobs: fixed ones, then by weight, then by traffic, largest first."""
    jobs = instance.jobs

    def key(index: int) -> tuple[bool, int, Fraction, int]:
        job = jobs[index]
        traffic = Fraction(sum(job.links.values()) * job.volume, job.period)
        return job.fixed_offset is None, -job.weight, -traffic, index

    return sorted(range(len(jobs)), key=key)
