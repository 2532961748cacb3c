"""The best place of all, by dynamic programming over the tree of nodes and racks.

For a fixed offset of the job, what its tasks cost falls apart: into what they cost on each
interface, which depends on how many are on that node alone, and on each uplink, which depends on
how many are in that rack. This holds for links in conflict as for contention, and so for both of
them in one number. So the minimum cost of x tasks in a rack is a knapsack over its nodes, and
that of the whole gang one over the racks; O(nodes * tasks * tasks per node) for each offset. Only
whether interfaces and uplinks are used at all couples the nodes, and that makes three cases: one
node, one rack, several racks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metronome_opt.kernels.placing import merge, pack
from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.cycle import Cycle, PlaceDecision, decide

_NEVER = 2**61  # dearer than anything that costs are counted in
_RACK = 2**32  # the second criterion: racks first, then fragments

_Choice = tuple[tuple[int, int], Callable[[], list[int]]]
"""What a way to place all tasks costs by both criteria, and the node of each task."""


@dataclass(frozen=True)
class _Table:
    """Minimum cost of each number of tasks by offset, and what follows it, (tasks + 1, T) each."""

    cost: NDArray[Any]
    second: NDArray[Any]

    @classmethod
    def empty(cls, tasks: int, offsets: int) -> _Table:
        cost = np.full((tasks + 1, offsets), _NEVER, dtype=np.int64)
        cost[0] = 0
        return cls(cost, np.zeros_like(cost))

    def add(self, item: _Table, before: _Table) -> None:
        """Let some tasks come to one more place; `before` is without it."""
        merge(self.cost, self.second, before.cost, before.second, item.cost, item.second)

    def copy(self) -> _Table:
        return _Table(self.cost.copy(), self.second.copy())

    def at(self, offset: int) -> _Table:
        """Return the same for one offset."""
        return _Table(self.cost[:, [offset]], self.second[:, [offset]])

    def price(self, tasks: int) -> tuple[int, int]:
        """Return the entry of so many tasks, in a table of one offset."""
        return int(self.cost[tasks, 0]), int(self.second[tasks, 0])

    def best(self, tasks: int) -> tuple[int, int, int]:
        """Return the minimum cost of so many tasks, the second criterion, and an offset."""
        least = self.cost[tasks].min()
        offsets = np.flatnonzero(self.cost[tasks] == least)
        offset = int(offsets[self.second[tasks, offsets].argmin()])
        return int(least), int(self.second[tasks, offset]), offset


def place_on_tree(cycle: Cycle) -> PlaceDecision | None:
    """Return the best place there is, but for the order of nodes; None if there is no room.

    Conflicts, then contention, then racks, then fragments are the minimum over all nodes and
    offsets. Which of several such choices is taken is not specified, but it is always the same.
    """
    racks = [np.flatnonzero(cycle.state.rack == rack) for rack in range(len(cycle.holds))]
    choices = list(_choices(cycle, racks, [_packed(cycle, nodes) for nodes in racks]))
    if not choices:
        return None
    _, nodes = min(choices, key=lambda choice: choice[0])
    return decide(cycle, nodes())


def _choices(cycle: Cycle, racks: Sequence[Ints], tables: Sequence[_Table]) -> Iterator[_Choice]:
    """Yield the best way to be on one node, in each rack, and in several racks."""
    tasks, limit = cycle.gang.tasks, cycle.gang.most_racks
    alone = np.flatnonzero(cycle.room >= tasks).tolist()
    if alone:
        node = min(alone, key=lambda each: cycle.fragments(each, tasks))
        yield (0, _RACK + cycle.fragments(node, tasks)), partial(list, [node] * tasks)

    def spread(counts: dict[int, int], offset: int) -> list[int]:
        parts = (_filled(cycle, racks[rack], count, offset) for rack, count in counts.items())
        return [node for part in parts for node in part]

    for rack, table in enumerate(tables):
        cost, second, offset = table.best(tasks)
        if cost < _NEVER:
            yield (cost, second + _RACK), partial(spread, {rack: tasks}, offset)
    if limit == 1:
        return
    items = [_lifted(cycle, rack, table) for rack, table in enumerate(tables)]
    levels = _levels(tasks, limit, cycle.period)
    for item in items:
        _add(levels, item)
    cost, _, offset = min(level.best(tasks) for level in levels)
    if cost < _NEVER:
        shares, price = _shares(tasks, limit, [item.at(offset) for item in items])
        yield price, partial(spread, shares, offset)


def _packed(cycle: Cycle, nodes: Ints) -> _Table:
    """Return what numbers of tasks cost on some nodes that all use their interfaces."""
    table = _Table.empty(cycle.gang.tasks, cycle.period)
    most = np.minimum(cycle.room, cycle.carried)[nodes]
    nodes, most = nodes[most > 0], most[most > 0]
    if not len(nodes):
        return table
    counts = range(1, int(most.max()) + 1)
    rows = np.stack([cycle.rows(cycle.state.interface[nodes], count) for count in counts])
    rest = np.array(
        [[cycle.fragments(node, count) for node in nodes.tolist()] for count in (0, *counts)]
    )
    pack(table.cost, table.second, rows.astype(np.int64), most, rest)
    return table


def _lifted(cycle: Cycle, rack: int, table: _Table) -> _Table:
    """Return what numbers of tasks cost in a rack if they cross its uplink as well."""
    most = min(cycle.gang.tasks, int(cycle.lifted[rack]), int(cycle.holds[rack]))
    cost, second = table.cost[: most + 1].copy(), table.second[: most + 1] + _RACK
    second[0] -= _RACK
    if cycle.uplinks[rack] >= 0:
        for count in range(1, most + 1):
            cost[count] += cycle.row(int(cycle.uplinks[rack]), count)
    return _Table(cost, second)


def _levels(tasks: int, limit: int | None, offsets: int) -> list[_Table]:
    """Return a table for each number of racks up to a limit; without one they share one."""
    count = 1 if limit is None else min(limit, tasks) + 1
    return [_Table.empty(tasks, offsets) for _ in range(count)]


def _add(levels: list[_Table], item: _Table) -> None:
    if len(levels) == 1:
        levels[0].add(item, levels[0])
    for level in range(len(levels) - 1, 0, -1):
        levels[level].add(item, levels[level - 1])


def _shares(
    tasks: int, limit: int | None, items: Sequence[_Table]
) -> tuple[dict[int, int], tuple[int, int]]:
    """Return how many tasks come to which place at one offset, by going back over the tables."""
    levels = _levels(tasks, limit, 1)
    history = [[level.copy() for level in levels]]
    for item in items:
        _add(levels, item)
        history.append([level.copy() for level in levels])
    level = min(range(len(levels)), key=lambda each: levels[each].price(tasks))
    price = levels[level].price(tasks)
    counts: dict[int, int] = {}
    left = tasks
    for place in range(len(items) - 1, -1, -1):
        now, before = history[place + 1], history[place]
        if now[level].price(left) == before[level].price(left):
            continue
        lower = level if limit is None else level - 1
        for count in range(1, min(left, len(items[place].cost) - 1) + 1):
            rest, mine = before[lower].price(left - count), items[place].price(count)
            if (rest[0] + mine[0], rest[1] + mine[1]) == now[level].price(left):
                counts[place] = count
                left, level = left - count, lower
                break
    return counts, price


def _filled(cycle: Cycle, nodes: Ints, tasks: int, offset: int) -> list[int]:
    """Return the node of each of so many tasks where they cost the minimum on their interfaces."""
    tables = []
    for node in nodes.tolist():
        numbers = range(int(min(cycle.room[node], cycle.carried[node])) + 1)
        link = int(cycle.state.interface[node])
        cost = [int(cycle.row(link, count)[offset]) if count else 0 for count in numbers]
        second = [cycle.fragments(node, count) for count in numbers]
        tables.append(_Table(np.array(cost)[:, np.newaxis], np.array(second)[:, np.newaxis]))
    counts, _ = _shares(tasks, None, tables)
    return [int(nodes[place]) for place, count in counts.items() for _ in range(count)]
