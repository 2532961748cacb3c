"""Partial schedules, and the greedy heuristic: highest weight first, at the roomiest offset."""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction

import numpy as np

from metronome_opt.allocation.slots.feasibility_problem import (
    FeasibilityProblem,
    at_periods,
    restore_offsets,
    shorten_periods,
)
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.problem.instance import Instance, Job, Phase
from metronome_opt.solvers import greedy
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.demand import slot_rates
from metronome_opt.solvers.kernels.burst_costs import add_windows, middle_of_longest_run
from metronome_opt.solvers.kernels.compiled_instance import Ints
from metronome_opt.solvers.presolve.blocks import components
from metronome_opt.solvers.presolve.extend import extend_bursts
from metronome_opt.solvers.presolve.reductions import simplify_links
from metronome_opt.solvers.run import SolverRun


class PartialSchedule:
    """Jobs of an instance at their periods and offsets; no link is overloaded.

    The demand of a link is kept over the least common multiple H of the periods that are placed on
    it, up to `max_slots`, by default the hyperperiod limit. A further job of period T meets each
    slot of it that is congruent to one of its own modulo gcd(H, T), so only the largest demand of
    each residue counts.
    """

    def __init__(
        self, instance: Instance, cushion_slots: int = 0, max_slots: int | None = None
    ) -> None:
        self.instance = instance
        self._max_slots = max_slots or instance.hyperperiod_limit
        self.kept: dict[str, tuple[int, int]] = {}
        self._cushion = cushion_slots
        self._phases: dict[tuple[str, int], tuple[Phase, ...]] = {}
        self._capacity = {link.name: link.capacity for link in instance.links}
        self._demand = {link.name: np.zeros(1, dtype=np.int64) for link in instance.links}

    def costs(self, name: str, period: int) -> Ints | None:
        """Return an array over the offsets of a job, 0 where it fits; None if it fits nowhere."""
        job = self.instance.job(name)
        if any(math.lcm(len(self._demand[link]), period) > self._max_slots for link in job.links):
            return None
        cost = np.zeros(period, dtype=np.int64)
        prefix = np.empty(2 * period, dtype=np.int64)
        most = {}
        for link in job.links:
            common = math.gcd(len(self._demand[link]), period)
            most[link] = self._demand[link].reshape(-1, common).max(axis=0)
        for phase in self._extended(name, period):
            over = np.zeros(period, dtype=np.int64)
            for link, flows in job.links.items():
                blocked = most[link] + flows * phase.rate > self._capacity[link]
                over += np.tile(blocked, period // len(blocked))
            add_windows(over, phase.start, phase.length, prefix, cost)
        if job.fixed_offset is not None and cost[job.fixed_offset] == 0:
            cost[:] = 1
            cost[job.fixed_offset] = 0
        elif job.fixed_offset is not None or cost.min() > 0:
            return None
        return cost

    def put(self, name: str, period: int, offset: int) -> None:
        """Place a job.

        Parameters
        ----------
        name
            A job that is not placed.
        period, offset
            Slots where the job fits, by `costs`; this is not checked.
        """
        self.kept[name] = (period, offset)
        for link in self.instance.job(name).links:
            row = self._demand[link]
            self._demand[link] = np.tile(row, math.lcm(len(row), period) // len(row))
        self._add(name, 1)

    def remove(self, name: str) -> None:
        """Remove a job that is placed."""
        self._add(name, -1)
        del self.kept[name]

    def _add(self, name: str, sign: int) -> None:
        """Add the demand of a job, or with a sign of -1 take it away."""
        period, offset = self.kept[name]
        rates = sign * slot_rates(self._extended(name, period), period, offset)
        for link, flows in self.instance.job(name).links.items():
            self._demand[link].reshape(-1, period)[:] += flows * rates

    def _extended(self, name: str, period: int) -> tuple[Phase, ...]:
        """Return the bursts of a job at a period, with the cushion."""
        key = (name, period)
        if key not in self._phases:
            job = self.instance.job(name)
            if self._cushion:
                job = at_periods(self.instance, {name: period}, self._cushion).jobs[0]
            self._phases[key] = job.phases
        return self._phases[key]


def fit_greedily(problem: FeasibilityProblem, first: Collection[str] = ()) -> dict[str, int]:
    """Place each job at its roomiest offset, if there is a feasible one; return the offsets.

    Jobs in `first` come before the others; both parts by weight, then by traffic, largest first.
    """

    def key(job: Job) -> tuple[bool, int, Fraction]:
        traffic = Fraction(sum(job.links.values()) * job.volume, job.period)
        return job.name not in first, -job.weight, -traffic

    instance, cushion = problem.instance, problem.cushion_slots
    if instance.needs_stretch:
        instance, cushion = shorten_periods(extend_bursts(instance, cushion)), 0
    placed = PartialSchedule(instance, cushion)
    for job in sorted(instance.jobs, key=key):
        cost = None if problem.budget.stopped else placed.costs(job.name, job.period)
        if cost is not None:
            placed.put(
                job.name, job.period, int(middle_of_longest_run(cost, job.ready % len(cost))[0])
            )
    offsets = {name: offset for name, (_, offset) in placed.kept.items()}
    return restore_offsets(problem.instance, offsets)


def rotate_greedily(instance: Instance, budget: Budget) -> Plan:
    """Gate jobs at their own periods, each at its cheapest offset after jobs of higher weight.

    A job that overloads a link there is not gated, nor is one that shares no link, or a link with a
    hyperperiod above the limit.
    """
    offsets, periods = dict(instance.unshifted), dict[str, int]()
    for part in components(simplify_links(instance)):
        if part.links and not part.needs_stretch and not budget.stopped:
            search = SolverRun(part, time_limit=None, seed=0, threads=1, parent=budget)
            greedy.run(search)
            found, placed = search.offsets_by_job() or {}, PartialSchedule(part)
            for job in sorted(part.jobs, key=lambda job: -job.weight):
                is_tried = job.name in found and not budget.stopped
                cost = placed.costs(job.name, job.period) if is_tried else None
                if cost is not None and cost[found[job.name]] == 0:
                    placed.put(job.name, job.period, found[job.name])
            offsets |= {name: offset for name, (_, offset) in placed.kept.items()}
            periods |= {name: period for name, (period, _) in placed.kept.items()}
    return Plan(offsets, periods)
