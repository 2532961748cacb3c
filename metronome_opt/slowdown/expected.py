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
    """Return the iteration time of each job.

    Jobs that meet only gated ones, directly or through others, keep their periods. For the others
    it is what was played; computing times vary in plays, so that a mean may fall short of the
    period by a little, which is left out.
    """
    undisturbed = _undisturbed(instance, plan)
    times = {}
    for job in instance.jobs:
        alone = job.period * instance.slot_ms
        if job.name in undisturbed:
            times[job.name] = Fraction(plan.periods[job.name] * instance.slot_ms)
        else:
            played = Fraction(round(slowdowns[job.name] * alone * _PER_MS), _PER_MS)
            times[job.name] = max(Fraction(alone), played)
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


def _undisturbed(instance: Instance, plan: Plan) -> set[str]:
    """Return the gated jobs that a free one disturbs neither itself nor through others."""
    disturbed = {job.name for job in instance.jobs if job.name not in plan.periods}
    spreads = True
    while spreads:
        links = {link for name in disturbed for link in instance.job(name).links}
        met = {job.name for job in instance.jobs if not links.isdisjoint(job.links)} - disturbed
        disturbed |= met
        spreads = bool(met)
    return plan.periods.keys() - disturbed
