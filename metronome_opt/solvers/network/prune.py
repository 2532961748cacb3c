"""Cells and offsets that no better schedule needs.

A cell of a table whose cost, together with the least that the other tables can cost beside it,
exceeds what a better schedule may have is in no such schedule; nor is an offset without cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metronome_opt.solvers.network.model import Cells, Cost, Network, spread
from metronome_opt.solvers.network.tables import SMALL, tabulate
from metronome_opt.solvers.search import Search

_ROUNDS = 6


def shrink(search: Search, network: Network, most_cells: int) -> Network:
    """Make tables, small ones first: each cuts down the domains that the next are made over.

    The bound is raised on the way. Ends early when the search does.

    Parameters
    ----------
    most_cells
        Of a table; all together may have twice as many.
    """
    while not search.stopped and network.slack >= 0:
        fitting = _fitting(network, most_cells)
        if not fitting:
            break
        for position in fitting:
            if not search.stopped:
                network = tabulate(search, network, position)
        network = prune(search, network)
        search.raise_bound(network.bound, "link tables")
    return network


def _fitting(network: Network, most_cells: int) -> list[int]:
    """Return which costs to tabulate next: all small ones, or else the least of the others."""
    cells = [network.cells(cost) for cost in network.costs]
    missing = [position for position, cost in enumerate(network.costs) if cost.excess is None]
    small = [position for position in missing if cells[position] <= min(SMALL, most_cells)]
    if small or not missing:
        return small
    least = min(missing, key=cells.__getitem__)
    made = sum(cells) - sum(cells[position] for position in missing)
    return [least] if cells[least] <= min(most_cells, 2 * most_cells - made) else []


def prune(search: Search, network: Network) -> Network:
    """Take out cells and offsets that are in no better schedule, until none is found.

    If there is no better schedule at all, the slack of what is returned is negative.
    """
    for _ in range(_ROUNDS):
        before = network
        costs = list(network.costs)
        for position, cost in enumerate(costs):
            if search.stopped or network.slack < 0:
                return network
            if cost.excess is not None:
                excess = _without_hopeless(position, costs, network.slack)
                costs[position] = replace(cost, excess=excess)
        network = _compressed(replace(network, costs=tuple(costs)))
        if network.floor == before.floor and network.sizes == before.sizes:
            break
    return network


def _without_hopeless(position: int, costs: Sequence[Cost], slack: int) -> Cells:
    """Return the table of a cost with every hopeless cell put above the slack."""
    cost = costs[position]
    assert cost.excess is not None  # noqa: S101 (the caller's choice)
    total = cost.excess
    for other in (*costs[:position], *costs[position + 1 :]):
        common = [job for job in other.scope if job in cost.scope]
        if other.is_known and common:
            total = total + spread(other.least(common), common, cost.scope)
    return np.where(total > slack, cost.excess.dtype.type(slack + 1), cost.excess)


def _compressed(network: Network) -> Network:
    """Leave out the offsets without a cell within the slack, and make the least excess 0 again."""
    kept = [np.ones(size, dtype=np.bool_) for size in network.sizes]
    for cost in network.costs:
        if cost.is_known:
            for job in cost.scope:
                kept[job] &= cost.least([job]) <= network.slack
    return network.within(kept)
