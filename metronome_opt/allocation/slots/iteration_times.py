"""Iteration times for output: of jobs under a plan, and unshifted.

Unserved demand does not say how late a job is: a burst waits on several links at once, and what is
unserved is sent later and collides with later bursts. So the jobs are simulated.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from metronome_opt.allocation.slots.plan import Plan, expected_ms
from metronome_opt.allocation.slots.simulator import PERIODS, PlanSimulator
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import Result
from metronome_opt.problem.schedule import Schedule

_SEEDS = range(300, 316)  # that no search uses
_MAX_EVENTS = 200_000  # a second at most, since no simulation was asked for
_MIN_PERIODS = 5  # of the longest job, however many the shortest ends meanwhile


class IterationTimes(NamedTuple):
    """Mean iteration times of jobs, by name, in ms, where known.

    With no job gated, under a schedule, and with no job gated on the nearest nodes; None where
    these are the nodes of the schedule.
    """

    before: Mapping[str, Fraction]
    after: Mapping[str, Fraction]
    nearest: Mapping[str, Fraction] | None = None

    @property
    def first(self) -> Mapping[str, Fraction]:
        """The times without this package: no job gated, on the nearest nodes."""
        return self.before if self.nearest is None else self.nearest

    @classmethod
    def of(cls, result: Result) -> IterationTimes:
        """Return the times that a result states, or else simulate them."""
        schedule = result.schedule
        if result.unshifted_ms is None or schedule.expected_ms is None:
            return cls.simulated(result.instance, schedule)
        before, first = result.unshifted_ms, schedule.before_ms
        return cls(before, schedule.expected_ms, None if first == before else first)

    @classmethod
    def simulated(cls, instance: Instance, schedule: Schedule) -> IterationTimes:
        """Simulate jobs unshifted and not gated, and under a schedule."""
        network = schedule.network or instance.network
        before = iteration_times(instance, Plan(instance.unshifted), network)
        return cls(before, cls.expected(instance, schedule, network))

    @staticmethod
    def expected(instance: Instance, schedule: Schedule, network: str) -> dict[str, Fraction]:
        """Return the mean iteration time of each job under a schedule, in ms."""
        return iteration_times(instance, Plan.of(instance, schedule), network)


def iteration_times(
    instance: Instance, plan: Plan, network: str | None = None
) -> dict[str, Fraction]:
    """Return the mean iteration time of each job under a plan, in ms, as `allocate` states them.

    A job that ends no iteration is omitted: its time is not known.
    Computing times vary by the jitter of each job. Equal arguments give equal times.
    """
    threads = os.cpu_count() or 1
    simulator = partial(PlanSimulator, instance, _SEEDS, network=network, threads=threads)
    affordable = int(PERIODS * _MAX_EVENTS / max(1.0, simulator().events))
    chosen = simulator(periods=min(PERIODS, max(_MIN_PERIODS, affordable)))
    names, slowdowns = (job.name for job in instance.jobs), chosen.replicate(plan).mean(axis=0)
    return expected_ms(instance, plan, dict(zip(names, slowdowns.tolist(), strict=True)))
