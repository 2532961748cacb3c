"""Coarser slots: the common divisor of everything that can be a boundary loses nothing.

Count each job's offset from the beginning of its first burst, so that only lengths and distances
matter. Take an optimal schedule and let g divide all periods, distances of burst boundaries and
fixed offsets. Jobs whose offsets agree modulo g form a class. Shift one class rigidly: as long as
no boundary of it meets one of another class, the contention changes linearly, so one of the two
directions does no harm. Go there until two classes agree. In the end all do, and, unless a fixed
job already says so, rotating everything brings them to 0 modulo g.
"""

from __future__ import annotations

import math

from metronome_opt.instance import Instance, Job
from metronome_opt.presolve.reduction import Offsets, Reduction


def grid_of(instance: Instance) -> int:
    """Return the largest slot length, in slots, that loses nothing."""
    marks = []
    for job in instance.jobs:
        first = _first(job)
        marks.append(job.period)
        marks += [mark for phase in job.phases for mark in (phase.start - first, phase.length)]
        if job.fixed_offset is not None:
            marks.append(job.fixed_offset + first)
    return math.gcd(*marks)


def coarsen(instance: Instance) -> Reduction:
    """Return the instance in slots of the grid; ready times and current offsets are left out.

    Bursts are moved so that the first one of each job begins with its period.
    """
    grid = grid_of(instance)
    jobs = tuple(_coarse(job, grid) for job in instance.jobs)

    def restore(offsets: Offsets) -> dict[str, int]:
        return {
            job.name: (offsets[job.name] * grid - _first(job)) % job.period for job in instance.jobs
        }

    return Reduction(instance.replace(jobs=jobs, slot_ms=instance.slot_ms * grid), restore)


def _coarse(job: Job, grid: int) -> Job:
    first = _first(job)
    fixed = job.fixed_offset
    return job.model_copy(
        update={
            "period": job.period // grid,
            "phases": tuple(
                phase.model_copy(
                    update={
                        "start": (phase.start - first) // grid,
                        "length": phase.length // grid,
                    }
                )
                for phase in job.phases
            ),
            "ready": 0,
            "max_stretch": 0,
            "fixed_offset": None if fixed is None else (fixed + first) % job.period // grid,
            "current_offset": None,
        }
    )


def _first(job: Job) -> int:
    """Return where the first burst of a job begins, in slots of its period."""
    return min(phase.start for phase in job.phases)
