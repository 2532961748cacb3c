"""Coarser slots: the common divisor of everything that can be a boundary loses nothing.

Take an optimal schedule and let g divide all periods, burst boundaries and fixed offsets. Jobs
whose offsets agree modulo g form a class. Shift one class rigidly: as long as no boundary of it
meets one of another class, the contention changes linearly, so one of the two directions does no
harm. Go there until two classes agree. In the end all do, and, unless a fixed job already says so,
rotating everything brings them to 0 modulo g.
"""

from __future__ import annotations

import math

from metronome_opt.instance import Instance
from metronome_opt.presolve.reduction import Offsets, Reduction


def grid_of(instance: Instance) -> int:
    """Return the largest slot length, in slots, that loses nothing."""
    marks = []
    for job in instance.jobs:
        marks.append(job.period)
        marks += [mark for phase in job.phases for mark in (phase.start, phase.length)]
        if job.fixed_offset is not None:
            marks.append(job.fixed_offset)
    return math.gcd(*marks)


def coarsen(instance: Instance) -> Reduction:
    """Return the instance in slots of the grid; ready times and current offsets are left out."""
    grid = grid_of(instance)

    def restore(offsets: Offsets) -> dict[str, int]:
        return {name: offset * grid for name, offset in offsets.items()}

    jobs = tuple(
        job.model_copy(
            update={
                "period": job.period // grid,
                "phases": tuple(
                    phase.model_copy(
                        update={"start": phase.start // grid, "length": phase.length // grid}
                    )
                    for phase in job.phases
                ),
                "ready": 0,
                "max_stretch": 0,
                "fixed_offset": None if job.fixed_offset is None else job.fixed_offset // grid,
                "current_offset": None,
            }
        )
        for job in instance.jobs
    )
    return Reduction(instance.replace(jobs=jobs, slot_ms=instance.slot_ms * grid), restore)
