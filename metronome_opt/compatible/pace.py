"""Jobs that keep slots: the instance of them alone, at the periods that they keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from immutabledict import immutabledict

from metronome_opt.instance import Instance, Job
from metronome_opt.presolve.lengthen import lengthen


@dataclass(frozen=True)
class Kept:
    """A kept schedule: gated jobs that never ask a link for more than it carries.

    Attributes
    ----------
    periods
        From one slot of a gated job to its next, by name, in slots; at least its own period.
    offsets
        Of the same jobs.
    """

    periods: Mapping[str, int] = immutabledict()
    offsets: Mapping[str, int] = immutabledict()


def at_periods(instance: Instance, periods: Mapping[str, int], cushion_slots: int = 0) -> Instance:
    """Return the instance of some jobs at some periods, with longer bursts and weights of 1.

    Its contention is 0 exactly where the jobs fit.

    Parameters
    ----------
    periods
        By name; jobs that it does not name are left out. It must name at least one.
    """
    jobs = tuple(
        job.model_copy(update={"period": periods[job.name], "max_stretch": 0, "weight": 1})
        for job in instance.jobs
        if job.name in periods
    )
    return lengthen(instance.replace(jobs=jobs), cushion_slots)


def load(job: Job, period: int, cushion_slots: int = 0) -> Fraction:
    """Return what a flow of a job carries on average at a period, in Mbit/s.

    Where longer bursts grow into others of their job it is a lower bound.
    """
    phases = sorted(job.phases, key=lambda phase: phase.start)
    begins = [*(phase.start for phase in phases[1:]), period + phases[0].start]
    volume = sum(
        min(phase.length + cushion_slots, begin - phase.start) * phase.rate
        for phase, begin in zip(phases, begins, strict=True)
    )
    return Fraction(volume, period)
