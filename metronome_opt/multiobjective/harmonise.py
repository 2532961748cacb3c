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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from metronome_opt.instance import Instance
from metronome_opt.multiobjective.exploring import FIRST_S, Explorer
from metronome_opt.multiobjective.looks import FloorOf, SolveAt, Stretch, Values
from metronome_opt.multiobjective.periods import choices, choose_periods
from metronome_opt.presolve.components import components
from metronome_opt.solvers.budget import Budget

_EXPLORE_SHARE = 0.4  # of the time of a component, at most, for looks
_POLISH_SHARE = 0.3  # of what is left then, for the best of what was looked at
_MOST_NODES = 2**18


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
    clock = Budget(seconds, stopped)
    parts = sorted(components(instance), key=choices) if apart else [instance]
    found = []
    for index, part in enumerate(parts):
        share = clock.fraction(1 / (len(parts) - index))
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
    seconds: float = field(compare=False, default=FIRST_S)


class _Component(Explorer):
    """The search for the stretches of jobs that share links, with proof.

    Attributes
    ----------
    bound
        Of the first value.
    proved
        Whether nothing is better.
    """

    def __init__(
        self, part: Instance, solve_at: SolveAt, floor_of: FloorOf, clock: Budget, seed: int
    ) -> None:
        super().__init__(part, solve_at, floor_of, clock, seed)
        self._ticks = itertools.count()
        self.bound = self._root[0]
        self.proved = False

    def run(self) -> None:
        """Search until the best is proved or the time is over."""
        first = choose_periods(self._part)  # raises an error if there are none
        self._look([first.stretch[job.name] for job in self._jobs])
        try:
            self.explore(self._clock.fraction(_EXPLORE_SHARE))
            self.polish(self._clock.fraction(_POLISH_SHARE))
            self._prove()
        except KeyboardInterrupt:
            self._clock.interrupt()

    def _prove(self) -> None:
        """Go through the tree, the least floor first."""
        order = self._order()
        nodes = [_Node(self._root, len(order), next(self._ticks), ())]
        while nodes:
            self.bound = min(nodes[0].floor[0], self.best.values[0])
            if self._is_hopeless(nodes[0].floor):
                nodes.clear()
            elif self._clock.stopped or len(nodes) > _MOST_NODES:
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
