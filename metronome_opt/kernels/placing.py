"""Costs of a job on many links of a cluster at once: the inner loops of placement.

Links share one hyperperiod, so that their demand is one array of shape (links, layers, H). What a
job adds to a link is a row of T numbers, one for each of its offsets; rows of the links that a job
crosses are added up, because it has one offset for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metronome_opt.kernels.compiling import inner, kernel
from metronome_opt.kernels.sliding import add_multiple, add_windows, fold
from metronome_opt.kernels.tables import Ints


class Burden(NamedTuple):
    """Demand of a job on a link, as the kernels read it."""

    period: int  # in slots
    ready: int
    phases: Ints  # start, length and rate of each burst of one flow, shape (bursts, 3)
    layers: Ints  # of demand that it competes with, from the lowest; -1 for an empty one
    prices: Ints  # what a unit of overload costs in each of them
    zeros: Ints  # shape (H,): demand of an empty layer
    conflict: int = 0  # counts on top, at every offset at which the job costs something on a link


@inner
def _add_cost(
    demand: Ints,
    capacity: int,
    highest: int,
    burden: Burden,
    flows: int,
    scratch: tuple[Ints, Ints, Ints],
    cost: Ints,
) -> None:
    """Add H times the contention that a job brings to one link to `cost`, by offset.

    `highest` is the largest entry of the lowest layer of demand; `scratch` are arrays of the type
    of `cost`, of T, T and 2 T entries.
    """
    folded, priced, prefix = scratch
    for p in range(burden.phases.shape[0]):
        rate = burden.phases[p, 2] * flows
        if highest + rate <= capacity:
            continue
        start, length = burden.phases[p, 0], burden.phases[p, 1]
        if burden.layers.shape[0] == 1:
            layer = burden.layers[0]
            fold(demand[layer] if layer >= 0 else burden.zeros, capacity, rate, folded)
            add_windows(folded, start, length, burden.prices[0], prefix, cost)
            continue
        priced[:] = 0
        for k in range(burden.layers.shape[0]):
            layer = burden.layers[k]
            fold(demand[layer] if layer >= 0 else burden.zeros, capacity, rate, folded)
            add_multiple(burden.prices[k], folded, priced)
        add_windows(priced, start, length, 1, prefix, cost)


@kernel
def cost_rows(
    demand: Ints,
    capacity: Ints,
    highest: Ints,
    burden: Burden,
    links: Ints,
    flows: int,
    rows: Ints,
) -> None:
    """Fill ``rows[i]`` with what a job costs on ``links[i]``, conflicts included, by offset.

    Parameters
    ----------
    demand
        Shape (all links, layers, H).
    highest
        The largest entry of the lowest layer of each link, shape (all links,).
    flows
        How many times the job's rate is put on a link.
    rows
        Out, shape (links, T), int32 or int64: H times the contention that is added.
    """
    period = rows.shape[1]
    scratch = (
        np.empty(period, rows.dtype),
        np.empty(period, rows.dtype),
        np.empty(2 * period, rows.dtype),
    )
    rows[:] = 0
    for i in range(links.shape[0]):
        link = links[i]
        _add_cost(demand[link], capacity[link], highest[link], burden, flows, scratch, rows[i])
        if burden.conflict:
            for o in range(period):
                if rows[i, o] > 0:
                    rows[i, o] += burden.conflict


@kernel
def merge(
    cost: Ints,
    second: Ints,
    before: Ints,
    before_second: Ints,
    item: Ints,
    item_second: Ints,
) -> None:
    """Let some of the tasks come to one more place, wherever that is better (min-plus product).

    Entry (x, o) of a table is the least cost of x tasks if the job has offset o, and the second
    criterion of the best such choice. ``cost`` takes whatever is less of itself and of ``before``
    with some tasks at the new place.

    Parameters
    ----------
    cost, second
        In and out, shape (tasks + 1, T).
    before, before_second
        The tables without the new place; may be the same arrays.
    item, item_second
        Of each number of tasks at the new place, shape (most there + 1, T).
    """
    tasks, offsets = cost.shape
    for x in range(tasks - 1, 0, -1):
        for k in range(1, min(item.shape[0] - 1, x) + 1):
            for o in range(offsets):
                value = before[x - k, o] + item[k, o]
                rest = before_second[x - k, o] + item_second[k, o]
                if value < cost[x, o] or (value == cost[x, o] and rest < second[x, o]):
                    cost[x, o] = value
                    second[x, o] = rest


@kernel
def pack(cost: Ints, second: Ints, rows: Ints, most: Ints, rest: Ints) -> None:
    """Let tasks come to nodes, one node after the other; see `merge`.

    Parameters
    ----------
    cost, second
        In and out, shape (tasks + 1, T).
    rows
        What k + 1 tasks cost on each node, by offset, shape (most of all, nodes, T).
    most
        How many tasks each node takes, shape (nodes,).
    rest
        The second criterion of k tasks on each node, shape (most of all + 1, nodes).
    """
    offsets = cost.shape[1]
    for node in range(most.shape[0]):
        item = np.zeros((most[node] + 1, offsets), np.int64)
        after = np.zeros((most[node] + 1, offsets), np.int64)
        for k in range(1, most[node] + 1):
            item[k] = rows[k - 1, node]
            after[k] = rest[k, node]
        merge(cost, second, cost, second, item, after)
