"""The exact front of a group of jobs at given periods, for one to three objectives.

Both ends are found first: the least of each objective, and of those schedules the least of the
other. What is worth finding lies between them. Single jobs are moved as long as that shows anything
new, which costs next to nothing; then `Nondominated` finds what is missing, or that nothing is.

Cushions are not costs: for each cushion that is reached, the front of the other objectives among
the schedules that have a larger one is found in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from metronome_opt.kernels.tables import CostTooLargeError, Ints
from metronome_opt.multiobjective.best import lexicographic
from metronome_opt.multiobjective.costs import Costs, Offsets
from metronome_opt.multiobjective.nondominated import Nondominated
from metronome_opt.multiobjective.wanted import Archive, Bounded, Values
from metronome_opt.solvers.network import Network
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import ModelTooLargeError

_CUSHION = "cushion"


@dataclass(frozen=True)
class GroupFront:
    """Schedules of a group of which none is as good as another in everything.

    Attributes
    ----------
    schedules
        Offsets in the order of the jobs.
    complete
        Whether the group has no others.
    """

    schedules: tuple[Offsets, ...]
    complete: bool


def front_of(
    costs: Costs,
    names: Sequence[str],
    start: Offsets,
    cushion_of: Callable[[Offsets], int | None],
    known: Sequence[Offsets] = (),
) -> GroupFront:
    """Return the front of a group.

    Parameters
    ----------
    names
        Up to three objectives at given periods.
    start
        Any schedule.
    cushion_of
        The cushion of a schedule, None if nothing limits it.
    known
        Schedules that were found before.
    """
    others = [name for name in names if name != _CUSHION]
    if _CUSHION not in names:
        return _between_ends(costs, others, start, known, 0)
    found: list[Offsets] = list(known)
    cushion: int | None = 0
    complete = True
    while cushion is not None and not costs.search.stopped:
        part = _between_ends(costs, others, start, (), cushion)
        complete = complete and part.complete
        found += part.schedules
        reached = [cushion_of(offsets) for offsets in part.schedules]
        limited = [slots for slots in reached if slots is not None]
        cushion = min(limited) + 1 if limited else None
    return GroupFront(tuple(found), complete and cushion is None)


def _between_ends(
    costs: Costs,
    names: Sequence[str],
    start: Offsets,
    known: Sequence[Offsets],
    cushion: int,
) -> GroupFront:
    """Return the front among the schedules with a cushion of at least some slots."""
    begin = None if cushion else start
    if not names:
        answer, proved = lexicographic(costs, ("latency",), cushion=cushion, start=begin)
        return GroupFront(() if answer is None else (answer,), proved)
    if len(names) == 1:
        answer, proved = lexicographic(costs, tuple(names), cushion=cushion, start=begin)
        return GroupFront(() if answer is None else (answer,), proved)
    ends, proved = _ends(costs, names, begin, cushion)
    if not ends:
        return GroupFront((), proved)
    # Of two objectives nothing between is worse than at the other's end; of three it may be.
    most = [max(costs.units(name, end) for end in ends) for name in names]
    try:
        search = _Between(costs, names, most if len(names) == 2 else [None] * len(names), cushion)
        for each in (*ends, *known, *([] if cushion else [start])):
            search.take(each)
        if not cushion:
            search.descend()
        proved = search.run() and proved
    except (ModelTooLargeError, CostTooLargeError, MemoryError):
        return GroupFront(tuple(ends), complete=False)
    return GroupFront(tuple(offsets for _, offsets in search.archive.points), proved)


def _ends(
    costs: Costs, names: Sequence[str], start: Offsets | None, cushion: int
) -> tuple[list[Offsets], bool]:
    """Return the schedules that are best in one objective after the other, in every rotation."""
    found: list[Offsets] = []
    proved = True
    for first in names:
        order = (first, *(name for name in names if name != first))
        end, whole = lexicographic(costs, order, cushion=cushion, start=start)
        proved = proved and whole
        if end is not None:
            found.append(end)
    return found, proved


class _Between:
    """The search between the ends.

    Parameters
    ----------
    most
        The largest units of each objective, None without limit.

    Attributes
    ----------
    archive
        What is found.
    """

    def __init__(
        self, costs: Costs, names: Sequence[str], most: Sequence[int | None], cushion: int
    ) -> None:
        self._costs = costs
        self._names = list(names)
        self._cushion = cushion
        self._parts = [
            costs.priced({name: 1}, limit) for name, limit in zip(names, most, strict=True)
        ]
        self.archive = Archive([part.network.limit for part in self._parts])

    def take(self, offsets: Offsets) -> bool:
        """Take a schedule; return whether it is new and within the limits."""
        values = self._values(offsets)
        within = all(mine <= most for mine, most in zip(values, self.archive.most, strict=True))
        return within and self.archive.add(values, offsets)

    def _values(self, offsets: Offsets) -> Values:
        return tuple(self._costs.units(name, offsets) for name in self._names)

    def descend(self) -> None:
        """Move single jobs of what is known, as long as that shows anything new."""
        jobs = self._costs.group.jobs
        seen: set[Offsets] = set()
        while todo := [each for _, each in self.archive.points if each not in seen]:
            for offsets in todo:
                seen.add(offsets)
                for job in range(len(jobs)):
                    if self._costs.search.stopped:
                        return
                    if jobs[job].fixed_offset is None:
                        self._move(offsets, job)

    def _move(self, offsets: Offsets, job: int) -> None:
        around = self._costs.around(offsets, job)
        rows: Ints = np.stack([around[name] for name in self._names], axis=1)
        for offset in np.flatnonzero(self.archive.promising(rows)):
            values = tuple(map(int, rows[offset]))
            self.archive.add(values, (*offsets[:job], int(offset), *offsets[job + 1 :]))

    def run(self) -> bool:
        """Find what is missing; return whether nothing is any more."""
        networks: list[Network] = [part.network for part in self._parts]
        searches: list[Search] = [part.search for part in self._parts]
        prices: list[tuple[int, ...]] = []
        per_unit: list[Fraction] = []
        slope = self._slope()
        if slope is not None:
            most = max(self._worst(slope), 0)
            joint = self._costs.priced(dict(zip(self._names, slope, strict=True)), most)
            networks.append(joint.network)
            searches.append(joint.search)
            prices.append(slope)
            per_unit.append(joint.per_unit)
        if self._cushion:
            networks.append(self._costs.bearing(self._cushion))
            searches.append(self._costs.search)
            prices.append((0,) * len(self._names))
            per_unit.append(Fraction(1))
        wanted = Bounded(self.archive, prices, per_unit)
        return Nondominated(searches, networks, wanted, len(self._names)).run()

    def _slope(self) -> tuple[int, ...] | None:
        """Return the prices at which both ends of a front of two objectives cost the same."""
        points = [values for values, _ in self.archive.points]
        if len(self._names) != 2 or len(points) < 2:
            return None
        left, right = points[0], points[-1]
        return (left[1] - right[1], right[0] - left[0])

    def _worst(self, slope: Sequence[int]) -> int:
        """Return what anything between two neighbours costs at most."""
        points = [values for values, _ in self.archive.points]
        most = self.archive.most
        firsts = [*(values[0] for values in points), most[0] + 1]
        seconds = [most[1] + 1, *(values[1] for values in points)]
        return max(
            slope[0] * (first - 1) + slope[1] * (second - 1)
            for first, second in zip(firsts, seconds, strict=True)
        )
