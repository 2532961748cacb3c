"""Annealing over who is gated, their periods and offsets, with the event engine as the judge.

First each job in turn is gated at some periods. Then a plan is moved by one job at a time, and
sometimes two: gated or ungated, to another period, to another offset at which it fits beside the
others. A move is tried by one play, and by the rest only if that one does not speak against it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import numpy as np

from metronome_opt.allocation.slots.evaluator import PlanEvaluator
from metronome_opt.allocation.slots.greedy import PartialSchedule
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.solvers.budget import Budget

_RATIOS = [(a, b) for a in range(1, 7) for b in range(1, 7) if math.gcd(a, b) == 1]
"""Of the periods of jobs that meet again and again in the same positions."""
_RUNGS = 8
_LADDERS = 0.5  # of the time, at most
_HEAT = 0.05  # of the value above 1: a move that costs so much is taken at first


def anneal(
    judge: PlanEvaluator,
    screen: PlanEvaluator,
    plan: Plan,
    longest: Mapping[str, int],
    budget: Budget,
    *,
    short: Callable[[Mapping[str, int]], bool],
    cushion_slots: int = 0,
    seed: int = 0,
) -> Plan:
    """Return the best plan that is found from one on.

    Parameters
    ----------
    judge, screen
        What counts, and what is asked first because it takes less time.
    longest
        The longest period that each job may keep, in slots.
    budget
        When to end; the temperature falls with the time.
    short
        Whether jobs may keep some periods, see
        `metronome_opt.allocation.slots.plan_search.hyperperiods_fit`.
    cushion_slots
        By how many slots bursts of gated jobs are longer.
    """
    rng = random.Random(seed)
    moves = _Moves(judge.instance, longest, short, cushion_slots, rng)
    plan = _pace_each(judge, screen, moves, plan, budget.fraction(_LADDERS))
    best, best_value = plan, judge.values(plan)[0]
    current, value, first = plan, best_value, screen.values(plan)[0]
    heat = _HEAT * max(0.0, best_value - 1.0)
    allowed = max(budget.remaining or 0.0, 1e-9)
    while not budget.stopped:
        left = (budget.remaining or 0.0) / allowed
        bound = -heat * left**2 * math.log(1.0 - rng.random())
        moved = moves.of(current)
        if moved is None:
            continue
        tried = screen.values(moved)[0]
        if tried > first + 2 * bound:
            continue
        reached = judge.values(moved)[0]
        if reached <= value + bound:
            current, value, first = moved, reached, tried
            if value < best_value:
                best, best_value = moved, value
    return best


def _pace_each(
    judge: PlanEvaluator, screen: PlanEvaluator, moves: _Moves, plan: Plan, budget: Budget
) -> Plan:
    """Return a plan in which each job, most slowed first, has the windows that are best for all.

    A job stays as it is if no windows are better.
    """
    instance = judge.instance
    value, first = judge.values(plan)[0], screen.values(plan)[0]
    for index in np.argsort(-judge.base, kind="stable"):
        job, start = instance.jobs[index], plan
        for period in moves.ladder(job):
            moved = None if budget.stopped else moves.to(start, job, period)
            if moved is not None and (tried := screen.values(moved)[0]) <= first:
                reached = judge.values(moved)[0]
                if reached < value:
                    plan, value, first = moved, reached, tried
    return plan


class _Moves:
    """Neighbours of plans, in which the gated jobs fit."""

    def __init__(
        self,
        instance: Instance,
        longest: Mapping[str, int],
        short: Callable[[Mapping[str, int]], bool],
        cushion_slots: int,
        rng: random.Random,
    ) -> None:
        self._instance = instance
        self._longest = longest
        self._short = short
        self._cushion = cushion_slots
        self._rng = rng
        self._met = {
            job.name: [
                other
                for other in instance.jobs
                if other is job or not job.links.keys().isdisjoint(other.links)
            ]
            for job in instance.jobs
        }

    def of(self, plan: Plan) -> Plan | None:
        """Return a neighbour; None if the one that was drawn is none."""
        job: Job | None = None
        moved: Plan | None = plan
        for _ in range(1 + (self._rng.random() < 0.3)):
            if moved is None:
                break
            job = self._rng.choice(self._instance.jobs if job is None else self._met[job.name])
            leaves = job.name in moved.periods and self._rng.random() < 0.3
            moved = self.to(moved, job, None if leaves else self._period(job, moved.periods))
        return moved

    def to(self, plan: Plan, job: Job, period: int | None) -> Plan | None:
        """Return a plan with a job gated at some period, or free; None if it does not fit."""
        offsets, periods = dict(plan.offsets), dict(plan.periods)
        periods.pop(job.name, None)
        if period is None:
            return Plan({**offsets, job.name: job.unshifted}, periods)
        offset = self._offset(job, period, offsets, periods)
        if offset is None:
            return None
        periods[job.name], offsets[job.name] = period, offset
        return Plan(offsets, periods) if self._short(periods) else None

    def ladder(self, job: Job) -> list[int]:
        """Return some periods that a job may keep, from its own to the longest."""
        most = max(0, self._longest[job.name] - job.period)
        return list(dict.fromkeys(job.period + most * step // _RUNGS for step in range(_RUNGS + 1)))

    def _period(self, job: Job, periods: Mapping[str, int]) -> int:
        """Return a period for a job: that it has, its own, one that suits another job, or any."""
        longest = max(job.period, self._longest[job.name])
        drawn = self._rng.random()
        if drawn < 0.2:
            return periods.get(job.name, job.period)
        if drawn < 0.4:
            return job.period
        if drawn < 0.7:
            return self._rng.randint(job.period, longest)
        other = self._rng.choice(self._met[job.name])
        base = periods.get(other.name, other.period)
        wholes = (base * parts // each for parts, each in _RATIOS if base * parts % each == 0)
        suitable = [period for period in wholes if job.period <= period <= longest]
        return self._rng.choice(suitable or [self._rng.randint(job.period, longest)])

    def _offset(
        self, job: Job, period: int, offsets: Mapping[str, int], periods: Mapping[str, int]
    ) -> int | None:
        """Return an offset at which a job fits beside those that are gated."""
        placed = PartialSchedule(self._instance, self._cushion)
        for name, theirs in periods.items():
            placed.put(name, theirs, offsets[name])
        cost = placed.costs(job.name, period)
        if cost is None:
            return None
        near = (offsets[job.name] + self._rng.choice((-3, -1, 0, 1, 3))) % period
        if cost[near] == 0 and self._rng.random() < 0.3:
            return near
        return int(self._rng.choice((cost == 0).nonzero()[0]))
