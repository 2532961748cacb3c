"""Local search: annealing, walks over local optima, recombination, large neighbourhoods (LNS).

A member of a generation comes out of annealing from high temperature and a walk over local optima.
Then pairs of members are recombined, and the children walk on; one that is better than the worse of
its parents takes its place. When that has not happened for long, some jobs of the best schedule at
a time are freed and placed optimally: those that add much to the contention first, each together
with those beside it that add most; how many is learnt from how hard it was to place them. The next
generation takes twice the effort: one long annealing beats many short ones, but how long is long
enough is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from metronome_opt.kernels.few import (
    blames,
    end_release,
    is_done,
    room_for,
    start_release,
    try_offsets,
)
from metronome_opt.kernels.jobs import state_of
from metronome_opt.kernels.perturb import (
    BEST,
    VALUE,
    Neighbours,
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
from metronome_opt.kernels.tables import (
    Compiled,
    CostTooLargeError,
    DemandState,
    Ints,
    compile_instance,
)
from metronome_opt.solvers import greedy
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.search import Search

PATIENCE = 3  # generations
SHARE = 0.1  # of the time, at most, for the schedule that proofs start from
_MEMBERS = 6  # of a generation, beside the best schedule so far
_EFFORT = 100  # steps for each job that a member of the first generation takes
_MIN_EFFORT = 20  # the same where there is no time for more
_GROWTH = 2  # of the effort, from generation to generation
_ANNEALING = 0.4  # of the effort; the rest is the walk's
_CHILD = 0.3  # of the effort of a member goes into a child
_LNS = 1.0  # of the effort of a member, at most, goes into large neighbourhoods
_USUAL = 10  # efforts of a member that a generation takes, about
_LAST = 0.8  # of what time is left if it does not do for a generation goes into one member
_HOT, _COLD = 0.4, 0.05  # temperatures, in standard deviations of a job's cost over its offsets
_TOLERANCE = 0.03  # temperature of the walk
_SAMPLES = 3  # random schedules from which those deviations are estimated
_SIZE = 4  # jobs freed at a time, at first
_LARGEST = 8
_PLACING = 4000  # steps for one neighbourhood, at most
_MAX_ENTRIES = 2**22  # of 8 bytes


def run(search: Search) -> None:
    """Improve the greedy schedule until the time is over or nothing better is found for long."""
    greedy.run(search)
    improve(search, share=1.0)


def improve(search: Search, *, share: float, patience: int = PATIENCE) -> None:
    """Improve the incumbent.

    Ends after `patience` generations in a row without a gain, each of which takes twice the effort
    of the one before; or when `share` of the time that is left is used up.
    """
    population = begin(search, share=share)
    while population and population.stalled < patience and not population.budget.stopped:
        population.step()


def begin(search: Search, *, share: float = 1.0) -> Population | None:
    """Return a local search that goes on from the incumbent, None if there is nothing to search.

    Parameters
    ----------
    share
        Its maximum share of the time that is left.
    """
    if search.best is None or search.stopped:
        return None
    try:
        compiled = compile_instance(search.instance, common_scale=True)
    except CostTooLargeError as error:
        search.notes.append(f"no local search: {error}")
        return None
    population = Population(search, compiled)
    population.set_budget(share)
    return population if population.is_movable else None


class _Member(NamedTuple):
    value: Fraction
    offsets: Ints


class Population:
    """Local search of one instance, in a form that can be left and resumed.

    Parameters
    ----------
    search
        Has an incumbent; its seed is that of all random choices.
    compiled
        Its instance, with `common_scale`.

    Attributes
    ----------
    budget
        Its time, at first all that is left.
    stalled
        How many generations in a row have not led to a better schedule.
    """

    def __init__(self, search: Search, compiled: Compiled) -> None:
        self._search = search
        self._periods = compiled.tables.jobs["period"]
        self._around = neighbours_of(compiled)
        self._generator = np.random.default_rng(search.seed)
        self._noise = gumbel_noise(self._generator, int(self._periods.max()))
        self._neighbourhoods = _Neighbourhoods(compiled, self._around)
        self._rotatable = all(job.fixed_offset is None for job in compiled.instance.jobs)
        self._offsets = np.array(search.best, dtype=np.int64)
        self._state = state_of(compiled, self._offsets)
        self._scale = np.zeros(len(self._offsets))
        self._members: list[_Member] = []
        self._kicks = no_kicks()
        self._effort = 0
        self.budget = search.fraction(1.0)
        self.stalled = 0

    @property
    def is_movable(self) -> bool:
        """Return True if there is any job to move."""
        return len(self._around.free) > 0

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
        if members == _MEMBERS:
            self._recombine(patience=_MEMBERS)
            self._free_jobs()
        else:
            self._recombine(patience=None)
        self.stalled = 0 if self._search.incumbent != before else self.stalled + 1

    def _begin(self) -> None:
        effort = _MIN_EFFORT * len(self._around.free)
        self._walk(effort, "descent")
        self._scale[:] = 0
        self._measure()
        if not self.budget.stopped:
            self._effort = effort

    def _plan(self) -> tuple[int, int]:
        """Return how many members there is time for, and the effort that each may take.

        If there is no time for a whole generation, then one long annealing beats many short ones.
        """
        first = not self._members
        wanted = _EFFORT * len(self._around.free) if first else _GROWTH * self._effort
        affordable = self.budget.affordable
        if affordable is None or affordable >= _USUAL * wanted:
            return _MEMBERS, wanted
        last = int(_LAST * affordable)
        return (1, last) if last >= self._effort else (0, 0)

    def _measure(self) -> None:
        """Find out what temperature means to each job."""
        free = self._around.free
        for _ in range(_SAMPLES):
            self._go_to(self._random())
            done = 0
            for part in self.budget.slices(len(free)):
                jobs = free[done : done + part]
                deviations = spreads(self._state, self._offsets, jobs)
                self._scale[jobs] += deviations / _SAMPLES
                done += part

    def _anneal(self, count: int) -> None:
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
            for part in self.budget.slices(steps):
                temperature = anneal(
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

    def _recombine(self, patience: int | None) -> None:
        """Let children take the places of their parents, until that many in a row did not.

        With None go on as long as there is time.
        """
        effort = int(_CHILD * self._effort)
        idle = 0
        while not self.budget.stopped and (patience is None or idle < patience):
            idle += 1
            if len(self._members) < 2:
                if patience is not None:
                    return
                self._go_to(self._incumbent().offsets)
                self._walk(effort, "local search")
                continue
            drawn = self._generator.choice(len(self._members), 2, replace=False)
            better, worse = sorted(map(int, drawn))
            self._go_to(
                recombine(
                    self._state,
                    self._around,
                    self._members[better].offsets,
                    self._members[worse].offsets,
                    self._rotatable,
                    self._generator,
                )
            )
            child = self._walk(effort, "recombination")
            if child.value < self._members[worse].value and self._add(child):
                del self._members[worse + 1]  # one down, since the child stands before it
                idle = 0

    def _free_jobs(self) -> None:
        if not self._members or self.budget.stopped:
            return
        self._go_to(self._members[0].offsets)
        steps = int(_LNS * self._effort)
        self._neighbourhoods.apply(self._state, self._offsets, steps, self.budget)
        self._add(self._offer("LNS"))

    def _walk(self, steps: int, source: str) -> _Member:
        """Walk on from where the schedule is; offer and return the best on the way."""
        walk = start_walk(self._offsets, self._around, self._kicks)
        for part in self.budget.slices(steps):
            take_steps(
                self._state,
                self._offsets,
                self._around,
                walk,
                _TOLERANCE * self._scale,
                self._generator,
                part,
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
        offsets[free] = self._generator.integers(0, self._periods[free])
        return offsets

    def _go_to(self, target: Ints) -> None:
        go_to(self._state, self._offsets, self._around.free, target)


class _Neighbourhoods:
    """Large neighbourhoods of the schedules of an instance, compiled with `common_scale`."""

    def __init__(self, compiled: Compiled, around: Neighbours) -> None:
        jobs = compiled.tables.jobs
        longest = int(jobs["period"].max())
        self._around = around
        self._largest = min(_LARGEST, len(around.free), _MAX_ENTRIES // (2 * longest) - 1)
        self._size = min(_SIZE, self._largest)
        self._room = room_for(max(1, self._largest), len(jobs), longest)

    def apply(self, state: DemandState, offsets: Ints, steps: int, budget: Budget) -> None:
        """Improve a schedule in place until no neighbourhood does, by so many steps at most."""
        tried: set[frozenset[int]] = set()
        improved = self._largest > 1
        while improved and steps > 0 and not budget.stopped:
            improved = False
            for members in self._jobs_to_free(state, offsets, budget):
                if steps <= 0 or budget.stopped:
                    return
                if frozenset(members) in tried:
                    continue
                before = offsets[members]
                steps -= self._place(state, offsets, members, budget)
                if (offsets[members] != before).any():
                    improved = True
                    tried.clear()
                tried.add(frozenset(members))

    def _jobs_to_free(
        self, state: DemandState, offsets: Ints, budget: Budget
    ) -> Iterator[list[int]]:
        """Yield jobs to free together, those first that add most to the contention."""
        free = self._around.free
        blame = np.zeros(len(offsets), dtype=np.int64)
        done = 0
        for part in budget.slices(len(free)):
            jobs = free[done : done + part]
            blame[jobs] = blames(state, offsets, jobs)
            done += part
        for centre in sorted(free, key=lambda job: -blame[job]):
            if blame[centre] == 0:
                return
            first, last = self._around.ptr[centre], self._around.ptr[centre + 1]
            beside = sorted(self._around.other[first:last], key=lambda job: -blame[job])
            yield [int(centre), *map(int, beside[: self._size - 1])]

    def _place(self, state: DemandState, offsets: Ints, members: list[int], budget: Budget) -> int:
        """Place jobs optimally, if `_PLACING` steps do for it; return how many it took."""
        room = self._room
        start_release(state, offsets, np.array(members), room)
        # A node scores all of the jobs. Only how often the clock is looked at depends on it.
        spent = 0
        while not is_done(room) and spent < _PLACING and not budget.stopped:
            nodes = 1 + min(budget.slice, _PLACING - spent) // len(members)
            spent += len(members) * try_offsets(state, room, nodes)
        if not is_done(room):
            self._size = max(2, self._size - 1)
        elif spent < _PLACING // 8:
            self._size = min(self._largest, self._size + 1)
        end_release(state, offsets, room)
        return spent
