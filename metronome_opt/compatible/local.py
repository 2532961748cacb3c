"""Heuristics: heaviest first, each job to its cheapest choice; then large neighbourhoods (LNS)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from metronome_opt.compatible.choices import (
    Choices,
    Chosen,
    FitTask,
    Kept,
    at_periods,
    costs_of,
    least_cost,
)
from metronome_opt.instance import Instance, Job, Phase
from metronome_opt.kernels.sliding import add_windows, roomiest_offset
from metronome_opt.kernels.tables import Ints
from metronome_opt.solvers.budget import Budget

_MAX_FREED = 8
_Pick = Callable[[Job, Ints], int]
"""Picks one of the offsets that cost nothing."""


class PlacedJobs:
    """Jobs of an instance at their periods and offsets; no link is overloaded.

    The demand of a link is kept over the least common multiple H of the periods that are placed on
    it. A further job of period T meets each slot of it that is congruent to one of its own modulo
    gcd(H, T), so only the largest demand of each residue counts.

    Parameters
    ----------
    cushion_slots
        By how many slots bursts are longer.
    """

    def __init__(self, instance: Instance, cushion_slots: int = 0) -> None:
        self.instance = instance
        self.kept: dict[str, tuple[int, int]] = {}
        self._cushion = cushion_slots
        self._phases: dict[tuple[str, int], tuple[Phase, ...]] = {}
        self._capacity = {link.name: link.capacity for link in instance.links}
        self._users = {
            link: [instance.jobs[index].name for index in users]
            for link, users in instance.jobs_on.items()
        }
        self._demand = {link.name: np.zeros(1, dtype=np.int64) for link in instance.links}

    @property
    def schedule(self) -> Kept:
        """The placed jobs."""
        return Kept(
            {name: period for name, (period, _) in self.kept.items()},
            {name: offset for name, (_, offset) in self.kept.items()},
        )

    def costs(self, name: str, period: int) -> Ints | None:
        """Return an array over the offsets of a job, 0 where it fits.

        None if it fits nowhere.
        """
        job = self.instance.job(name)
        limit = self.instance.hyperperiod_limit
        if any(math.lcm(len(self._demand[link]), period) > limit for link in job.links):
            return None
        cost = np.zeros(period, dtype=np.int64)
        prefix = np.empty(2 * period, dtype=np.int64)
        most = {}
        for link in job.links:
            common = math.gcd(len(self._demand[link]), period)
            most[link] = self._demand[link].reshape(-1, common).max(axis=0)
        for phase in self._longer(name, period):
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
        """Place a job that is not placed, where it fits."""
        self.kept[name] = (period, offset)
        for link in self.instance.job(name).links:
            row = self._demand[link]
            self._demand[link] = np.tile(row, math.lcm(len(row), period) // len(row))
        self._add(name, period, offset, 1)

    def take(self, name: str) -> tuple[int, int]:
        """Take a job away; return the period and the offset that it had."""
        period, offset = self.kept.pop(name)
        self._add(name, period, offset, -1)
        for link in self.instance.job(name).links:
            kept = (self.kept[user][0] for user in self._users[link] if user in self.kept)
            self._demand[link] = self._demand[link][: math.lcm(*kept)].copy()
        return period, offset

    def _add(self, name: str, period: int, offset: int, sign: int) -> None:
        pattern = np.zeros(period, dtype=np.int64)
        for phase in self._longer(name, period):
            pattern[phase.start : phase.end] = phase.rate
        pattern = np.roll(sign * pattern, offset)
        for link, flows in self.instance.job(name).links.items():
            self._demand[link].reshape(-1, period)[:] += flows * pattern

    def _longer(self, name: str, period: int) -> tuple[Phase, ...]:
        """Return the bursts of a job at a period, with the cushion."""
        key = (name, period)
        if key not in self._phases:
            job = self.instance.job(name)
            if self._cushion:
                job = at_periods(self.instance, {name: period}, self._cushion).jobs[0]
            self._phases[key] = job.phases
        return self._phases[key]


def _fill(
    placed: PlacedJobs,
    choices: Choices,
    names: Iterable[str],
    budget: Budget,
    pick: _Pick,
) -> list[str]:
    """Place some jobs, one after the other; return those that have no choice left.

    Their choices are the cheapest first.
    """
    stranded = []
    for name in names:
        for choice in choices[name]:
            if choice.period is None:
                break
            cost = None if budget.stopped else placed.costs(name, choice.period)
            if cost is not None:
                job = placed.instance.job(name)
                placed.put(name, choice.period, pick(job, cost))
                break
        else:
            stranded.append(name)
    return stranded


def _roomiest(job: Job, cost: Ints) -> int:
    """Return the offset with the most room on either side."""
    return int(roomiest_offset(cost, job.ready % len(cost))[0])


def heaviest_first(instance: Instance, choices: Choices) -> list[str]:
    """Return the jobs by what their dearest choice costs, then by traffic, largest first."""

    def key(job: Job) -> tuple[Fraction, Fraction]:
        traffic = Fraction(sum(job.links.values()) * job.volume, job.period)
        return -max(choice.cost for choice in choices[job.name]), -traffic

    return [job.name for job in sorted(instance.jobs, key=key)]


def improve(
    task: FitTask, choices: Choices, *, rounds: int | None = None, share: float = 1.0
) -> Chosen:
    """Place each job at its roomiest offset; then free some and put them back, and so on.

    Ends when the time is over or every job has its cheapest choice. Nothing is found if some job
    has no choice left.

    Parameters
    ----------
    rounds
        After how many rounds in a row without a gain to end; None for no limit.
    share
        Of the time that the first schedule leaves, the most that the rounds may take.
    """
    search = _Search(task, choices)
    best = Chosen(None, None, least_cost(choices))
    least, stalled = None, 0
    part = task.budget.fraction(share)
    while True:
        if least is None or search.value < least:
            least, stalled = search.value, 0
            stranded, cost = least
            if not stranded:
                best = Chosen(search.placed.schedule, cost, best.bound)
        if part.stopped or best.proved or stalled == rounds:
            return best
        search.step()
        stalled += 1


class _Search:
    """Jobs that are placed, those that run freely, and those that are stranded.

    Attributes
    ----------
    value
        How many are stranded, and what the choices of the others cost.
    """

    def __init__(self, task: FitTask, choices: Choices) -> None:
        self._choices = choices
        self._costs = costs_of(choices)
        self._budget = task.budget
        self._draw = random.Random(task.seed)  # noqa: S311 (not for secrets)
        self.placed = PlacedJobs(task.instance, task.cushion_slots)
        names = heaviest_first(task.instance, choices)
        self._stranded = _fill(self.placed, choices, names, task.budget, _roomiest)
        self.value = self._evaluate()

    def step(self) -> None:
        """Free a job that has not its cheapest choice and some around it, and put them back."""
        freed = self._freed()
        old = {name: self.placed.take(name) for name in freed if name in self.placed.kept}
        stranded, before = self._stranded, self.value
        pick = self._draw.choice((_roomiest, self._any_offset))
        refused = _fill(self.placed, self._choices, freed, self._budget, pick)
        self._stranded = [name for name in stranded if name not in freed] + refused
        self.value = self._evaluate()
        if self.value > before:
            for name in freed:
                if name in self.placed.kept:
                    self.placed.take(name)
            for name, (period, offset) in old.items():
                self.placed.put(name, period, offset)
            self._stranded, self.value = stranded, before

    def _evaluate(self) -> tuple[int, Fraction]:
        costs = (
            mine[self._period(name)]
            for name, mine in self._costs.items()
            if name not in self._stranded
        )
        return len(self._stranded), sum(costs, Fraction(0))

    def _period(self, name: str) -> int | None:
        return self.placed.kept.get(name, (None, 0))[0]

    def _freed(self) -> list[str]:
        """Return a job that has not its cheapest choice and some that it meets, shuffled."""
        unhappy = [
            name
            for name, mine in self._choices.items()
            if name in self._stranded or self._period(name) != mine[0].period
        ]
        first = self._draw.choice(unhappy)
        around = [
            name for name in _neighbours(self.placed.instance, first) if name in self.placed.kept
        ]
        count = self._draw.randint(min(1, len(around)), min(_MAX_FREED, len(around)))
        freed = [first, *self._draw.sample(around, count)]
        self._draw.shuffle(freed)
        return freed

    def _any_offset(self, job: Job, cost: Ints) -> int:  # noqa: ARG002
        return int(self._draw.choice(np.flatnonzero(cost == 0)))


def _neighbours(instance: Instance, name: str) -> list[str]:
    """Return the jobs that share a link with a job."""
    links = instance.job(name).links
    users = {instance.jobs[user].name for link in links for user in instance.jobs_on[link]}
    return sorted(users - {name})
