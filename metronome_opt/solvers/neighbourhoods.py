"""A schedule polished: a few jobs at a time are freed and placed optimally, given the others.

Jobs that add much to the contention come first, each together with those beside it that add most.
How many are freed at a time is learnt from how hard it was to place them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from metronome_opt.kernels.perturb import Neighbours
from metronome_opt.kernels.release import (
    blames,
    end_release,
    is_done,
    room_for,
    start_release,
    try_offsets,
)
from metronome_opt.kernels.tables import Compiled, Ints
from metronome_opt.solvers.pace import Pace

_SIZE = 4  # jobs freed at a time, at first
_LARGEST = 8
_STEPS = 4000  # for one neighbourhood, at most
_MOST_ENTRIES = 2**22  # of 8 bytes


class Polish:
    """Large neighbourhoods of an instance's schedules.

    Parameters
    ----------
    compiled
        With `common_scale`.
    around
        Who shares a link with whom.
    """

    def __init__(self, compiled: Compiled, around: Neighbours) -> None:
        tables = compiled.tables
        longest = int(tables.period.max())
        self._tables = tables
        self._around = around
        self._largest = min(_LARGEST, len(around.free), _MOST_ENTRIES // (2 * longest) - 1)
        self._size = min(_SIZE, self._largest)
        self._room = room_for(max(1, self._largest), len(tables.period), longest)

    def apply(self, demand: Ints, offsets: Ints, work: Ints, steps: int, pace: Pace) -> None:
        """Improve a schedule until no neighbourhood does, by so many steps at most.

        Parameters
        ----------
        demand, offsets
            In and out: the schedule and its layered demand.
        work
            Scratch, see `workspace`.
        """
        tried: set[frozenset[int]] = set()
        improved = self._largest > 1
        while improved and steps > 0 and not pace.over:
            improved = False
            for members in self._neighbourhoods(demand, offsets, work, pace):
                if steps <= 0 or pace.over:
                    return
                if frozenset(members) in tried:
                    continue
                before = offsets[members]
                steps -= self._place(demand, offsets, members, work, pace)
                if (offsets[members] != before).any():
                    improved = True
                    tried.clear()
                tried.add(frozenset(members))

    def _neighbourhoods(
        self, demand: Ints, offsets: Ints, work: Ints, pace: Pace
    ) -> Iterator[list[int]]:
        """Yield jobs to free together, those first that add most to the contention."""
        free = self._around.free
        blame = np.zeros(len(offsets), dtype=np.int64)
        done = 0
        for part in pace.slices(len(free)):
            jobs = free[done : done + part]
            blame[jobs] = blames(self._tables, demand, offsets, jobs, work)
            done += part
        for centre in sorted(free, key=lambda job: -blame[job]):
            if blame[centre] == 0:
                return
            first, last = self._around.ptr[centre], self._around.ptr[centre + 1]
            beside = sorted(self._around.other[first:last], key=lambda job: -blame[job])
            yield [int(centre), *map(int, beside[: self._size - 1])]

    def _place(
        self, demand: Ints, offsets: Ints, members: list[int], work: Ints, pace: Pace
    ) -> int:
        """Place jobs optimally, if `_STEPS` steps do for it; return how many it took."""
        tables, room = self._tables, self._room
        start_release(tables, demand, offsets, np.array(members), room, work)
        # A node scores all of the jobs. Only how often the clock is looked at depends on it.
        spent = 0
        while not is_done(room) and spent < _STEPS and not pace.over:
            nodes = 1 + min(pace.slice, _STEPS - spent) // len(members)
            spent += len(members) * try_offsets(tables, demand, room, nodes, work)
        if not is_done(room):
            self._size = max(2, self._size - 1)
        elif spent < _STEPS // 8:
            self._size = min(self._largest, self._size + 1)
        end_release(tables, demand, offsets, room)
        return spent
