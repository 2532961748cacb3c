"""Several costs of the same schedules: what one of them cannot bear, none needs to look at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from metronome_opt.solvers.network.eliminate import prune, shrink
from metronome_opt.solvers.network.model import Network
from metronome_opt.solvers.search import Search


def agree(
    searches: Sequence[Search], networks: Sequence[Network], most_cells: int
) -> list[Network]:
    """Return the networks with tables, and with the cells and offsets that all of them allow.

    Parameters
    ----------
    searches, networks
        One per cost, of the same jobs; the searches only say when to stop.
    most_cells
        Of a table.
    """
    agreed = list(networks)
    while True:
        before = [(network.sizes, network.floor) for network in agreed]
        agreed = [
            shrink(search, prune(search, network), most_cells)
            for search, network in zip(searches, agreed, strict=True)
        ]
        if hopeless(agreed) or any(search.stopped for search in searches):
            return agreed
        agreed = _with_common_cells(_with_common_domains(agreed))
        if hopeless(agreed):
            return agreed
        if [(network.sizes, network.floor) for network in agreed] == before:
            return agreed


def hopeless(networks: Sequence[Network]) -> bool:
    """Return whether some cost is known to exceed its limit."""
    return any(network.slack < 0 for network in networks)


def _with_common_domains(networks: Sequence[Network]) -> list[Network]:
    common = [
        reduce(np.intersect1d, domains)
        for domains in zip(*(network.domains for network in networks), strict=True)
    ]
    sizes = tuple(map(len, common))
    return [
        network
        if network.sizes == sizes
        else network.within(
            [np.isin(mine, kept) for mine, kept in zip(network.domains, common, strict=True)]
        )
        for network in networks
    ]


def _with_common_cells(networks: Sequence[Network]) -> list[Network]:
    """Put what one network has above its slack above that of the others, link by link."""
    if hopeless(networks):
        return list(networks)
    places = defaultdict(list)
    for number, network in enumerate(networks):
        for position, cost in enumerate(network.costs):
            if cost.link is not None and cost.excess is not None and cost.scope:
                places[cost.link].append((number, position))
    costs = [list(network.costs) for network in networks]
    for shared in places.values():
        tables = [(number, position, costs[number][position].excess) for number, position in shared]
        alive = reduce(
            np.logical_and,
            [table <= networks[number].slack for number, _, table in tables if table is not None],
        )
        for number, position, table in tables:
            if table is not None:
                dead = table.dtype.type(networks[number].slack + 1)
                kept = costs[number][position].with_table(np.where(alive, table, dead))
                costs[number][position] = kept
    return [
        replace(network, costs=tuple(mine)) for network, mine in zip(networks, costs, strict=True)
    ]
