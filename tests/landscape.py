"""The contention of every schedule of a small instance at once, from the definitions, with numpy.

A second judge, for tests that look at all schedules: `verify.evaluate` takes one at a time.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from metronome_opt.problem.instance import Instance, Job


def rates_of(job: Job) -> NDArray[np.int64]:
    """Return the rate of one flow in each slot of the period, unshifted."""
    rates = np.zeros(job.period, dtype=np.int64)
    for phase in job.phases:
        rates[phase.start : phase.end] = phase.rate
    return rates


def choices_of(job: Job) -> NDArray[np.int64]:
    """Return the offsets that a job may have."""
    return np.arange(job.period) if job.fixed_offset is None else np.array([job.fixed_offset])


def scale_of(instance: Instance) -> int:
    """Return what contentions are multiplied by to be whole numbers."""
    return math.lcm(*instance.hyperperiods.values())


def landscape(instance: Instance) -> NDArray[np.int64]:
    """Return the scaled contention of all schedules, shape (T_1, T_2, ...), 1 for fixed jobs."""
    scale = scale_of(instance)
    shape = tuple(len(choices_of(job)) for job in instance.jobs)
    total = np.zeros(shape, dtype=np.int64)
    for link in instance.links:
        hyperperiod = instance.hyperperiods[link.name]
        before = 0
        for weight in sorted(
            {instance.jobs[index].weight for index in instance.jobs_on[link.name]}
        ):
            demand = np.zeros((*(1 for _ in shape), hyperperiod), dtype=np.int64)
            for index in instance.jobs_on[link.name]:
                job = instance.jobs[index]
                if job.weight >= weight:
                    slots = np.arange(hyperperiod) - choices_of(job)[:, None]
                    rows = job.links[link.name] * rates_of(job)[slots % job.period]
                    axes = [1] * len(shape)
                    axes[index] = shape[index]
                    demand = demand + rows.reshape(*axes, hyperperiod)
            over = np.maximum(demand - link.capacity, 0).sum(axis=-1)
            total += (weight - before) * (scale // hyperperiod) * over
            before = weight
    return total


def held(instance: Instance, offsets: dict[str, int]) -> tuple[int | slice, ...]:
    """Return the index of the part of a landscape in which some jobs stand at given offsets."""
    return tuple(
        slice(None)
        if job.name not in offsets
        else int(np.flatnonzero(choices_of(job) == offsets[job.name])[0])
        for job in instance.jobs
    )


def optimum(instance: Instance, offsets: dict[str, int] | None = None) -> Fraction:
    """Return the least contention of all schedules in which some jobs stand at given offsets."""
    least = landscape(instance)[held(instance, offsets or {})].min()
    return Fraction(int(least), scale_of(instance))
