"""Heuristics: heaviest first, each job where it fits; then large neighbourhoods (LNS)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from metronome_opt.compatible.problem import Fit, FitTask, at_periods
from metronome_opt.instance import Instance, Job, Phase
from metronome_opt.kernels.sliding import add_windows, roomiest_offset
from metronome_opt.kernels.tables import Ints

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


def _roomiest(job: Job, cost: Ints) -> int:
    """Return the offset with the most room on either side."""
    return int(roomiest_offset(cost, job.ready % len(cost))[0])


def _heaviest_first(instance: Instance) -> list[Job]:
    """Return the jobs by weight, then by traffic, largest first."""

    def key(job: Job) -> tuple[int, Fraction]:
        traffic = Fraction(sum(job.links.values()) * job.volume, job.period)
        return -job.weight, -traffic

    return sorted(instance.jobs, key=key)


def improve(task: FitTask, *, rounds: int | None = None, share: float = 1.0) -> Fit:
    """Place each job at its roomiest offset; then free some and put them back, and so on.

    Ends when the time is over or every job is placed.

    Parameters
    ----------
    rounds
        After how many rounds in a row without a gain to end; None for no limit.
    share
        Of the time that the first schedule leaves, the most that the rounds may take.
    """
    search = _Search(task)
    best, stalled = search.fit, 0
    part = task.budget.fraction(share)
    while not (part.stopped or best.proved or stalled == rounds):
        search.step()
        stalled += 1
        if best.cost is None or search.cost < best.cost:
            best, stalled = search.fit, 0
    return best


class _Search:
    """Jobs that are placed, and those that are left out.

    Attributes
    ----------
    cost
        The weight of the latter.
    """

    def __init__(self, task: FitTask) -> None:
        self._jobs = task.instance.jobs
        self._budget = task.budget
        self._draw = random.Random(task.seed)  # noqa: S311 (not for secrets)
        self._placed = PlacedJobs(task.instance, task.cushion_slots)
        self._fill(_heaviest_first(task.instance), _roomiest)
        self.cost = self._evaluate()

    @property
    def fit(self) -> Fit:
        """The placed jobs."""
        offsets = {name: offset for name, (_, offset) in self._placed.kept.items()}
        return Fit(offsets, self.cost)

    def step(self) -> None:
        """Free a job that is left out and some around it, and put them back."""
        freed = self._freed()
        kept, before = self._placed.kept, self.cost
        old = {job.name: self._placed.take(job.name) for job in freed if job.name in kept}
        self._fill(freed, self._draw.choice((_roomiest, self._any_offset)))
        self.cost = self._evaluate()
        if self.cost > before:
            for job in freed:
                if job.name in kept:
                    self._placed.take(job.name)
            for name, (period, offset) in old.items():
                self._placed.put(name, period, offset)
            self.cost = before

    def _fill(self, jobs: Iterable[Job], pick: _Pick) -> None:
        """Place jobs where they fit, one after the other, as long as there is time."""
        for job in jobs:
            cost = None if self._budget.stopped else self._placed.costs(job.name, job.period)
            if cost is not None:
                self._placed.put(job.name, job.period, pick(job, cost))

    def _evaluate(self) -> int:
        return sum(job.weight for job in self._jobs if job.name not in self._placed.kept)

    def _freed(self) -> list[Job]:
        """Return a job that is left out and some that it meets, shuffled."""
        instance, kept = self._placed.instance, self._placed.kept
        first = self._draw.choice([job for job in self._jobs if job.name not in kept])
        around = [name for name in _neighbours(instance, first.name) if name in kept]
        count = self._draw.randint(min(1, len(around)), min(_MAX_FREED, len(around)))
        freed = [first, *map(instance.job, self._draw.sample(around, count))]
        self._draw.shuffle(freed)
        return freed

    def _any_offset(self, job: Job, cost: Ints) -> int:  # noqa: ARG002
        return int(self._draw.choice(np.flatnonzero(cost == 0)))


def _neighbours(instance: Instance, name: str) -> list[str]:
    """Return the jobs that share a link with a job."""
    links = instance.job(name).links
    users = {instance.jobs[user].name for link in links for user in instance.jobs_on[link]}
    return sorted(users - {name})
