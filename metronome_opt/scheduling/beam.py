"""Searches task by task: one place after the other, or several partial places side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.cycle import Cycle, Decision, Partial, decide
from metronome_opt.scheduling.nodes import (
    filter_nodes,
    network_costs,
    normalise,
    normalised,
    score_nodes,
)
from metronome_opt.scheduling.tree import NEVER, filled, packed

_FEW = 8  # racks of which compact places are made


def place_greedily(cycle: Cycle) -> Decision | None:
    """Filter, score, normalise and take the best node for each task, as a scheduler of pods does.

    None if there is no room: the filter lets no node pass that leaves none for the others.
    """
    partial = Partial()
    for _ in range(cycle.gang.tasks):
        ranking = rank_nodes(cycle, partial)
        if not ranking:
            return None
        partial = cycle.add(partial, ranking[0])
    return decide(cycle, partial)


def rank_nodes(cycle: Cycle, partial: Partial) -> list[int]:
    """Return the nodes that can take the next task of a gang, the best first."""
    nodes = filter_nodes(cycle, partial)
    scores = score_nodes(cycle, partial, nodes).score
    network = normalised(network_costs(cycle, partial, nodes))
    hosts = cycle.state.cluster.nodes
    order = normalise([hosts[node].name for node in nodes.tolist()], scores, network)
    return [int(nodes[index]) for index in order]


def place_by_beam(cycle: Cycle, *, width: int = 8, branching: int = 8) -> Decision | None:
    """Return the best place that a beam search finds, None if there is no room.

    Tasks are alike, so that a partial place is how many are on which node. It is ranked by what it
    will cost at least: what its tasks cost at some offset, and the cheapest interfaces for the
    others at the same offset. Compact places and that of `place_greedily` are looked at too, so
    that it is never worse than these.

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
    fills = [_RackFill(cycle, rack) for rack in range(len(cycle.whole))]
    half = -(-cycle.gang.tasks // 2)

    def promise(rack: int) -> tuple[int, int, int]:
        """How much of half a gang a rack holds, and then how cheaply."""
        share = min(half, fills[rack].holds)
        return -share, int(fills[rack].lifted[share].min()), rack

    order = sorted(range(len(fills)), key=promise)
    places = [*_compact_places(cycle, fills, order), *_beam(cycle, fills, order, width, branching)]
    found = [greedy, *(decide(cycle, place) for place in places)]
    return min(found, key=lambda decision: decision.price)


def _beam(
    cycle: Cycle, fills: Sequence[_RackFill], order: Sequence[int], width: int, branching: int
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
    nodes = filter_nodes(cycle, partial)
    costs = score_nodes(cycle, partial, nodes).least
    rack = cycle.state.rack[nodes]
    network = network_costs(cycle, partial, nodes)
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

    def __init__(self, cycle: Cycle, fills: Sequence[_RackFill]) -> None:
        self._cycle, self._fills = cycle, fills
        single = np.concatenate([np.diff(fill.least, axis=0) for fill in fills])
        cheapest = np.sort(single, axis=0)[: cycle.gang.tasks]
        self._anywhere = np.zeros((len(cheapest) + 1, cycle.period), dtype=np.int64)
        self._anywhere[1:] = cheapest.cumsum(axis=0)

    def rank(self, partial: Partial) -> tuple[int, int, int, tuple[tuple[int, int], ...]]:
        """Return what partial places of as many tasks are compared by, the least being the best."""
        fragments = sum(self._cycle.fragments(node, tasks) for node, tasks in partial.nodes.items())
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


# ------------------------------------------------------------------ compact places


class _RackFill:
    """The tasks that a rack can take, the cheapest first.

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
        """What 0, 1, ... tasks cost with the uplink too, (tasks + 1, T); `NEVER` above `holds`."""
        costs = np.full((self._cycle.gang.tasks + 1, self._cycle.period), NEVER, dtype=np.int64)
        costs[: self.holds + 1] = self.least[: self.holds + 1]
        if self._uplink >= 0:
            for count in range(1, self.holds + 1):
                costs[count] += self._cycle.row(self._uplink, count)
        return costs

    def nodes(self, tasks: int, offset: int) -> list[int]:
        """Return the node of each of the cheapest tasks at an offset."""
        return filled(self._cycle, self._nodes, tasks, offset)


def _compact_places(
    cycle: Cycle, fills: Sequence[_RackFill], order: Sequence[int]
) -> Iterator[Partial]:
    """Yield places for all tasks: on one node, in one rack, in two racks, in few racks.

    The node is the one that leaves the fewest fragments. One rack and two are filled as cheaply as
    they can be, those that come first in `order`. Few racks are the fewest that cost nothing.
    """
    tasks = cycle.gang.tasks
    alone = np.flatnonzero(cycle.room >= tasks).tolist()
    if alone:
        yield cycle.partial([min(alone, key=lambda node: cycle.fragments(node, tasks))] * tasks)
    whole = [rack for rack in order if cycle.whole[rack]]
    whole.sort(key=lambda rack: int(fills[rack].least[tasks].min()))
    for rack in whole[:_FEW]:
        offset = int(fills[rack].least[tasks].argmin())
        yield cycle.partial(fills[rack].nodes(tasks, offset))
    if cycle.gang.most_racks != 1:
        for one, other in combinations([fills[rack] for rack in order[:_FEW]], 2):
            costs = one.lifted[1:tasks] + other.lifted[tasks - 1 : 0 : -1]
            if costs.size and costs.min() < NEVER:
                row, offset = divmod(int(costs.argmin()), cycle.period)
                rest = other.nodes(tasks - row - 1, offset)
                yield cycle.partial([*one.nodes(row + 1, offset), *rest])
        yield from _in_few_racks(cycle, fills)


def _in_few_racks(cycle: Cycle, fills: Sequence[_RackFill]) -> Iterator[Partial]:
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
