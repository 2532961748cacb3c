"""The non-dominated schedules of a block for two costs: a search that misses none.

There is one cost network for each cost. What one of them cannot bear, the other need not look at;
so they cut each other down. Then one of the jobs is given its offsets one after the other, and what
is left is solved in the same way. `Archive` says what is accepted beside what has been found.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from metronome_opt.solvers.cost_network.eliminate import prune, shrink
from metronome_opt.solvers.cost_network.model import CostNetwork
from metronome_opt.solvers.cost_network.tables import condition
from metronome_opt.solvers.kernels.compiled_instance import Ints
from metronome_opt.solvers.multiobjective.costs import Offsets
from metronome_opt.solvers.run import SolverRun

Pair = tuple[int, int]
_STEPS = (2**12, 2**16, 2**20)  # cells of a table, small ones first
_MAX_CELLS_AT_ROOT = 2**22


class Archive:
    """Non-dominated schedules with their two costs, within limits, ascending in the first."""

    def __init__(self, limits: Pair) -> None:
        self.max = limits
        self.points: list[tuple[Pair, Offsets]] = []

    def add(self, values: Pair, offsets: Offsets) -> None:
        """Keep a schedule that is accepted, in place of those that it dominates."""
        if self.promising(np.array([values], dtype=np.int64))[0]:
            self.points = [
                (mine, kept)
                for mine, kept in self.points
                if mine[0] < values[0] or mine[1] < values[1]
            ]
            bisect.insort(self.points, (values, offsets))

    def limits(self, floors: Pair) -> Pair | None:
        """Return the largest of each cost that what is accepted above `floors` has, or None."""
        first, second = self.max
        for values, _ in self.points:
            if values[1] <= floors[1]:
                first = min(first, values[0] - 1)
            if values[0] <= floors[0]:
                second = min(second, values[1] - 1)
        return (first, second) if floors[0] <= first and floors[1] <= second else None

    def promising(self, costs: Ints) -> NDArray[np.bool_]:
        """Return which rows of lower bounds, one column per cost, are accepted."""
        within = np.all(costs <= np.array(self.max), axis=1)
        if self.points:
            # Where the first cost ascends the second one falls: the last point that is as good in
            # the first is the best in the second.
            known = np.array([values for values, _ in self.points], dtype=np.int64)
            last = np.searchsorted(known[:, 0], costs[:, 0], side="right") - 1
            within &= (last < 0) | (known[np.maximum(last, 0), 1] > costs[:, 1])
        return np.asarray(within)


class Nondominated:
    """The search; its archive takes schedules, and says which others are accepted."""

    def __init__(self, search: SolverRun, archive: Archive) -> None:
        self._search = search.subproblem(search.instance)  # its bounds mean nothing
        self._archive = archive

    def run(self, networks: Sequence[CostNetwork]) -> bool:
        """Search networks of the same jobs and domains; return whether nothing was missed."""
        self._visit(networks, (*_STEPS, _MAX_CELLS_AT_ROOT))
        return not self._stopped

    @property
    def _stopped(self) -> bool:
        return self._search.stopped

    def _visit(self, networks: Sequence[CostNetwork], steps: Sequence[int] = _STEPS) -> None:
        agreed: list[CostNetwork] | None = list(networks)
        for max_cells in steps:
            if agreed is not None:
                agreed = self._settled(agreed, max_cells)
        if agreed is None or self._stopped:
            return
        if all(size == 1 for size in agreed[0].sizes):
            first, second = (network.floor for network in agreed)
            self._archive.add((first, second), tuple(int(d[0]) for d in agreed[0].domains))
            return
        job = _job_to_branch_on(agreed)
        for entry in np.argsort(agreed[-1].rises(job), kind="stable"):
            if self._stopped:
                return
            self._visit([condition(network.given(job, int(entry))) for network in agreed])

    def _settled(self, networks: Sequence[CostNetwork], max_cells: int) -> list[CostNetwork] | None:
        """Return the networks with tables, cells and offsets that all of them allow."""
        settled = list(networks)
        while not (_hopeless(settled) or self._stopped):
            before = [(network.sizes, network.floor) for network in settled]
            limits = self._archive.limits((settled[0].floor, settled[1].floor))
            if limits is None:
                return None
            settled = [
                replace(network, limit=min(network.limit, limit))
                for network, limit in zip(settled, limits, strict=True)
            ]
            settled = [
                shrink(self._search, prune(self._search, network), max_cells) for network in settled
            ]
            if not _hopeless(settled):
                settled = _with_common_domains(settled)
            if not _hopeless(settled):
                settled = _with_common_cells(settled)
            if [(network.sizes, network.floor) for network in settled] == before:
                return None if _hopeless(settled) else settled
        return None


def _job_to_branch_on(networks: Sequence[CostNetwork]) -> int:
    """Return a job with few offsets whose lower bounds differ much."""

    def split_gain(job: int) -> float:
        rises = [
            np.minimum(network.rises(job) / (network.headroom + 1), 1).mean()
            for network in networks
        ]
        return float((max(rises) + 1e-3) / math.log(networks[0].sizes[job] + 1))

    return max((job for job, size in enumerate(networks[0].sizes) if size > 1), key=split_gain)


def _hopeless(networks: Sequence[CostNetwork]) -> bool:
    """Return whether some cost is known to exceed its limit."""
    return any(network.headroom < 0 for network in networks)


def _with_common_domains(networks: Sequence[CostNetwork]) -> list[CostNetwork]:
    """Leave to each job the offsets that all networks leave it."""
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


def _with_common_cells(networks: Sequence[CostNetwork]) -> list[CostNetwork]:
    """Put what one network has above its headroom above that of the others, link by link."""
    places = defaultdict(list)
    for number, network in enumerate(networks):
        for position, cost in enumerate(network.costs):
            if cost.link is not None and cost.excess is not None and cost.scope:
                places[cost.link].append((number, position, cost.excess))
    costs = [list(network.costs) for network in networks]
    for tables in places.values():
        within = [table <= networks[number].headroom for number, _, table in tables]
        alive = reduce(np.logical_and, within)
        for number, position, table in tables:
            dead = table.dtype.type(networks[number].headroom + 1)
            kept = costs[number][position].with_table(np.where(alive, table, dead))
            costs[number][position] = kept
    return [
        replace(network, costs=tuple(mine)) for network, mine in zip(networks, costs, strict=True)
    ]
