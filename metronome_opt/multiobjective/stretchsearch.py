"""The search for stretches: good ones first, then proof.

From the cheapest periods within a few hyperperiods (`periods`) it goes to what differs from them by
one job, what promises most first; then the best are solved for longer. Last comes a tree over the
stretches of one job after the other, bounded by `StretchBounds`: that alone proves anything.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.periods import choose_periods, price_of
from metronome_opt.multiobjective.stretchbounds import StretchBounds
from metronome_opt.solvers.budget import Budget

_FIRST_S = 1.0  # what a choice of periods is given to solve it for the first time
_EXPLORE_SHARE = 0.4  # of the time of a component, at most, for quick looks
_POLISH_SHARE = 0.3  # of what is left then, for the best of what was looked at
_MAX_NODES = 2**18
_PATIENCE = 1000  # quick looks without a gain
_STARTS = 100
_POLISHED = 4
_LIMIT_STEP = 4  # from one limit of the hyperperiods to the next

Values = tuple[Fraction, ...]
Stretch = tuple[int, ...]  # in the order of a component's jobs
Partial = tuple[int | None, ...]  # the same, None for what is not decided yet


@dataclass(frozen=True)
class Solved:
    """The best offsets at some stretches.

    Attributes
    ----------
    values
        Of the best schedule, the most important first, less is better.
    offsets
        By job name.
    bound
        Lower bound of the first value, None if nothing is known.
    proved
        Whether no offsets are better.
    """

    values: Values
    offsets: Mapping[str, int]
    bound: Fraction | None = None
    proved: bool = False


class SolveAt(Protocol):
    """Chooses the offsets of a component at given stretches."""

    def __call__(
        self,
        part: Instance,
        stretch: Mapping[str, int],
        seconds: float | None,
        beat: Values | None,
        /,
    ) -> Solved:
        """Return the best offsets that are found.

        Parameters
        ----------
        part
            The component, not stretched.
        stretch
            Idle slots per job name; no hyperperiod exceeds the limit with them.
        seconds
            To try for; 0 for a quick look, None for as long as it takes.
        beat
            What is worth having is less than this; None if everything is.
        """


class StretchSearch:
    """The search for the stretches of jobs that share links.

    Parameters
    ----------
    part
        The jobs, which say how far they may be stretched.
    solve_at
        Chooses offsets at given stretches.
    floor_of
        Returns what each value is at least, given what contention and the objective ``stretch``
        are at least.
    clock, seed
        When to stop; for what is random.

    Attributes
    ----------
    best
        The best so far.
    bound
        Of the first value.
    proved
        Whether nothing is better.
    looks
        How many choices of stretches were looked at.
    """

    def __init__(
        self,
        part: Instance,
        solve_at: SolveAt,
        floor_of: Callable[[Fraction, Fraction], Values],
        clock: Budget,
        seed: int,
    ) -> None:
        self._part = part
        self._solve_at = solve_at
        self._floor_of = floor_of
        self._clock = clock
        self._draw = random.Random(seed)  # noqa: S311 (not for cryptography)
        self._solved: dict[Stretch, Solved] = {}  # subproblem cache
        self._at: Stretch = ()
        self._bounds = StretchBounds(part, stopped=lambda: clock.stopped)
        self._root = self._floor((None,) * len(part.jobs))
        self.bound = self._root[0]
        self.proved = False
        self.looks = 0
        first = choose_periods(part)  # raises an error if there are none
        self._look(tuple(first.stretch[job.name] for job in part.jobs))

    @property
    def stretch(self) -> dict[str, int]:
        """The stretches of the best."""
        return self._named(self._at)

    @property
    def best(self) -> Solved:
        """The best so far."""
        return self._solved[self._at]

    def run(self) -> None:
        """Search until the best is proved or the time is over."""
        self._explore(self._clock.fraction(_EXPLORE_SHARE))
        self._polish(self._clock.fraction(_POLISH_SHARE))
        self._prove()

    def _look(self, stretch: Stretch, seconds: float | None = 0) -> Solved:
        """Solve at some stretches for some time; quickly, if none is given."""
        beat = self.best.values if self._solved else None
        new = self._solve_at(self._part, self._named(stretch), seconds, beat)
        self.looks += 1
        old = self._solved.get(stretch, new)
        better = min(old, new, key=lambda each: each.values)
        bounds = [each.bound for each in (old, new) if each.bound is not None]
        new = replace(better, bound=max(bounds, default=None), proved=better.proved or new.proved)
        self._solved[stretch] = new
        if len(self._solved) == 1 or new.values < self.best.values:
            self._at = stretch
        return new

    def _named(self, stretch: Stretch) -> dict[str, int]:
        return dict(zip((job.name for job in self._part.jobs), stretch, strict=True))

    def _is_hopeless(self, floor: Values) -> bool:
        """Return whether nothing above a floor is better than the best."""
        return floor >= self.best.values

    # ---------------------------------------------------------------- good stretches

    def _explore(self, clock: Budget) -> None:
        """Look at what promises most, until nothing better has turned up for long."""
        promising: list[tuple[list[float], Stretch]] = []
        thought_of: set[Stretch] = set()

        def think_of(stretch: Stretch, error: float) -> None:
            if stretch not in thought_of and _keeps_to_limit(self._part, stretch):
                thought_of.add(stretch)
                promised = self._promised(stretch)
                promised[0] = max(promised[0] + error, float(self._root[0]))
                heapq.heappush(promising, (promised, stretch))

        for stretch in self._starts(clock):
            think_of(stretch, 0.0)
        idle = 0
        while promising and idle < _PATIENCE and not clock.stopped:
            if self._is_hopeless(self._root):
                return
            stretch = heapq.heappop(promising)[1]
            found = self._look(stretch)
            idle = 0 if self._at == stretch else idle + 1
            # By how much the estimate was off carries over to what is near.
            error = float(found.values[0]) - self._promised(stretch)[0]
            for job, each in enumerate(self._part.jobs):
                for slots in range(each.max_stretch + 1):
                    think_of((*stretch[:job], slots, *stretch[job + 1 :]), error)

    def _promised(self, stretch: Stretch) -> list[float]:
        """Return the values if the estimate were right."""
        estimate = Fraction(self._bounds.estimate(stretch))
        price = price_of(self._part, self._named(stretch))
        return [float(value) for value in self._floor_of(estimate, price)]

    def _starts(self, clock: Budget) -> Iterator[Stretch]:
        """Yield none, the cheapest for ever shorter hyperperiods, and where estimates are least."""
        jobs = self._part.jobs
        yield (0,) * len(jobs)
        longest = max(self._part.hyperperiods.values(), default=1)
        limit = min(longest, self._part.hyperperiod_limit)
        while (limit := limit // _LIMIT_STEP) and not clock.stopped:
            try:
                chosen = choose_periods(self._part, limit=limit)
            except InputError:
                break
            yield tuple(chosen.stretch[job.name] for job in jobs)
        for _ in range(_STARTS):
            if clock.stopped:
                return
            yield self._descended([self._draw.randint(0, job.max_stretch) for job in jobs])

    def _descended(self, stretch: list[int]) -> Stretch:
        """Return where the estimate can not be made less by stretching one job otherwise."""
        better = True
        while better:
            better = False
            for job in self._draw.sample(range(len(stretch)), len(stretch)):
                estimates = sum(
                    cost[:, stretch[other]]
                    for (one, other), cost in self._bounds.estimates.items()
                    if one == job
                )
                if isinstance(estimates, int):  # the job meets nobody
                    continue
                slots = int(estimates.argmin())
                if estimates[slots] < estimates[stretch[job]]:
                    stretch[job] = slots
                    better = True
        return tuple(stretch)

    def _polish(self, clock: Budget) -> None:
        """Solve the best for longer."""
        ranked = sorted(self._solved, key=lambda stretch: self._solved[stretch].values)[:_POLISHED]
        for index, stretch in enumerate(ranked):
            if not clock.stopped and not self._solved[stretch].proved:
                left = clock.fraction(1 / (len(ranked) - index)).remaining
                self._look(stretch, _FIRST_S if left is None else left)

    # ---------------------------------------------------------------- proof

    def _prove(self) -> None:
        """Branch on the stretches of one job after the other, the lowest floor first."""
        matter = [0.0] * len(self._part.jobs)
        for (one, _), estimates in self._bounds.estimates.items():
            matter[one] += float(np.ptp(estimates))
        order = sorted(range(len(matter)), key=lambda job: -matter[job])
        ticks = itertools.count()
        undecided: Partial = (None,) * len(order)
        nodes = [(self._root, len(order), next(ticks), undecided, _FIRST_S)]
        while nodes and not self._is_hopeless(nodes[0][0]):
            self.bound = min(nodes[0][0][0], self.best.values[0])
            if self._clock.stopped or len(nodes) > _MAX_NODES:
                return
            floor, left, _, decided, seconds = heapq.heappop(nodes)
            if left:
                job = order[-left]
                for slots in range(self._part.jobs[job].max_stretch + 1):
                    child = (*decided[:job], slots, *decided[job + 1 :])
                    if _keeps_to_limit(self._part, child):
                        raised = max(floor, self._floor(child))
                        heapq.heappush(nodes, (raised, left - 1, next(ticks), child, seconds))
                continue
            solved = self._solve_leaf(tuple(slots or 0 for slots in decided), seconds)
            if not solved.proved:
                if solved.bound is not None:
                    floor = max(floor, (solved.bound, *floor[1:]))
                heapq.heappush(nodes, (floor, 0, next(ticks), decided, 2 * seconds))
        self.bound, self.proved = self.best.values[0], True

    def _solve_leaf(self, stretch: Stretch, seconds: float) -> Solved:
        known = self._solved.get(stretch)
        if known is not None and known.proved:
            return known
        left = self._clock.remaining
        return self._look(stretch, seconds if left is None else min(seconds, left))

    def _floor(self, decided: Partial) -> Values:
        """Return what the values are at least, whatever the undecided stretches are."""
        jobs = self._part.jobs
        box = [
            (0, job.max_stretch) if slots is None else (slots, slots)
            for job, slots in zip(jobs, decided, strict=True)
        ]
        price = price_of(self._part, self._named(tuple(low for low, _ in box)))
        return self._floor_of(self._bounds.floor(box), price)


def _keeps_to_limit(part: Instance, stretch: Partial) -> bool:
    """Return whether no hyperperiod is too long, going by the jobs that are decided."""
    periods = [
        1 if slots is None else job.period + slots
        for job, slots in zip(part.jobs, stretch, strict=True)
    ]
    multiples = (math.lcm(*(periods[job] for job in users)) for users in part.jobs_on.values())
    return max(multiples, default=1) <= part.hyperperiod_limit
