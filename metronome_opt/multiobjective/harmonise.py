"""Harmonisation: stretches and offsets together.

What is best at given stretches is a rotation problem, and somebody else solves it. This is the
search for the stretches. Components, which share no link, are searched one by one:

1. Good stretches to begin with: none, the cheapest ones within a few hyperperiods, and where
   descent on the guess of `Outlook` ends from random starts.
2. From what has been looked at to what differs from it by one or two jobs. What comes next is what
   promises most: by how much the guess was off carries over to what is near.
3. A tree over the stretches of one job after the other, bounded by the floor of `Outlook`, the
   least bound first. Where all jobs are decided, the rotation problem is solved, each time for
   longer.

Only the third part proves anything: the least bound of the tree is a bound of the whole.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.deadline import Deadline
from metronome_opt.multiobjective.outlook import Floats, Outlook
from metronome_opt.multiobjective.periods import choices, choose_periods
from metronome_opt.presolve.components import components

_EXPLORE_SHARE = 0.4  # of the time of a component, at most, for looks
_POLISH_SHARE = 0.3  # of what is left then, for the best of what was looked at
_PATIENCE = 1000  # looks without a gain
_STARTS = 100
_NEAR = 40  # stretches of two jobs that are thought of for each that is better
_POLISHED = 4
_LIMIT_STEP = 4  # from one limit of the hyperperiods to the next
_FIRST_S = 1.0  # what a leaf of the tree is given, then twice as long each time
_MOST_NODES = 2**18

Values = tuple[Fraction, ...]
FloorOf = Callable[[Fraction, Fraction], Values]
Stretch = tuple[int, ...]  # in the order of a component's jobs


@dataclass(frozen=True)
class Solved:
    """What is known of some stretches.

    Attributes
    ----------
    values
        Of the best schedule, the most important first, less is better.
    offsets
        Its offsets by job name.
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
    """Solves the rotation problem at given stretches."""

    def __call__(
        self,
        part: Instance,
        stretch: Mapping[str, int],
        seconds: float | None,
        beat: Values | None,
        /,
    ) -> Solved:
        """Return the best offsets of a component.

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


@dataclass(frozen=True)
class Harmonised:
    """Stretches and offsets.

    Attributes
    ----------
    stretch, offsets
        Slots per job name.
    values
        As those of `Solved`, of the whole.
    bound
        No stretches and offsets have a smaller first value.
    proved
        Whether none are better.
    looks
        How many rotation problems were looked at.
    """

    stretch: Mapping[str, int]
    offsets: Mapping[str, int]
    values: Values
    bound: Fraction
    proved: bool
    looks: int


def contention_and_price(contention: Fraction, price: Fraction) -> Values:
    """Return the values where contention comes first and the price of the stretches second."""
    return contention, price


def harmonise(
    instance: Instance,
    solve_at: SolveAt,
    *,
    floor_of: FloorOf = contention_and_price,
    apart: bool = True,
    stopped: Callable[[], bool],
    seed: int,
    seconds: float | None = None,
) -> Harmonised:
    """Choose stretches and offsets, lexicographically best.

    Parameters
    ----------
    instance
        Its jobs say how far they may be stretched.
    solve_at
        Solves the rotation problem at given stretches.
    floor_of
        Returns what each value is at least, or each of the first ones, given what the contention
        and the objective ``stretch`` are at least.
    apart
        Whether values add up over components, so that these can be searched one by one.
    stopped
        Whether to return what there is. Ctrl-C does the same.
    seed
        For everything that is random.
    seconds
        To search for, None for as long as it takes.

    Raises
    ------
    InputError
        If no choice of stretches keeps all hyperperiods to the limit.
    """
    clock = Deadline(seconds, stopped)
    parts = sorted(components(instance), key=choices) if apart else [instance]
    found = []
    for index, part in enumerate(parts):
        share = clock.share(1 / (len(parts) - index))
        searched = _Component(part, solve_at, floor_of, share, seed)
        searched.run()
        found.append(searched)
    return Harmonised(
        stretch={name: slots for each in found for name, slots in each.stretch.items()},
        offsets={name: slot for each in found for name, slot in each.best.offsets.items()},
        values=tuple(
            sum(values, Fraction(0))
            for values in zip(*(each.best.values for each in found), strict=True)
        ),
        bound=sum((each.bound for each in found), Fraction(0)),
        proved=all(each.proved for each in found),
        looks=sum(each.looks for each in found),
    )


@dataclass(order=True)
class _Node:
    """Stretches of the first jobs of an order; what more they may come to has a floor."""

    floor: Values
    open_jobs: int
    tick: int
    decided: Stretch = field(compare=False)
    seconds: float = field(compare=False, default=_FIRST_S)


class _Component:
    """The search for the stretches of jobs that share links.

    Attributes
    ----------
    best
        The best so far.
    bound
        Of the first value.
    proved
        Whether nothing is better.
    looks
        How many rotation problems were looked at.
    """

    def __init__(
        self, part: Instance, solve_at: SolveAt, floor_of: FloorOf, clock: Deadline, seed: int
    ) -> None:
        self._part = part
        self._jobs = part.jobs
        self._solve_at = solve_at
        self._floor_of = floor_of
        self._clock = clock
        self._draw = random.Random(seed)  # noqa: S311 (not for cryptography)
        self._seen: dict[Stretch, Solved] = {}
        self._at: Stretch = ()
        self._outlook = Outlook(part, stopped=lambda: clock.over)
        self._ticks = itertools.count()
        self._root = self._floor([(0, job.max_stretch) for job in self._jobs])
        self.bound = self._root[0]
        self.proved = False
        self.looks = 0

    @property
    def stretch(self) -> dict[str, int]:
        """The stretches of the best."""
        return self._named(self._at)

    @property
    def best(self) -> Solved:
        """The best so far."""
        return self._seen[self._at]

    def run(self) -> None:
        """Search until the best is proved or the time is over."""
        first = choose_periods(self._part)  # raises an error if there are none
        self._look([first.stretch[job.name] for job in self._jobs])
        try:
            self._explore(self._clock.share(_EXPLORE_SHARE))
            self._polish(self._clock.share(_POLISH_SHARE))
            self._prove()
        except KeyboardInterrupt:
            self._clock.interrupt()

    # ---------------------------------------------------------------- one rotation problem

    def _look(self, stretch: Sequence[int], seconds: float | None = 0) -> Solved:
        """Solve the rotation problem at some stretches for some time; quickly, if none is given."""
        key = tuple(stretch)
        beat = self.best.values if self._seen else None
        new = self._solve_at(self._part, self._named(key), seconds, beat)
        self.looks += 1
        old = self._seen.get(key)
        if old is not None:
            bounds = [each.bound for each in (old, new) if each.bound is not None]
            better = min(old, new, key=lambda each: each.values)
            new = Solved(
                better.values,
                better.offsets,
                max(bounds, default=None),
                better.proved or new.proved,
            )
        self._seen[key] = new
        if len(self._seen) == 1 or new.values < self.best.values:
            self._at = key
        return new

    def _named(self, stretch: Stretch) -> dict[str, int]:
        return dict(zip((job.name for job in self._jobs), stretch, strict=True))

    def _price(self, stretch: Sequence[int]) -> Fraction:
        return sum(
            (
                Fraction(job.weight * slots, job.period)
                for job, slots in zip(self._jobs, stretch, strict=False)
            ),
            Fraction(0),
        )

    def _keeps_to_limit(self, decided: Stretch, order: Sequence[int]) -> bool:
        """Return whether no hyperperiod is too long, going by the jobs that are decided."""
        multiples: dict[str, int] = {}
        for index, slots in zip(order, decided, strict=False):
            job = self._jobs[index]
            for link in job.links:
                multiples[link] = math.lcm(multiples.get(link, 1), job.period + slots)
        return max(multiples.values(), default=1) <= self._part.hyperperiod_limit

    # ---------------------------------------------------------------- exploring

    def _explore(self, clock: Deadline) -> None:
        """Look at what promises most, until nothing better has turned up for long."""
        order = range(len(self._jobs))
        promising: list[tuple[list[float], Stretch]] = []
        thought_of: set[Stretch] = set()

        def think_of(stretch: Stretch, error: float) -> None:
            if stretch not in thought_of and self._keeps_to_limit(stretch, order):
                thought_of.add(stretch)
                promised = self._promised(stretch)
                promised[0] = max(promised[0] + error, float(self._root[0]))
                heapq.heappush(promising, (promised, stretch))

        for stretch in self._starts(clock):
            think_of(stretch, 0.0)
        idle = 0
        while promising and idle < _PATIENCE:
            if clock.over or self._is_hopeless(self._root):
                return
            stretch = heapq.heappop(promising)[1]
            found = self._look(stretch)
            idle = 0 if self._at == stretch else idle + 1
            error = float(found.values[0]) - self._promised(stretch)[0]
            for near in self._near(stretch):
                think_of(near, error)

    def _promised(self, stretch: Stretch) -> list[float]:
        """Return the values if the guess were right."""
        guess = Fraction(self._outlook.guess(stretch))
        return [float(value) for value in self._floor_of(guess, self._price(stretch))]

    def _starts(self, clock: Deadline) -> Iterator[Stretch]:
        """Yield stretches to begin with."""
        yield tuple(0 for _ in self._jobs)
        yield from self._with_short_hyperperiods(clock)
        for _ in range(_STARTS):
            if clock.over:
                return
            yield self._descended([self._draw.randint(0, job.max_stretch) for job in self._jobs])

    def _with_short_hyperperiods(self, clock: Deadline) -> Iterator[Stretch]:
        """Yield the cheapest stretches with ever shorter hyperperiods."""
        longest = max(self._part.hyperperiods.values(), default=1)
        limit = min(longest, self._part.hyperperiod_limit)
        while (limit := limit // _LIMIT_STEP) and not clock.over:
            try:
                chosen = choose_periods(self._part, limit=limit)
            except InputError:
                return
            yield tuple(chosen.stretch[job.name] for job in self._jobs)

    def _descended(self, start: list[int]) -> Stretch:
        """Return where the guess can not be made less by stretching one job otherwise."""
        stretch = list(start)
        turned = True
        while turned:
            turned = False
            for job in self._draw.sample(range(len(stretch)), len(stretch)):
                guesses = self._guesses_of(job, stretch)
                least = int(guesses.argmin())
                if guesses[least] < guesses[stretch[job]]:
                    stretch[job] = least
                    turned = True
        return tuple(stretch)

    def _guesses_of(self, job: int, stretch: Sequence[int], without: int | None = None) -> Floats:
        """Return what a job at each of its stretches costs with the others, by the guess."""
        total = np.zeros(self._jobs[job].max_stretch + 1)
        for (one, other), guess in self._outlook.guesses.items():
            if one == job and other != without:
                total += guess[:, stretch[other]]
        return total

    def _near(self, stretch: Stretch) -> Iterator[Stretch]:
        """Yield what differs by one job, and of what differs by two what promises most."""
        for job, each in enumerate(self._jobs):
            for slots in range(each.max_stretch + 1):
                yield _changed(stretch, {job: slots})
        pairs: list[tuple[float, Stretch]] = []
        for (one, other), guess in self._outlook.guesses.items():
            if one < other:
                ones = self._guesses_of(one, stretch, other)
                others = self._guesses_of(other, stretch, one)
                total = guess + ones[:, None] + others
                change = total - total[stretch[one], stretch[other]]
                for place in np.argsort(change, axis=None)[:_NEAR].tolist():
                    mine, its = divmod(place, change.shape[1])
                    pairs.append((change[mine, its], _changed(stretch, {one: mine, other: its})))
        for _, near in sorted(pairs)[:_NEAR]:
            yield near

    def _polish(self, clock: Deadline) -> None:
        """Solve the best for longer."""
        ranked = sorted(self._seen, key=lambda stretch: self._seen[stretch].values)[:_POLISHED]
        for index, stretch in enumerate(ranked):
            if not clock.over and not self._seen[stretch].proved:
                left = clock.share(1 / (len(ranked) - index)).remaining
                self._look(stretch, _FIRST_S if left is None else left)

    # ---------------------------------------------------------------- proving

    def _prove(self) -> None:
        """Go through the tree, the least floor first."""
        order = self._order()
        nodes = [_Node(self._root, len(order), next(self._ticks), ())]
        while nodes:
            self.bound = min(nodes[0].floor[0], self.best.values[0])
            if self._is_hopeless(nodes[0].floor):
                nodes.clear()
            elif self._clock.over or len(nodes) > _MOST_NODES:
                return
            else:
                for child in self._children(heapq.heappop(nodes), order):
                    heapq.heappush(nodes, child)
        self.bound = self.best.values[0]
        self.proved = True

    def _order(self) -> list[int]:
        """Return the jobs, those first whose stretches matter most."""
        matter = [0.0] * len(self._jobs)
        for (one, _), guess in self._outlook.guesses.items():
            matter[one] += float(np.ptp(guess))
        return sorted(range(len(self._jobs)), key=lambda job: -matter[job])

    def _children(self, node: _Node, order: Sequence[int]) -> Iterator[_Node]:
        if not node.open_jobs:
            yield from self._leaf(node, order)
            return
        job = self._jobs[order[len(node.decided)]]
        for slots in range(job.max_stretch + 1):
            decided = (*node.decided, slots)
            if self._keeps_to_limit(decided, order):
                floor = max(node.floor, self._floor_at(decided, order))
                if not self._is_hopeless(floor):
                    yield _Node(floor, node.open_jobs - 1, next(self._ticks), decided)

    def _leaf(self, node: _Node, order: Sequence[int]) -> Iterator[_Node]:
        """Solve the rotation problem of a leaf; yield it again if more can be hoped for."""
        stretch = [0] * len(order)
        for job, slots in zip(order, node.decided, strict=True):
            stretch[job] = slots
        known = self._seen.get(tuple(stretch))
        if known is None or not known.proved:
            left = self._clock.remaining
            known = self._look(stretch, node.seconds if left is None else min(node.seconds, left))
        if known.proved:
            return
        floor = node.floor
        if known.bound is not None:
            floor = max(floor, (known.bound, *floor[1:]))
        if not self._is_hopeless(floor):
            yield _Node(floor, 0, next(self._ticks), node.decided, 2 * node.seconds)

    def _floor_at(self, decided: Stretch, order: Sequence[int]) -> Values:
        box = [(0, job.max_stretch) for job in self._jobs]
        for job, slots in zip(order, decided, strict=False):
            box[job] = (slots, slots)
        return self._floor(box)

    def _floor(self, box: Sequence[tuple[int, int]]) -> Values:
        """Return what the values are at least at all stretches of a box."""
        return self._floor_of(self._outlook.floor(box), self._price([least for least, _ in box]))

    def _is_hopeless(self, floor: Values) -> bool:
        """Return whether nothing above a floor is better than the best."""
        best = self.best.values
        known = best[: len(floor)]
        return floor > known or (floor == known and len(floor) == len(best))


def _changed(stretch: Stretch, slots: Mapping[int, int]) -> Stretch:
    return tuple(slots.get(job, each) for job, each in enumerate(stretch))
