"""Exact where few jobs meet at a time: tables of the links, and jobs eliminated one by one.

A block is solved as a cost network (see `network`). Where its tables would become too large, one
of the jobs is given each of its offsets in turn, those with the least lower bound first, and what
is left is solved in the same way: depth first, with the bound of the tables.

Reference: Dechter, "Bucket elimination: a unifying framework for reasoning", Artificial
Intelligence 113 (1999), 41-85, on elimination combined with conditioning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from metronome_opt.kernels.tables import Ints
from metronome_opt.solvers.network import Eliminated, Network, build, decide, eliminate
from metronome_opt.solvers.parts import solve_in_parts
from metronome_opt.solvers.search import Search

_SOURCE = "elimination"
_MOST_CELLS = 2**20  # of a table, in a node below the root
_MOST_CELLS_AT_ROOT = 2**23


@dataclass
class _Branching:
    """A network in which one job is given its offsets in turn.

    Attributes
    ----------
    gone
        Jobs that were eliminated before.
    job, entries, floors
        The job, places in its domain, most promising first, and the floors that they lead to.
    following
        Which of them comes next.
    """

    network: Network
    gone: tuple[Eliminated, ...]
    job: int
    entries: Ints
    floors: Ints
    following: int = 0

    def bound(self) -> int | None:
        """Return a lower bound of what has not been looked at, in units; None if nothing is."""
        return int(self.floors[self.following]) if self.following < len(self.floors) else None


def run(search: Search) -> None:
    """Solve block by block."""
    solve_in_parts(search, prove)


def prove(search: Search) -> None:
    """Search from the incumbent until it is proved or the search is stopped.

    Raises
    ------
    ModelTooLargeError
        If costs do not fit 64-bit integers.
    """
    root, gone = eliminate(search, build(search), _MOST_CELLS_AT_ROOT, _MOST_CELLS_AT_ROOT)
    below = search.below(search.instance)  # its bounds are those of a part only
    path: list[_Branching] = []
    _settle_or_branch(search, path, root, tuple(gone))
    while not search.stopped:
        limit = _limit(search, root)
        while path and not _promises(path[-1], limit):
            path.pop()
        ahead = (each.bound() for each in path)
        floor = min((bound for bound in ahead if bound is not None), default=limit + 1)
        search.raise_bound(min(floor, limit + 1) * root.scale, _SOURCE)
        if not path:
            break
        here = path[-1]
        network = here.network.given(here.job, int(here.entries[here.following]))
        network = replace(network, limit=limit)
        network, gone = eliminate(below, network, _MOST_CELLS, _MOST_CELLS)
        if not search.stopped:
            here.following += 1
            _settle_or_branch(search, path, network, (*here.gone, *gone))


def _promises(here: _Branching, limit: int) -> bool:
    """Return whether there may be better schedules in what has not been looked at."""
    bound = here.bound()
    return bound is not None and bound <= limit


def _limit(search: Search, network: Network) -> int:
    """Return the most units that a schedule better than the incumbent of now may have."""
    return int((search.incumbent or Fraction(0)) / network.scale) - 1


def _settle_or_branch(
    search: Search, path: list[_Branching], network: Network, gone: tuple[Eliminated, ...]
) -> None:
    """Offer what is solved, branch on what is not, leave what cannot be better."""
    if network.slack < 0 or search.stopped:
        return
    if network.solved:
        left = [int(domain[0]) for domain in network.domains]
        search.offer(decide(gone, left), _SOURCE)
        return
    job = _job_to_branch_on(network)
    floors = np.full(network.sizes[job], network.floor, dtype=np.int64)
    for cost in network.costs:
        if job in cost.scope and cost.excess is not None:
            floors += cost.least([job])
    entries = np.argsort(floors, kind="stable")
    entries = entries[floors[entries] <= network.limit]
    if len(entries):
        path.append(_Branching(network, gone, job, entries, floors[entries]))


def _job_to_branch_on(network: Network) -> int:
    """Return a job on many links that have no table, and with few offsets."""
    missing = [cost for cost in network.costs if cost.excess is None]

    def worth(job: int) -> float:
        without = sum(job in cost.scope for cost in missing)
        with_one = sum(job in cost.scope for cost in network.costs)
        return (without + 0.1 * with_one) / math.log(network.sizes[job] + 1)

    return max((job for job, size in enumerate(network.sizes) if size > 1), key=worth)
