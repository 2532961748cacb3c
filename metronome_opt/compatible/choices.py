"""Problems of compatible jobs: choices with costs, and solutions.

A job keeps slots of a period, or runs freely. Jobs fit if those that keep slots never ask a link
for more than it carries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance, Job
from metronome_opt.kernels.tables import CostTooLargeError
from metronome_opt.presolve.extend import extend_bursts
from metronome_opt.records import FrozenDict
from metronome_opt.result import Stop
from metronome_opt.solvers.budget import Budget

_MAX_CHOICES = 200_000  # in all
_LARGEST_SUM = 2**60  # of bandwidths


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

    periods: Mapping[str, int] = FrozenDict()
    offsets: Mapping[str, int] = FrozenDict()


@dataclass(frozen=True)
class PeriodChoice:
    """One thing that a job may do.

    Attributes
    ----------
    period
        Of the slots that it keeps; None for running freely.
    cost
        What it adds to the value.
    """

    period: int | None
    cost: Fraction


Choices = Mapping[str, tuple[PeriodChoice, ...]]
"""For each job what it may do, the cheapest first."""


class Reason(StrEnum):
    """Reason why jobs do not fit."""

    PAIR = "bursts of the two meet at all offsets"
    LOAD = "their bursts are more than a link carries, whenever they come"
    HYPERPERIOD = "the common multiple of the periods is above the limit of the instance"
    SEARCH = "all offsets were searched"


@dataclass(frozen=True)
class Refutation:
    """Jobs that do not fit at their periods, and none of them may be left out of the reason.

    Attributes
    ----------
    periods
        The jobs, and the periods that they were to keep.
    """

    reason: Reason
    periods: Mapping[str, int]

    def __str__(self) -> str:
        return f"{', '.join(f'{name} at {p}' for name, p in self.periods.items())}: {self.reason}"


@dataclass(frozen=True)
class FitDecision:
    """The answer: offsets or a refutation; neither if the time was over.

    Attributes
    ----------
    stop
        Why the solver ended.
    """

    offsets: Mapping[str, int] | None = None
    refutation: Refutation | None = None
    stop: Stop = Stop.FINISHED


@dataclass(frozen=True)
class Chosen:
    """Solution of a choice problem, and its proved bound.

    Attributes
    ----------
    kept
        The jobs that keep slots; None if no choices were found at which they fit.
    cost
        Of the choices, None without any.
    bound
        Proved lower bound of the cost; None if it is proved that nothing fits.
    refutations
        Why nothing cheaper fits: each says that its jobs do not fit.
    stop
        Why the solver ended.
    """

    kept: Kept | None
    cost: Fraction | None
    bound: Fraction | None
    refutations: tuple[Refutation, ...] = ()
    stop: Stop = Stop.FINISHED

    @property
    def proved(self) -> bool:
        """True if nothing is cheaper, or nothing fits at all."""
        return self.bound is None or self.cost == self.bound


@dataclass
class FitTask:
    """The question put to a solver, and what it may take to answer it.

    Bandwidths are in units that fit 64-bit integers.
    """

    instance: Instance
    cushion_slots: int = 0
    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        self.instance = in_units(self.instance)


def in_units(instance: Instance) -> Instance:
    """Return an instance whose sums of bandwidths are far below 2**63.

    Where they are not, bandwidths are divided by their greatest common divisor.

    Raises
    ------
    CostTooLargeError
        If that does not do.
    """
    worst, link = _largest_sum(instance)
    if worst < _LARGEST_SUM:
        return instance
    rates = (phase.rate for job in instance.jobs for phase in job.phases)
    unit = math.gcd(*rates, *(each.capacity for each in instance.links))
    if worst // unit >= _LARGEST_SUM:
        raise CostTooLargeError(
            f"links: capacity and peaks on {quote(link)} add up to {quote(worst)}, which does not "
            "fit 64-bit integers; use rates and capacities with a larger common divisor"
        )
    return instance.replace(
        links=tuple(
            each.model_copy(update={"capacity": each.capacity // unit}) for each in instance.links
        ),
        jobs=tuple(
            job.model_copy(
                update={
                    "phases": tuple(
                        phase.model_copy(update={"rate": phase.rate // unit})
                        for phase in job.phases
                    )
                }
            )
            for job in instance.jobs
        ),
    )


def _largest_sum(instance: Instance) -> tuple[int, str]:
    """Return the largest sum of a link's capacity and the peaks of its jobs, and the link."""
    sums = [(0, "")]
    for link in instance.links:
        users = (instance.jobs[index] for index in instance.jobs_on[link.name])
        sums.append((link.capacity + sum(j.peak * j.links[link.name] for j in users), link.name))
    return max(sums)


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
    return extend_bursts(instance.replace(jobs=jobs), cushion_slots)


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


def largest_set(instance: Instance) -> Choices:
    """Problem (b): jobs keep their own periods, or are left out at the cost of their weight."""
    return {
        job.name: (PeriodChoice(job.period, Fraction(0)), PeriodChoice(None, Fraction(job.weight)))
        for job in instance.jobs
    }


def least_stretch(instance: Instance, limit: Fraction | None = None) -> Choices:
    """Problem (c): every job keeps slots, at the cost of weight x stretch / period.

    Parameters
    ----------
    limit
        By what share of it each period may be stretched, even if the instance allows its job less;
        if left out, what the instance says of each job counts alone.
    """
    slots = {job.name: most_stretch(instance, job, limit) for job in instance.jobs}
    if sum(slots.values()) > _MAX_CHOICES:
        raise InputError(
            f"stretch_limit: leaves {quote(sum(slots.values()))} periods to choose from, more than "
            f"{_MAX_CHOICES}; lower it, or coarsen the slots"
        )
    return {
        job.name: tuple(
            PeriodChoice(period, Fraction(job.weight * (period - job.period), job.period))
            for period in range(job.period, job.period + slots[job.name] + 1)
        )
        for job in instance.jobs
    }


def most_stretch(instance: Instance, job: Job, limit: Fraction | None) -> int:
    """Return by how many slots a job may be stretched: by what it says itself, or by the limit.

    Raises
    ------
    InputError
        If the limit is negative.
    """
    if limit is None:
        return job.max_stretch
    if limit < 0:
        raise InputError(f"stretch_limit: must be at least 0, got {quote(str(limit))}")
    share = min(int(limit * job.period), instance.hyperperiod_limit - job.period)
    return max(job.max_stretch, share)


def costs_of(choices: Choices) -> dict[str, dict[int | None, Fraction]]:
    """Return for each job what each period costs, and None, running freely."""
    return {name: {choice.period: choice.cost for choice in each} for name, each in choices.items()}


def least_cost(choices: Choices) -> Fraction:
    """Return what the cheapest choices cost, whether they fit or not."""
    return sum((min(choice.cost for choice in each) for each in choices.values()), Fraction(0))
