"""Beam search: task by task as `greedy`, but with several partial places side by side.

Tasks are alike, so that a partial place is how many are on which node. It is ranked by what it will
cost at least: what its tasks cost at some offset, and the cheapest interfaces for the others at
the same offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.cycle import Cycle, Partial
from metronome_opt.scheduling.filtering import filter_nodes
from metronome_opt.scheduling.gangs.fills import RackFill
from metronome_opt.scheduling.gangs.greedy import place_greedily
from metronome_opt.scheduling.gangs.shapes import compact_places, promising
from metronome_opt.scheduling.option import Option, fragments_of, make_option
from metronome_opt.scheduling.overhead import gang_costs
from metronome_opt.scheduling.scoring import score_nodes

Rank = tuple[int, int, int, tuple[tuple[int, int], ...]]


def place_by_beam(cycle: Cycle, *, width: int = 8, branching: int = 8) -> Option | None:
    """Return the best option that a beam search finds, None if there is no room.

    Compact places and that of `greedy` are looked at too, so that it is never worse than these.

    Parameters
    ----------
    width
        How many partial places are kept for each number of tasks.
    branching
        How many nodes are tried for the next task of each.
    """
    greedy = place_greedily(cycle)
    if greedy is None:
        return None
    racks = range(len(cycle.whole))
    fills = [RackFill(cycle, rack) for rack in racks]
    order = promising(cycle, fills)
    places = [*compact_places(cycle, fills, order), *_beam(cycle, fills, order, width, branching)]
    options = [greedy, *(make_option(cycle, place) for place in places)]
    return min(options, key=lambda option: option.price)


def _beam(
    cycle: Cycle,
    fills: Sequence[RackFill],
    order: Sequence[int],
    width: int,
    branching: int,
) -> list[Partial]:
    outlook = _Outlook(cycle, fills)
    turn = np.empty(len(order), dtype=np.int64)
    turn[order] = np.arange(len(order))
    beam = [Partial()]
    for _ in range(cycle.gang.tasks):
        children = {}
        for partial in beam:
            for node in _candidates(cycle, partial, turn, branching):
                child = cycle.add(partial, node)
                children[frozenset(child.nodes.items())] = child
        beam = sorted(children.values(), key=outlook.rank)[:width]
    return beam


def _candidates(cycle: Cycle, partial: Partial, turn: Ints, branching: int) -> Iterator[int]:
    """Yield nodes for the next task, no more than half of them in one rack."""
    nodes = filter_nodes(cycle, partial).nodes
    costs = score_nodes(cycle, partial, nodes).least
    rack = cycle.state.rack[nodes]
    network = gang_costs(cycle, partial, nodes)
    ranking = np.lexsort((nodes, cycle.room[nodes], turn[rack], network, costs))
    left, in_rack = branching, Counter[int]()
    for node in nodes[ranking].tolist():
        index = int(cycle.state.rack[node])
        if 2 * in_rack[index] < branching:
            in_rack[index] += 1
            left -= 1
            yield node
        if not left:
            return


class _Outlook:
    """What partial places will cost at least, as a whole."""

    def __init__(self, cycle: Cycle, fills: Sequence[RackFill]) -> None:
        self._cycle = cycle
        self._fills = fills
        single = np.concatenate([np.diff(fill.least, axis=0) for fill in fills])
        cheapest = np.sort(single, axis=0)[: cycle.gang.tasks]
        self._anywhere = np.zeros((len(cheapest) + 1, cycle.period), dtype=np.int64)
        self._anywhere[1:] = cheapest.cumsum(axis=0)

    def rank(self, partial: Partial) -> Rank:
        """Return what partial places of as many tasks are compared by, the least being the best."""
        cycle = self._cycle
        fragments = sum(fragments_of(cycle, node, tasks) for node, tasks in partial.nodes.items())
        key = tuple(sorted(partial.nodes.items()))
        return self._least_cost(partial), len(partial.racks), fragments, key

    def _least_cost(self, partial: Partial) -> int:
        cycle, tasks = self._cycle, self._cycle.gang.tasks
        node, rack = next(iter(partial.nodes)), next(iter(partial.racks))
        if len(partial.nodes) == 1 and cycle.room[node] >= tasks:
            return 0
        interfaces = np.zeros(cycle.period, dtype=np.int64)
        for node, count in partial.nodes.items():
            interfaces += cycle.row(int(cycle.state.interface[node]), count)
        left = tasks - partial.tasks
        least = (interfaces + cycle.lift(partial.racks) + self._anywhere[left]).min()
        if len(partial.racks) == 1 and cycle.whole[rack]:
            least = min(least, (interfaces + self._fills[rack].least[left]).min())
        return int(least)
