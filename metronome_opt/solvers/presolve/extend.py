"""Longer bursts and longer periods, before anything is solved."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance, Job, Phase


def extend_bursts(instance: Instance, slots: int) -> Instance:
    """Return the instance with every burst longer by some slots.

    A burst that grows into another one of its job does not add to it: the larger rate counts. One
    that grows beyond the end of the period goes on at its beginning, so a job must be stretched
    before its bursts are extended: afterwards its idle slots would come too late. No burst grows
    beyond a whole period.

    Raises
    ------
    InputError
        If `slots` is negative.
    """
    if slots < 0:
        raise InputError(f"cushion_slots: must be at least 0, got {quote(slots)}")
    if slots == 0:
        return instance
    return instance.replace(jobs=tuple(extended(job, slots) for job in instance.jobs))


def extended(job: Job, slots: int) -> Job:
    """Return a job with longer bursts; those may reach beyond its period, and go on within it."""
    ends = ((phase.end + slots) % job.period for phase in job.phases)
    changes = sorted({0, *(phase.start % job.period for phase in job.phases), *ends})

    def rate(slot: int) -> int:
        reaching = (
            phase.rate
            for phase in job.phases
            if (slot - phase.start) % job.period < phase.length + slots
        )
        return max(reaching, default=0)

    phases = []
    for level, pieces in itertools.groupby(
        itertools.pairwise([*changes, job.period]), key=lambda piece: rate(piece[0])
    ):
        run = list(pieces)
        start, end = run[0][0], run[-1][1]
        if level:
            phases.append(Phase(start=start, length=end - start, rate=level))
    return job.model_copy(update={"phases": tuple(phases)})


def stretched(instance: Instance, stretch: Mapping[str, int]) -> Instance:
    """Return the instance with its jobs stretched for good.

    They may not be stretched further, but for a job that runs now at an offset beyond its new
    period: it keeps as much stretch as makes that offset one of its own. It has to move, and this
    has to count.

    Raises
    ------
    InputError
        If a link's hyperperiod is above the limit of the instance then.
    """
    jobs = []
    for job in instance.jobs:
        period = job.period + stretch[job.name]
        beyond = 0 if job.current_offset is None else max(0, job.current_offset + 1 - period)
        jobs.append(job.model_copy(update={"period": period, "max_stretch": beyond}))
    return instance.replace(jobs=tuple(jobs))
