"""The cheapest ways to fill racks with tasks of a gang, offset by offset; uplinks come on top."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.cycle import Cycle
from metronome_opt.scheduling.gangs.tree import filled, packed

NEVER = 2**61
"""Dearer than anything that costs are counted in."""


class RackFill:
    """The tasks that a rack can take, the cheapest first.

    Parameters
    ----------
    cycle
        The gang.
    rack
        Index of the rack.

    Attributes
    ----------
    least
        What 0, 1, ... tasks cost on the interfaces, shape (n + 1, T), up to as many as the rack can
        take, or the gang has.
    holds
        How many it can take if they cross its uplink too.
    """

    def __init__(self, cycle: Cycle, rack: int) -> None:
        self._cycle = cycle
        self._uplink = int(cycle.uplinks[rack])
        self._nodes, most = self._candidates(rack)
        self.least: Ints = packed(cycle, self._nodes).cost[: most + 1]
        self.holds = min(len(self.least) - 1, int(cycle.lifted[rack]))

    def _candidates(self, rack: int) -> tuple[Ints, int]:
        """Return nodes of the rack, the fullest first, and how many tasks they can take."""
        cycle = self._cycle
        state, tasks = cycle.state, cycle.gang.tasks
        most = np.minimum(cycle.room, cycle.carried)
        nodes = np.flatnonzero((state.rack == rack) & (most > 0))
        nodes = nodes[np.argsort(state.free[nodes, 0], kind="stable")]
        links = state.interface[nodes]
        spare = (state.capacity - state.demand.highest)[links] // cycle.gang.peak
        for_nothing = spare.clip(0, most[nodes])
        if for_nothing.sum() >= tasks:  # at every offset, so that no others are needed
            enough = for_nothing.cumsum() - for_nothing < tasks
            return nodes[enough], tasks
        return nodes, min(int(most[nodes].sum()), tasks)

    @cached_property
    def lifted(self) -> Ints:
        """What 0, 1, ... tasks cost on interfaces and uplink, shape (tasks + 1, T).

        `NEVER` for more than the rack can take.
        """
        costs = np.full((self._cycle.gang.tasks + 1, self._cycle.period), NEVER, dtype=np.int64)
        costs[: self.holds + 1] = self.least[: self.holds + 1]
        if self._uplink >= 0:
            for count in range(1, self.holds + 1):
                costs[count] += self._cycle.row(self._uplink, count)
        return costs

    def nodes(self, tasks: int, offset: int) -> list[int]:
        """Return the node of each of the cheapest tasks at an offset."""
        return filled(self._cycle, self._nodes, tasks, offset)
