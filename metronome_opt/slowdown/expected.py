"""What is stated of a plan: iteration times in whole microseconds, and their slowdown."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from metronome_opt.instance import Instance
from metronome_opt.slowdown.plan import Plan

_PER_MS = 1000  # microseconds


def expected_ms(
    instance: Instance, plan: Plan, slowdowns: Mapping[str, float]
) -> dict[str, Fraction]:
    """Return the iteration time of each job, as it was played.

    Computing times vary in plays, so that a mean may fall short by a little of the period, or of
    the time from slot to slot, which nobody is faster than; that is left out.
    """
    times = {}
    for job in instance.jobs:
        played = Fraction(round(slowdowns[job.name] * job.period * instance.slot_ms * _PER_MS))
        least = plan.periods.get(job.name, job.period) * instance.slot_ms
        times[job.name] = max(Fraction(least), played / _PER_MS)
    return times


def mean_slowdown(instance: Instance, times_ms: Mapping[str, Fraction]) -> Fraction:
    """Return the weighted mean of iteration time over period; unweighted if all weights are 0."""
    weighted = any(job.weight for job in instance.jobs)
    weights = {job.name: job.weight if weighted else 1 for job in instance.jobs}
    total = sum(
        (
            weights[job.name] * times_ms[job.name] / (job.period * instance.slot_ms)
            for job in instance.jobs
        ),
        Fraction(0),
    )
    return total / sum(weights.values())
