"""Compact places for a gang: one node, one rack, two racks, few racks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from metronome_opt.scheduling.cycle import Cycle, Partial
from metronome_opt.scheduling.gangs.fills import NEVER, RackFill
from metronome_opt.scheduling.option import fragments_of

_FEW = 8
"""Racks of which compact places are made."""


def compact_places(
    cycle: Cycle, fills: Sequence[RackFill], order: Sequence[int]
) -> Iterator[Partial]:
    """Yield places for all tasks: on one node, in one rack, in two racks, in few racks.

    The node is the one that leaves the fewest fragments. One rack and two are filled as cheaply as
    they can be, those that come first in `order`. Few racks are the fewest that cost nothing.

    Parameters
    ----------
    fills
        By index of the rack.
    order
        Racks, the most promising first.
    """
    tasks = cycle.gang.tasks
    alone = np.flatnonzero(cycle.room >= tasks).tolist()
    if alone:
        node = min(alone, key=lambda each: fragments_of(cycle, each, tasks))
        yield cycle.partial([node] * tasks)
    whole = [rack for rack in order if cycle.whole[rack]]
    whole.sort(key=lambda rack: int(fills[rack].least[tasks].min()))
    for rack in whole[:_FEW]:
        offset = int(fills[rack].least[tasks].argmin())
        yield cycle.partial(fills[rack].nodes(tasks, offset))
    if cycle.gang.most_racks != 1:
        for one, other in combinations([fills[rack] for rack in order[:_FEW]], 2):
            yield from _in_two(cycle, one, other)
        yield from _in_few(cycle, fills)


def _in_two(cycle: Cycle, one: RackFill, other: RackFill) -> Iterator[Partial]:
    """Yield the cheapest place in both of two racks, if there is one."""
    tasks = cycle.gang.tasks
    costs = one.lifted[1:tasks] + other.lifted[tasks - 1 : 0 : -1]
    if not costs.size or costs.min() >= NEVER:
        return
    row, offset = divmod(int(costs.argmin()), cycle.period)
    here = row + 1
    yield cycle.partial([*one.nodes(here, offset), *other.nodes(tasks - here, offset)])


def _in_few(cycle: Cycle, fills: Sequence[RackFill]) -> Iterator[Partial]:
    """Yield the place in the fewest racks of which none costs anything, if there is one."""
    tasks = cycle.gang.tasks
    limit = min(cycle.gang.most_racks or len(fills), len(fills))
    free = np.stack([(fill.lifted == 0).sum(axis=0) - 1 for fill in fills])
    largest_first = np.argsort(-free, axis=0, kind="stable")
    together = np.take_along_axis(free, largest_first, axis=0).cumsum(axis=0)
    racks = 1 + (together < tasks).sum(axis=0)
    offset = int(racks.argmin())
    if racks[offset] > limit:
        return
    nodes: list[int] = []
    for rack in largest_first[: racks[offset], offset].tolist():
        share = min(int(free[rack, offset]), tasks - len(nodes))
        nodes += fills[rack].nodes(share, offset)
    yield cycle.partial(nodes)


def promising(cycle: Cycle, fills: Sequence[RackFill]) -> list[int]:
    """Return the racks in the order of how much of half a gang they hold, and then how cheaply."""
    half = -(-cycle.gang.tasks // 2)

    def key(rack: int) -> tuple[int, int, int]:
        fill = fills[rack]
        share = min(half, fill.holds)
        return -share, int(fill.lifted[share].min()), rack

    return sorted(range(len(fills)), key=key)
