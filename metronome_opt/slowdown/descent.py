"""Descent over single jobs: each in turn runs freely or keeps other slots, as simulated.

It serves where a part of the jobs that meet may be gated. Periods are tried that are spread evenly
over what is allowed, and those of the other jobs, their halves and doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from metronome_opt.compatible.local import PlacedJobs
from metronome_opt.instance import Job
from metronome_opt.kernels.sliding import roomiest_offset
from metronome_opt.slowdown.candidates import Short
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import Judge, is_better, least
from metronome_opt.solvers.budget import Budget

_WORTH = 5e-4  # less is no reason to gate a job, nor to keep it gated
_STEPS = 8  # from a job's own period to the longest
_ROUNDS = 3


def descend(
    judge: Judge,
    plan: Plan,
    longest: Mapping[str, int],
    budget: Budget,
    short: Short,
    cushion_slots: int,
) -> Plan:
    """Return a plan that no tried change of a single job makes better.

    Parameters
    ----------
    longest
        The longest period that each job may keep, in slots.
    short
        Whether hyperperiods are short enough at some periods.
    cushion_slots
        By how many slots bursts of gated jobs are longer.
    """
    values = judge.values(plan)
    for _ in range(_ROUNDS):
        before = plan
        for index in np.argsort(-judge.slowdowns(plan), kind="stable"):
            job = judge.player.instance.jobs[index]
            for moved in _moves(judge, plan, job, longest[job.name], cushion_slots):
                if budget.stopped:
                    return plan
                if not short(moved.periods):
                    continue
                reached = judge.values(moved)
                worth = _WORTH if job.name in moved.periods else -_WORTH
                if is_better(reached, values, worth):
                    plan, values = moved, least(reached, values)
        if plan is before:
            break
    return plan


def _moves(judge: Judge, plan: Plan, job: Job, longest: int, cushion_slots: int) -> Iterator[Plan]:
    """Yield plans in which a job runs freely, or keeps other slots beside the gated jobs."""
    part = judge.player.instance
    others = {name: period for name, period in plan.periods.items() if name != job.name}
    if job.name in plan.periods:
        yield Plan({**plan.offsets, job.name: job.unshifted}, others)
    placed = PlacedJobs(part, cushion_slots)
    for name, period in others.items():
        placed.put(name, period, plan.offsets[name])
    for period in _periods(part.jobs, job, others, longest):
        cost = placed.costs(job.name, period)
        if cost is not None:
            offset = int(roomiest_offset(cost, job.unshifted)[0])
            yield Plan({**plan.offsets, job.name: offset}, {**others, job.name: period})


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
