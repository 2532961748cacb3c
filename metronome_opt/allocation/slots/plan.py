"""Plan: offsets of all jobs, and the periods of gated jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from metronome_opt.engine.jobs import isolated_iteration
from metronome_opt.files.records import FrozenDict
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Schedule


@dataclass(frozen=True)
class Plan:
    """Offsets of all jobs, periods of gated jobs, and traffic classes."""

    offsets: Mapping[str, int]  # offsets of all jobs, in slots; an ungated job begins there
    # slots from one window of a gated job to its next, by name. Other jobs are ungated
    periods: Mapping[str, int] = FrozenDict()
    # the traffic class of a job, by name; 0, the lowest one, if it is not named
    classes: Mapping[str, int] = FrozenDict()

    @classmethod
    def of(cls, instance: Instance, schedule: Schedule) -> Plan:
        """Return the plan of a schedule; all jobs are gated unless it names those that are."""
        gated = schedule.gated or {}
        periods = {
            job.name: job.period + schedule.stretch.get(job.name, 0)
            for job in instance.jobs
            if gated.get(job.name, True)
        }
        return cls(schedule.offsets, periods).in_classes(schedule.classes or {})

    def in_classes(self, classes: Mapping[str, int]) -> Plan:
        """Return the plan with other traffic classes."""
        return replace(self, classes={name: number for name, number in classes.items() if number})

    def joined(self, other: Plan) -> Plan:
        """Return the plan joined with that of other jobs."""
        return Plan(
            {**self.offsets, **other.offsets},
            {**self.periods, **other.periods},
            {**self.classes, **other.classes},
        )

    def only(self, part: Instance) -> Plan:
        """Return the plan for the jobs of a part."""
        names = [job.name for job in part.jobs]
        periods = {name: self.periods[name] for name in names if name in self.periods}
        classes = {name: self.classes[name] for name in names if name in self.classes}
        return Plan({name: self.offsets[name] for name in names}, periods, classes)

    def stretch(self, instance: Instance) -> dict[str, int]:
        """Return the idle slots of each job."""
        return {
            job.name: self.periods.get(job.name, job.period) - job.period for job in instance.jobs
        }


def expected_ms(
    instance: Instance, plan: Plan, slowdowns: Mapping[str, float]
) -> dict[str, Fraction]:
    """Return the simulated iteration time of each job but those of which it is NaN: not known.

    Computing times vary in simulations, so that a mean may fall a little short of the iteration
    isolated, or of the time from window to window; these are minimum times.
    """
    times = {}
    for job in instance.jobs:
        if math.isnan(slowdowns[job.name]):
            continue
        microseconds = round(slowdowns[job.name] * job.period * instance.slot_ms * 1000)
        slots = Fraction(plan.periods.get(job.name, 0) * instance.slot_ms)
        isolated = isolated_iteration(instance, job).duration
        times[job.name] = max(isolated, slots, Fraction(microseconds, 1000))
    return times


def mean_slowdown(
    instance: Instance, times_ms: Mapping[str, Fraction], *, is_weighted: bool = True
) -> Fraction | None:
    """Return the mean slowdown of all jobs.

    Parameters
    ----------
    times_ms
        Mean iteration time of each job, by name.
    is_weighted
        Whether jobs count by weight; equally if all weights are 0.

    Returns
    -------
    Fraction or None
        The mean of iteration time over the best one; None if the time of a job is not known.
    """
    if any(job.name not in times_ms for job in instance.jobs):
        return None
    weighs = is_weighted and any(job.weight for job in instance.jobs)
    weights = {job.name: job.weight if weighs else 1 for job in instance.jobs}
    total = sum(
        (weights[job.name] * times_ms[job.name] / instance.best_ms(job) for job in instance.jobs),
        Fraction(0),
    )
    return total / sum(weights.values())


def delay(instance: Instance, times_ms: Mapping[str, Fraction]) -> Fraction | None:
    """Return the mean share by which iterations are longer than the best ones, of equal weights."""
    mean = mean_slowdown(instance, times_ms, is_weighted=False)
    return None if mean is None else mean - 1
