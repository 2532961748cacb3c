"""The front of two costs of a group of jobs, from both ends inwards.

Single jobs of the schedules at its ends are moved as long as that gives new points. Some of the
points known by then divide the front into boxes: what is between two of them costs less than the
one at the right in the first cost, and less than the one at the left in the second. The outermost
boxes are searched first, side by side where there are several threads, and from one cut-down pair
of cost networks. What is found in a box is proved as soon as the box is closed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import pairwise

import numpy as np

from metronome_opt.solvers.cost_network.model import CostNetwork
from metronome_opt.solvers.kernels.compiled_instance import Ints, TooLargeError
from metronome_opt.solvers.multiobjective.costs import Costs, Offsets, SumRun
from metronome_opt.solvers.multiobjective.front import Candidate, Interval
from metronome_opt.solvers.multiobjective.nondominated import (
    AT_ROOT,
    MAX_ENUMERATED,
    Archive,
    Nondominated,
    Pair,
)

_BOXES = 4  # at most

Box = tuple[Pair, Pair]
"""Costs of the two known points that it lies between."""


class GroupFront:
    """The front of a group in the making.

    Parameters
    ----------
    costs
        Costs of the group; its run says when to stop.
    names
        The two objectives.
    ends
        Schedules at the ends of the front; the best of what is between them is searched for.

    Attributes
    ----------
    done
        Whether the search has ended.
    """

    def __init__(self, costs: Costs, names: Sequence[str], ends: Sequence[Offsets]) -> None:
        self.costs = costs
        self.done = False
        self._names = names
        values = [self._values(end) for end in ends]
        # Nothing between the ends is worse than at the other end.
        self._archive = Archive((max(one for one, _ in values), max(two for _, two in values)))
        for mine, end in zip(values, ends, strict=True):
            self._archive.add(mine, end)
        self._open = list(_divide([point for point, _ in self._archive.points], 1))

    def search(self, notify: Callable[[Sequence[Candidate]], None]) -> None:
        """Find what is between the ends; call `notify` with the points of each closed box."""
        try:
            networks = self._networks() if self._open else None
        except (TooLargeError, MemoryError):
            networks = None
        if networks is None:
            self.done = True
            notify(() if self._open else self.points)
            return
        threads = self.costs.search.threads
        if threads == 1:  # independent of the clock: the run is to be repeatable
            for box in list(self._open):
                self._note(box, self._search_box(box, networks), notify)
            return
        with ThreadPoolExecutor(min(threads, len(self._open))) as pool:
            tasks = {pool.submit(self._search_box, box, networks): box for box in self._open}
            for task in as_completed(tasks):
                self._note(tasks[task], task.result(), notify)

    @property
    def points(self) -> list[Candidate]:
        """The known points, ascending in the first cost, with offsets by job."""
        return [self._candidate(*known) for known in self._archive.points]

    def intervals(self, proved: Sequence[bool]) -> tuple[Interval, list[Interval]]:
        """Return where all values of the first objective are, and where those missing may be.

        `proved` says of each end of the front whether it is known.
        """
        step = self.costs.steps[self._names[0]]
        first, last = (self._archive.points[at][0][0] * step for at in (0, -1))
        missing = [Interval(low[0] * step, high[0] * step) for low, high in sorted(self._open)]
        if not proved[0]:
            missing.insert(0, Interval(None, first))
        if not proved[1]:
            missing.append(Interval(last, None))
        return Interval(first if proved[0] else None, last if proved[1] else None), missing

    # ---------------------------------------------------------------- boxes

    def _networks(self) -> list[CostNetwork] | None:
        """Make the boxes; return the networks of both costs, None if these say all."""
        search, archive = self.costs.search, self._archive
        pairs = zip(self._names, archive.max, strict=True)
        networks = [SumRun(self.costs, {name: 1}, limit).network() for name, limit in pairs]
        self._improve()
        root = Nondominated(search, archive, self._values)
        settled = root.settle(networks, (), AT_ROOT)
        few = settled is None or math.prod(settled[0].sizes) <= MAX_ENUMERATED
        is_all = settled is None and not root.stopped
        known = [point for point, _ in archive.points]
        self._open = [] if is_all else _divide(known, 1 if few else _BOXES)
        return settled if self._open else None

    def _search_box(
        self, box: Box, networks: Sequence[CostNetwork]
    ) -> tuple[list[tuple[Pair, Offsets]], bool]:
        """Return the points in a box, and whether none is missing."""
        (_, second), (first, _) = box
        inside = Archive((first - 1, second - 1))
        for known in list(self._archive.points):
            inside.add(*known)
        limited = [
            replace(network, limit=min(network.limit, limit))
            for network, limit in zip(networks, inside.max, strict=True)
        ]
        try:
            closed = Nondominated(self.costs.search, inside, self._values).run(limited)
        except (TooLargeError, MemoryError):
            closed = False
        return inside.points, closed

    def _note(
        self,
        box: Box,
        found: tuple[list[tuple[Pair, Offsets]], bool],
        notify: Callable[[Sequence[Candidate]], None],
    ) -> None:
        points, closed = found
        for known in points:
            self._archive.add(*known)
        if closed:
            self._open.remove(box)
        self.done = not self._open
        (low, _), (high, _) = box
        within = [known for known in self._archive.points if low <= known[0][0] <= high]
        notify([self._candidate(*known) for known in within] if closed else ())

    def _improve(self) -> None:
        """Move single jobs of known schedules, as long as that gives new points."""
        costs, archive = self.costs, self._archive
        seen: set[Offsets] = set()
        free = [n for n, job in enumerate(costs.group.jobs) if job.fixed_offset is None]
        while todo := [known for _, known in archive.points if known not in seen]:
            for offsets in todo:
                seen.add(offsets)
                for job in free:
                    if costs.search.stopped:
                        return
                    around = costs.around(offsets, job)
                    rows: Ints = np.stack([around[name] for name in self._names], axis=1)
                    for offset in np.flatnonzero(archive.promising(rows)):
                        moved = (*offsets[:job], int(offset), *offsets[job + 1 :])
                        archive.add((int(rows[offset, 0]), int(rows[offset, 1])), moved)

    def _values(self, offsets: Offsets) -> Pair:
        first, second = (self.costs.units(name, offsets) for name in self._names)
        return first, second

    def _candidate(self, values: Pair, offsets: Offsets) -> Candidate:
        exact = zip(values, self._names, strict=True)
        return Candidate(
            tuple(units * self.costs.steps[name] for units, name in exact),
            ((self.costs.offsets_by_job(offsets), {}),),
        )


def _divide(points: Sequence[Pair], count: int) -> list[Box]:
    """Return boxes of about equal size between neighbours of some points, the outermost first.

    A wide gap between two of them is a box of its own.
    """
    (left, high), (right, low) = points[0], points[-1]
    ways = [
        ((first - left) / max(1, right - left) + (high - second) / max(1, high - low)) / 2 * count
        for first, second in points
    ]
    bounds = [0]
    for number in range(1, len(points)):
        if ways[number] - ways[number - 1] >= 0.5 and count > 1:
            bounds += [number - 1, number]
        elif ways[number] - ways[bounds[-1]] >= 1:
            bounds.append(number)
    bounds = sorted({*bounds, len(points) - 1})
    boxes = [(points[one], points[other]) for one, other in pairwise(bounds)]
    return [boxes[n // 2] if n % 2 == 0 else boxes[-1 - n // 2] for n in range(len(boxes))]
