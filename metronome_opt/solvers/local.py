"""Local search: annealing and walks over local optima.

A member of a generation comes out of annealing from high temperature and a walk over local optima.
The next generation goes on from its members with twice the effort: one long annealing beats many
short ones, but how long is long enough is not known.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from metronome_opt.solvers import greedy
from metronome_opt.solvers.kernels import local_search as kernels
from metronome_opt.solvers.kernels.compiled_instance import (
    CompiledInstance,
    Ints,
    TooLargeError,
    compile_instance,
)
from metronome_opt.solvers.kernels.jobs import state_of
from metronome_opt.solvers.run import SolverRun

MAX_STALLED = 3  # generations
SHARE = 0.1  # of the time, at most, for the schedule that proofs start from
_MEMBERS = 6  # of a generation, beside the best schedule so far
_EFFORT = 100  # steps for each job that a member of the first generation takes
_MIN_EFFORT = 20  # the same where there is no time for more
_GROWTH = 2  # of the effort, from generation to generation
_ANNEALING = 0.4  # of the effort; the rest is the walk's
_CHUNK = 0.3  # of the effort of a member goes into each walk from the incumbent at the end
_LAST = 0.8  # of what time is left if it does not do for a generation goes into one member
_HOT, _COLD = 0.4, 0.05  # temperatures, in standard deviations of a job's cost over its offsets
_TOLERANCE = 0.03  # temperature of the walk
_SAMPLES = 3  # random schedules from which those deviations are estimated


def run(search: SolverRun) -> None:
    """Improve the greedy schedule until the time is over or nothing better is found for long."""
    greedy.run(search)
    improve(search, share=1.0)


def improve(search: SolverRun, *, share: float, max_stalled: int = MAX_STALLED) -> None:
    """Improve the incumbent until `max_stalled` generations in a row gain nothing.

    It takes `share` of the time that is left at most.
    """
    population = begin(search, share=share)
    while population and population.stalled < max_stalled and not population.budget.stopped:
        population.step()


def begin(search: SolverRun, *, share: float = 1.0) -> Population | None:
    """Return a local search that goes on from the incumbent, None if there is nothing to search."""
    if search.best is None or search.stopped:
        return None
    try:
        compiled = compile_instance(search.instance, common_scale=True)
    except TooLargeError as error:
        search.notes.append(f"no local search: {error}")
        return None
    population = Population(search, compiled)
    population.set_budget(share)
    return population if population.is_movable else None


class _Member(NamedTuple):
    value: Fraction
    offsets: Ints


class Population:
    """Local search from an incumbent, in a form that can be left and resumed.

    `compiled` has a `common_scale`. The last `stalled` generations have not led to a better
    schedule.
    """

    def __init__(self, search: SolverRun, compiled: CompiledInstance) -> None:
        self._search = search
        self._periods = compiled.tables.jobs["period"]
        self._around = kernels.neighbours_of(compiled)
        self._generator = np.random.default_rng(search.seed)
        self._noise = kernels.gumbel_noise(self._generator, int(self._periods.max()))
        self._offsets = np.array(search.best, dtype=np.int64)
        self._state = state_of(compiled, self._offsets)
        self._scale = np.zeros(len(self._offsets))
        self._members: list[_Member] = []
        self._kicks = kernels.no_kicks()
        self._effort = 0
        self.budget = search.fraction(1.0)
        self.stalled = 0
        self.is_movable = len(self._around.free) > 0

    def set_budget(self, share: float) -> None:
        """Let it take a share of the time that is left to the search; it keeps its speed."""
        left = self._search.remaining
        self.budget.limit_to(None if left is None else share * left)

    @property
    def fits(self) -> bool:
        """Return True if the time does for another whole generation."""
        if self.budget.stopped:
            return False
        return not self._effort or self._plan()[0] == _MEMBERS

    def step(self) -> None:
        """Go through a generation; the first time only search around the incumbent.

        Where the time does not do for another generation, use what there is of it.
        """
        if not self._effort:
            self._begin()
            return
        before = self._search.incumbent
        members, effort = self._plan()
        if members:
            self._effort = effort
            self._anneal(members)
        if members < _MEMBERS:
            while not self.budget.stopped:  # walk from the incumbent, again and again
                self._go_to(self._incumbent().offsets)
                self._walk(int(_CHUNK * self._effort), "local search")
        self.stalled = 0 if self._search.incumbent != before else self.stalled + 1

    def _begin(self) -> None:
        effort = _MIN_EFFORT * len(self._around.free)
        self._walk(effort, "descent")
        self._scale[:] = 0
        self._measure()
        if not self.budget.stopped:
            self._effort = effort

    def _plan(self) -> tuple[int, int]:
        """Return how many members there is time for, and the effort that each may take."""
        first = not self._members
        wanted = _EFFORT * len(self._around.free) if first else _GROWTH * self._effort
        affordable = self.budget.affordable
        if affordable is None or affordable >= _MEMBERS * wanted:
            return _MEMBERS, wanted
        last = int(_LAST * affordable)  # one long annealing beats many short ones
        return (1, last) if last >= self._effort else (0, 0)

    def _measure(self) -> None:
        """Find out what temperature means to each job."""
        free = self._around.free
        for _ in range(_SAMPLES):
            self._go_to(self._random())
            done = 0
            for part in self.budget.slices(len(free)):
                jobs = free[done : done + part]
                deviations = np.empty(part)
                kernels.spreads(self._state, self._offsets, jobs, deviations)
                self._scale[jobs] += deviations / _SAMPLES
                done += part

    def _anneal(self, count: int) -> None:
        """Make a number of members, each from an old one, which they replace if they are many."""
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
            for part in self.budget.slices(steps):
                temperature = kernels.anneal(
                    self._state,
                    self._offsets,
                    self._around.free,
                    self._scale,
                    temperature,
                    cooling,
                    self._noise,
                    self._generator,
                    part,
                )
            if self.budget.stopped:
                return
            self._add(self._walk(self._effort - steps, "annealing"))

    def _walk(self, steps: int, source: str) -> _Member:
        """Walk on from where the schedule is; offer and return the best on the way."""
        walk = kernels.start_walk(self._offsets, self._around, self._kicks)
        for part in self.budget.slices(steps):
            kernels.take_steps(
                self._state,
                self._offsets,
                self._around,
                walk,
                _TOLERANCE * self._scale,
                self._generator,
                part,
            )
        is_settled = walk.counters[kernels.VALUE] >= walk.counters[kernels.BEST]
        if is_settled:  # else it was left on its way down
            self._go_to(walk.best)
        return self._offer(source)

    def _offer(self, source: str) -> _Member:
        return _Member(self._search.offer(self._offsets, source), self._offsets.copy())

    def _incumbent(self) -> _Member:
        """Return the best schedule of the search, which others may have found."""
        offsets = np.array(self._search.best, dtype=np.int64)
        return _Member(self._search.offer(offsets, "local search"), offsets)

    def _add(self, member: _Member) -> None:
        """Take in a member, unless there is one of its value."""
        if all(member.value != other.value for other in self._members):
            self._members.append(member)
            self._members.sort(key=lambda kept: kept.value)

    def _random(self) -> Ints:
        """Return random offsets of the jobs that may move."""
        offsets = self._offsets.copy()
        free = self._around.free
        offsets[free] = self._generator.integers(0, self._periods[free])
        return offsets

    def _go_to(self, target: Ints) -> None:
        kernels.go_to(self._state, self._offsets, self._around.free, target)
