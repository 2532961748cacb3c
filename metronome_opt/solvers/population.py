"""Schedules annealed, recombined and polished, generation by generation.

A member of a generation comes out of annealing from high temperature and a walk over local optima.
Then pairs of members are recombined, and the children walk on; one that is better than the worse of
its parents takes its place. When that has not happened for long, some jobs of the best schedule at
a time are freed and placed optimally. The next generation takes twice the effort: one long
annealing beats many short ones, but nobody knows how long is long enough.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from metronome_opt.kernels.jobs import demand_of, workspace
from metronome_opt.kernels.perturb import (
    BEST,
    VALUE,
    anneal,
    go_to,
    gumbel_noise,
    neighbours_of,
    no_kicks,
    recombine,
    spreads,
    start_walk,
    take_steps,
)
from metronome_opt.kernels.tables import Compiled, Ints
from metronome_opt.solvers.neighbourhoods import Polish
from metronome_opt.solvers.pace import Pace
from metronome_opt.solvers.search import Search

_MEMBERS = 6  # of a generation, beside the best schedule so far
_EFFORT = 100  # steps for each job that a member of the first generation takes
_LEAST_EFFORT = 20  # the same where there is no time for more
_GROWTH = 2  # of the effort, from generation to generation
_ANNEALING = 0.4  # of the effort; the rest is the walk's
_CHILD = 0.3  # of the effort of a member goes into a child
_POLISH = 1.0  # of the effort of a member, at most, goes into polishing
_USUAL = 10  # efforts of a member that a generation takes, about
_LAST = 0.8  # of what time is left if it does not do for a generation goes into one member
_HOT, _COLD = 0.4, 0.05  # temperatures, in standard deviations of a job's cost over its offsets
_TOLERANCE = 0.03  # temperature of the walk
_SAMPLES = 3  # random schedules from which those deviations are estimated


class _Member(NamedTuple):
    value: Fraction
    offsets: Ints


class Population:
    """Local search of one instance, in a form that can be left and resumed.

    Parameters
    ----------
    search
        Has an incumbent.
    compiled
        Its instance, with `common_scale`.
    seed
        Of all random choices.

    Attributes
    ----------
    pace
        Its clock, at first set to all the time that is left.
    idle
        How many generations in a row have not led to a better schedule.
    """

    def __init__(self, search: Search, compiled: Compiled, seed: int) -> None:
        self._search = search
        self._tables = compiled.tables
        self._around = neighbours_of(compiled)
        self._generator = np.random.default_rng(seed)
        self._noise = gumbel_noise(self._generator, int(compiled.tables.period.max()))
        self._polish = Polish(compiled, self._around)
        self._work = workspace(compiled)
        self._turnable = all(job.fixed_offset is None for job in compiled.instance.jobs)
        self._offsets = np.array(search.best, dtype=np.int64)
        self._demand = demand_of(compiled, self._offsets)
        self._scale = np.zeros(len(self._offsets))
        self._members: list[_Member] = []
        self._kicks = no_kicks()
        self._effort = 0
        self.pace = Pace(search, 1.0)
        self.idle = 0

    @property
    def is_movable(self) -> bool:
        """Whether there is any job to move."""
        return len(self._around.free) > 0

    @property
    def fits(self) -> bool:
        """Whether the time does for another whole generation."""
        if self.pace.over:
            return False
        return not self._effort or self._plan(self.pace)[0] == _MEMBERS

    def play(self) -> None:
        """Go through a generation; the first time only look around the incumbent.

        Where the time does not do for another generation, use what there is of it.
        """
        pace = self.pace
        if not self._effort:
            self._begin(pace)
            return
        before = self._search.incumbent
        members, effort = self._plan(pace)
        if members:
            self._effort = effort
            self._anneal(pace, members)
        if members == _MEMBERS:
            self._recombine(pace, patience=_MEMBERS)
            self._polish_best(pace)
        else:
            self._recombine(pace, patience=None)
        self.idle = 0 if self._search.incumbent != before else self.idle + 1

    def _begin(self, pace: Pace) -> None:
        effort = _LEAST_EFFORT * len(self._around.free)
        self._walk(effort, pace, "descent")
        self._scale[:] = 0
        self._measure(pace)
        if not pace.over:
            self._effort = effort

    def _plan(self, pace: Pace) -> tuple[int, int]:
        """Return how many members there is time for, and the effort that each may take.

        If there is no time for a whole generation, then one long annealing beats many short ones.
        """
        first = not self._members
        wanted = _EFFORT * len(self._around.free) if first else _GROWTH * self._effort
        affordable = pace.affordable
        if affordable is None or affordable >= _USUAL * wanted:
            return _MEMBERS, wanted
        last = int(_LAST * affordable)
        return (1, last) if last >= self._effort else (0, 0)

    def _measure(self, pace: Pace) -> None:
        """Find out what temperature means to each job."""
        free = self._around.free
        for _ in range(_SAMPLES):
            self._go_to(self._random())
            done = 0
            for part in pace.slices(len(free)):
                jobs = free[done : done + part]
                found = spreads(self._tables, self._demand, self._offsets, jobs, self._work)
                self._scale[jobs] += found / _SAMPLES
                done += part

    def _anneal(self, pace: Pace, count: int) -> None:
        """Make so many members, each from one of the old, which they replace if they are many."""
        starts = [member.offsets for member in self._members[:count]]
        starts += [self._random() for _ in range(count - len(starts))]
        if count > 1:
            self._members = []
        self._add(self._incumbent())
        steps = int(_ANNEALING * self._effort)
        cooling = (_COLD / _HOT) ** (1 / steps)
        for start in starts:
            self._go_to(start)
            temperature = _HOT
            for part in pace.slices(steps):
                temperature = anneal(
                    self._tables,
                    self._demand,
                    self._offsets,
                    self._around.free,
                    self._scale,
                    temperature,
                    cooling,
                    self._noise,
                    self._generator,
                    part,
                    self._work,
                )
            if pace.over:
                return
            self._add(self._walk(self._effort - steps, pace, "annealing"))

    def _recombine(self, pace: Pace, patience: int | None) -> None:
        """Let children take the places of their parents, until that many in a row did not.

        With None go on as long as there is time.
        """
        effort = int(_CHILD * self._effort)
        idle = 0
        while not pace.over and (patience is None or idle < patience):
            idle += 1
            if len(self._members) < 2:
                if patience is not None:
                    return
                self._go_to(self._incumbent().offsets)
                self._walk(effort, pace, "local search")
                continue
            drawn = self._generator.choice(len(self._members), 2, replace=False)
            better, worse = sorted(map(int, drawn))
            self._go_to(
                recombine(
                    self._tables.period,
                    self._around,
                    self._members[better].offsets,
                    self._members[worse].offsets,
                    self._turnable,
                    self._generator,
                )
            )
            child = self._walk(effort, pace, "recombination")
            if child.value < self._members[worse].value and self._add(child):
                del self._members[worse + 1]  # one down, since the child stands before it
                idle = 0

    def _polish_best(self, pace: Pace) -> None:
        if not self._members or pace.over:
            return
        self._go_to(self._members[0].offsets)
        steps = int(_POLISH * self._effort)
        self._polish.apply(self._demand, self._offsets, self._work, steps, pace)
        self._add(self._offer("polish"))

    def _walk(self, steps: int, pace: Pace, source: str) -> _Member:
        """Walk on from where the schedule is; offer and return the best on the way."""
        walk = start_walk(self._offsets, self._around, self._kicks)
        for part in pace.slices(steps):
            take_steps(
                self._tables,
                self._demand,
                self._offsets,
                self._around,
                walk,
                _TOLERANCE * self._scale,
                self._generator,
                part,
                self._work,
            )
        if walk.counters[VALUE] >= walk.counters[BEST]:  # else it was left on its way down
            self._go_to(walk.best)
        return self._offer(source)

    def _offer(self, source: str) -> _Member:
        return _Member(self._search.offer(self._offsets, source), self._offsets.copy())

    def _incumbent(self) -> _Member:
        """Return the best schedule of the search, which others may have found."""
        offsets = np.array(self._search.best, dtype=np.int64)
        return _Member(self._search.offer(offsets, "local search"), offsets)

    def _add(self, member: _Member) -> bool:
        """Take in a member, unless there is one of its value."""
        if any(member.value == other.value for other in self._members):
            return False
        self._members.append(member)
        self._members.sort(key=lambda each: each.value)
        return True

    def _random(self) -> Ints:
        """Return random offsets of the jobs that may move."""
        offsets = self._offsets.copy()
        free = self._around.free
        offsets[free] = self._generator.integers(0, self._tables.period[free])
        return offsets

    def _go_to(self, target: Ints) -> None:
        go_to(self._tables, self._demand, self._offsets, self._around.free, target)
