"""Descent over single jobs: each in turn gets other slots, or another traffic class, as simulated.

Slots serve where a part of the jobs that meet may be gated. Periods are tried that are spread
evenly over what is allowed, and those of the other jobs, their halves and doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from metronome_opt.compatible.local import PlacedJobs
from metronome_opt.instance import Instance, Job
from metronome_opt.kernels.sliding import roomiest_offset
from metronome_opt.slowdown.candidates import Short
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import Judge, is_better, lowest
from metronome_opt.solvers.budget import Budget

_WORTH = 5e-4  # less is no reason to gate a job or raise its class, nor to keep it so
_STEPS = 8  # from a job's own period to the longest
_ROUNDS = 3


Moves = Callable[[Plan, Job], Iterator[Plan]]
"""Plans in which a job is treated otherwise."""


def descend(judge: Judge, plan: Plan, budget: Budget, moves: Moves) -> Plan:
    """Return a plan that no tried change of a single job makes better."""
    values = judge.values(plan)
    for _ in range(_ROUNDS):
        before = plan
        for index in np.argsort(-judge.slowdowns(plan), kind="stable"):
            job = judge.player.instance.jobs[index]
            for moved in moves(plan, job):
                if budget.stopped:
                    return plan
                reached = judge.values(moved)
                simpler = _special(moved) < _special(plan)
                worth = -_WORTH if simpler else _WORTH
                if is_better(reached, values, worth):
                    plan, values = moved, lowest(reached, values)
        if plan is before:
            break
    return plan


def _special(plan: Plan) -> int:
    """Return how many jobs are gated, and how many are in a class above the lowest."""
    return len(plan.periods) + len(plan.classes)


@dataclass(frozen=True)
class OtherSlots:
    """Moves of a job that runs freely, or keeps other slots beside the gated jobs.

    Attributes
    ----------
    longest
        The longest period that each job may keep, in slots.
    short
        Whether hyperperiods are short enough at some periods.
    cushion_slots
        By how many slots bursts of gated jobs are longer.
    """

    part: Instance
    longest: Mapping[str, int]
    short: Short
    cushion_slots: int

    def __call__(self, plan: Plan, job: Job) -> Iterator[Plan]:
        """Yield the plans whose hyperperiods are short enough."""
        others = {name: period for name, period in plan.periods.items() if name != job.name}
        if job.name in plan.periods and self.short(others):
            yield Plan({**plan.offsets, job.name: job.unshifted}, others, plan.classes)
        placed = PlacedJobs(self.part, self.cushion_slots)
        for name, period in others.items():
            placed.put(name, period, plan.offsets[name])
        for period in _periods(self.part.jobs, job, others, self.longest[job.name]):
            cost, periods = placed.costs(job.name, period), {**others, job.name: period}
            if cost is not None and self.short(periods):
                offset = int(roomiest_offset(cost, job.unshifted)[0])
                yield Plan({**plan.offsets, job.name: offset}, periods, plan.classes)


def other_classes(count: int, plan: Plan, job: Job) -> Iterator[Plan]:
    """Yield plans in which a job is in another one of so many traffic classes."""
    for each in range(count):
        if each != plan.classes.get(job.name, 0):
            yield plan.in_classes({**plan.classes, job.name: each})


def weight(job: Job) -> Fraction:
    """Return the weight of a job."""
    return Fraction(job.weight)


def urgency(job: Job) -> Fraction:
    """Return the weight over the longest burst: short bursts that go first delay others little.

    References
    ----------
    W. E. Smith, "Various optimizers for single-stage production", Naval Research Logistics
    Quarterly 3, 1956.
    """
    return Fraction(job.weight, max(phase.length for phase in job.phases))


def in_order(plan: Plan, jobs: Sequence[Job], count: int, key: Callable[[Job], Fraction]) -> Plan:
    """Return a plan with the jobs of the largest keys in the highest of so many classes, and so on.

    Jobs of one key are in one class. None is empty.
    """
    keys = sorted({key(job) for job in jobs})
    used = min(count, len(keys))
    return plan.in_classes({job.name: keys.index(key(job)) * used // len(keys) for job in jobs})


def _periods(
    jobs: Sequence[Job], job: Job, others: Mapping[str, int], longest: int
) -> Iterator[int]:
    """Yield distinct periods for a job, from its own to the longest."""
    spread = [job.period + (longest - job.period) * step // _STEPS for step in range(_STEPS + 1)]
    theirs = [others.get(other.name, other.period) for other in jobs if other is not job]
    suitable = [each for period in theirs for each in (period // 2, period, 2 * period)]
    for period in sorted({*spread, *suitable}):
        if job.period <= period <= longest:
            yield period
