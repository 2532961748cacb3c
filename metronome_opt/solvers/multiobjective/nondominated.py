"""The non-dominated schedules of a block for two costs: a search that misses none.

There is one cost network for each cost. What one of them cannot bear, the other need not look at;
so they cut each other down, together with a third, of a weighted sum of both. Then one of the jobs
is given its offsets one after the other, and what is left is solved in the same way, until all
schedules that are left can be looked at.

A schedule that is accepted is no worse in either cost than some *corner*, a pair of costs between
two known points that are neighbours. The sum is weighted along the line through the first and the
last corner, and what it costs at least, by elimination of jobs, cuts off the corners below; the
next sum has its weights from those that are left. Bounds of both costs alone leave all corners
between them.

References: Ehrgott and Gandibleux, "Bound sets for biobjective combinatorial optimization
problems", Computers & Operations Research 34 (2007), 2674-2694, on bounds by weighted sums; Ulungu
and Teghem, "The two phases method", Foundations of Computing and Decision Sciences 20 (1995),
149-165, on the triangles between neighbours.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import quote
from metronome_opt.solvers.cost_network.eliminate import (
    Eliminated,
    decide,
    eliminate,
    prune,
    shrink,
)
from metronome_opt.solvers.cost_network.model import Cost, CostNetwork, spread
from metronome_opt.solvers.cost_network.tables import condition, contention_cells
from metronome_opt.solvers.elimination import job_to_branch_on as rarest
from metronome_opt.solvers.kernels.compiled_instance import Ints, TooLargeError
from metronome_opt.solvers.multiobjective.costs import Offsets
from metronome_opt.solvers.run import SolverRun

Pair = tuple[int, int]
Cut = tuple[int, int, int]
"""Weights of both costs and what their sum is at least."""

_STEPS = (2**12, 2**16, 2**20)  # cells of a table, small ones first
AT_ROOT = (*_STEPS, 2**22)
_MAX_LEFT = 2**20  # of a table where jobs are eliminated
MAX_ENUMERATED = 2**18  # schedules
_SUMS = 4  # at a node, at most
_MAX_WEIGHT = 2**10  # of a cost in a sum
_LARGEST = 2**62


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

    def corners(self, floors: Pair, limits: Pair) -> list[Pair]:
        """Return the largest pairs of costs that are accepted, from `floors` to `limits`.

        What is accepted there is no more in either cost than one of them.
        """
        known = [values for values, _ in self.points]
        firsts = [*(values[0] - 1 for values in known), self.max[0]]
        seconds = [self.max[1], *(values[1] - 1 for values in known)]
        found: list[Pair] = []
        for one, other in zip(firsts, seconds, strict=True):
            first, second = min(one, limits[0]), min(other, limits[1])
            # Cut off at a limit, one may be within another.
            if first < floors[0] or second < floors[1] or (found and found[-1][0] == first):
                continue
            if found and found[-1][1] == second:
                found.pop()
            found.append((first, second))
        return found

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
    """The search; its archive takes schedules, and says which others are accepted.

    Parameters
    ----------
    search
        Run of the block; it says when to stop.
    archive
        Within the limits of the networks.
    values
        Returns both costs of a schedule.
    """

    def __init__(
        self, search: SolverRun, archive: Archive, values: Callable[[Offsets], Pair]
    ) -> None:
        self._search = search.subproblem(search.instance)  # its bounds mean nothing
        self._archive = archive
        self._values = values

    def run(
        self,
        networks: Sequence[CostNetwork],
        cuts: tuple[Cut, ...] = (),
        steps: Sequence[int] = _STEPS,
    ) -> bool:
        """Search two networks of the same jobs and domains; return whether nothing was missed."""
        settled = self.settle(networks, cuts, steps)
        if settled is not None and not self.stopped:
            self._branch(settled, cuts)
        return not self.stopped

    @property
    def stopped(self) -> bool:
        """Return True if something may be missed."""
        return self._search.stopped

    # ---------------------------------------------------------------- nodes

    def _branch(self, networks: Sequence[CostNetwork], cuts: tuple[Cut, ...]) -> None:
        """Look at all schedules if they are few; else give a job its offsets."""
        has_tables = all(cost.excess is not None for network in networks for cost in network.costs)
        if has_tables and math.prod(networks[0].sizes) <= MAX_ENUMERATED:
            self._enumerate(networks)
            return
        children = self._children(networks, cuts)
        if children is None:
            return
        job, floors = children
        for entry in np.argsort(floors[0][1], kind="stable"):
            if self.stopped:
                return
            below = (*cuts, *((*weights, int(floor[entry])) for weights, floor in floors))
            if self._corners(networks, below):
                self.run([condition(network.given(job, int(entry))) for network in networks], below)

    def _children(
        self, networks: Sequence[CostNetwork], cuts: tuple[Cut, ...]
    ) -> tuple[int, list[tuple[Pair, Ints]]] | None:
        """Return a job to branch on, and what weighted sums are at least at its offsets.

        None if no schedule is accepted.
        """
        job: int | None = None
        floors: list[tuple[Pair, Ints]] = []
        for _ in range(_SUMS):
            weighted = self._weighted(networks, cuts)
            if weighted is None:
                return None
            weights, mixed = weighted
            if any(weights == known for known, _ in floors[-1:]):
                break  # the corners are the same
            kept = () if job is None else (job,)
            left, gone = eliminate(self._search, mixed, _MAX_LEFT, _MAX_LEFT, kept=kept)
            if job is None and not (left.headroom < 0 or self.stopped):
                job = _job_to_branch_on([*networks, mixed]) if left.solved else rarest(left)
                if left.solved:
                    left, gone = eliminate(self._search, mixed, _MAX_LEFT, _MAX_LEFT, kept=(job,))
            if left.headroom < 0 or self.stopped or job is None:
                return None
            floor = np.full(networks[0].sizes[job], left.limit + 1, dtype=np.int64)
            place = np.searchsorted(networks[0].domains[job], left.domains[job])
            floor[place] = left.floor + left.rises(job)
            floors.append((weights, floor))
            cuts = (*cuts, (*weights, int(floor.min())))
            self._offer(left, gone, job, int(np.argmin(floor[place])))
        assert job is not None  # noqa: S101 (the first sum repeats none)
        return job, floors

    def _offer(self, left: CostNetwork, gone: Sequence[Eliminated], job: int, entry: int) -> None:
        """Offer the schedule of the minimum sum, if all jobs but one are decided."""
        if all(size == 1 for other, size in enumerate(left.sizes) if other != job):
            offsets = [int(domain[0]) for domain in left.domains]
            offsets[job] = int(left.domains[job][entry])
            schedule = tuple(decide(gone, offsets))
            self._archive.add(self._values(schedule), schedule)

    def _enumerate(self, networks: Sequence[CostNetwork]) -> None:
        """Offer all schedules that are left."""
        shape = networks[0].sizes
        totals = [np.full(shape, network.floor, dtype=np.int64) for network in networks]
        for total, network in zip(totals, networks, strict=True):
            for cost in network.costs:
                if cost.excess is not None:
                    total += spread(cost.excess, cost.scope, range(len(shape)))
        rows = np.stack([total.ravel() for total in totals], axis=1)
        # Of what is above a limit no more is known than that it is.
        within = np.all(rows <= np.array([network.limit for network in networks]), axis=1)
        accepted = np.flatnonzero(within & self._archive.promising(rows))
        accepted = accepted[np.lexsort((rows[accepted, 1], rows[accepted, 0]))]
        best = np.minimum.accumulate(rows[accepted, 1])
        for number in accepted[np.diff(best, prepend=best[:1] + 1) < 0]:
            cell = np.unravel_index(number, shape)
            offsets = tuple(
                int(domain[at]) for domain, at in zip(networks[0].domains, cell, strict=True)
            )
            self._archive.add((int(rows[number, 0]), int(rows[number, 1])), offsets)

    # ---------------------------------------------------------------- bounds

    def _corners(self, networks: Sequence[CostNetwork], cuts: Sequence[Cut]) -> list[Pair]:
        """Return the corners that are not cut off."""
        first, second = networks
        found = self._archive.corners((first.floor, second.floor), (first.limit, second.limit))
        return [
            corner
            for corner in found
            if all(one * corner[0] + other * corner[1] >= low for one, other, low in cuts)
        ]

    def _weighted(
        self, networks: Sequence[CostNetwork], cuts: Sequence[Cut]
    ) -> tuple[Pair, CostNetwork] | None:
        """Return the weights of the next sum and its network; None if all corners are cut off."""
        corners = self._corners(networks, cuts)
        if not corners:
            return None
        weights = _weights(corners, networks)
        limit = max(weights[0] * one + weights[1] * other for one, other in corners)
        return weights, self._mixed(networks, weights, limit)

    def _mixed(self, networks: Sequence[CostNetwork], weights: Pair, limit: int) -> CostNetwork:
        """Return the network of a weighted sum of two others, none above its limit."""
        first, second = networks
        others = {cost.link: cost for cost in second.costs if cost.scope}
        floor = sum(
            weight * network.floor for weight, network in zip(weights, networks, strict=True)
        )
        above = max(0, limit - floor) + 1

        def link_costs(link: int, domains: Sequence[Ints]) -> Ints | None:
            parts = [
                contention_cells(self._search, network.compiled, link, domains, network.scale)
                for network in networks
            ]
            one, other = parts
            if one is None or other is None:
                return None
            # What is above a limit is equal, and no product leaves 64 bits.
            capped = np.minimum(one, first.limit + 1), np.minimum(other, second.limit + 1)
            return np.asarray(weights[0] * capped[0] + weights[1] * capped[1])

        costs = []
        low_of_links = 0
        for cost in first.costs:
            if not cost.scope:
                continue
            other = others[cost.link]
            low = weights[0] * cost.low + weights[1] * other.low
            low_of_links += low
            here = replace(cost, low=low, excess=None, singles=())
            if cost.excess is not None and other.excess is not None:
                table = weights[0] * cost.excess.astype(np.int64)
                table += weights[1] * other.excess.astype(np.int64)
                dead = (cost.excess > first.headroom) | (other.excess > second.headroom)
                table = np.where(dead, above, np.minimum(table, above))
                here = here.with_table(table)
            elif cost.singles and other.singles:
                singles = tuple(
                    weights[0] * one.astype(np.int64) + weights[1] * two
                    for one, two in zip(cost.singles, other.singles, strict=True)
                )
                here = replace(here, singles=singles)
            costs.append(here)
        costs.append(Cost(None, floor - low_of_links, (), np.zeros((), dtype=np.int64)))
        return replace(
            first, costs=tuple(costs), limit=limit, dtype=np.int64, link_costs=link_costs
        )

    def settle(
        self, networks: Sequence[CostNetwork], cuts: Sequence[Cut], steps: Sequence[int]
    ) -> list[CostNetwork] | None:
        """Cut the networks down, with small tables first; None if no schedule is accepted."""
        settled: list[CostNetwork] | None = list(networks)
        for max_cells in steps:
            if settled is not None:
                settled = self._settled(settled, cuts, max_cells)
        return settled

    def _settled(
        self, networks: Sequence[CostNetwork], cuts: Sequence[Cut], max_cells: int
    ) -> list[CostNetwork] | None:
        """Return the networks with tables, cells and offsets that all of them allow."""
        settled = list(networks)
        while not self.stopped:
            before = [(network.sizes, network.floor) for network in settled]
            corners = [] if _hopeless(settled) else self._corners(settled, cuts)
            if not corners:
                return None
            settled = [
                replace(network, limit=min(network.limit, max(limits)))
                for network, limits in zip(settled, zip(*corners, strict=True), strict=True)
            ]
            settled = [
                shrink(self._search, prune(self._search, network), max_cells) for network in settled
            ]
            agreed = None if _hopeless(settled) or self.stopped else _agreed(settled)
            weighted = None if agreed is None else self._weighted(agreed, cuts)
            if agreed is None or weighted is None:
                return None
            mixed = prune(self._search, weighted[1])
            agreed = None if mixed.headroom < 0 else _agreed([*agreed, mixed])
            if agreed is None:
                return None
            settled = agreed[:2]
            if [(network.sizes, network.floor) for network in settled] == before:
                return settled
        return None


def _weights(corners: Sequence[Pair], networks: Sequence[CostNetwork]) -> Pair:
    """Return weights at which the first and the last corner cost the same; of one, by headroom.

    Raises
    ------
    TooLargeError
        If their sum does not fit 64-bit integers.
    """
    first, second = networks
    (one, high), (far, other) = corners[0], corners[-1]
    if len(corners) == 1:
        weights = (high - second.floor + 1, one - first.floor + 1)
    else:
        weights = (high - other, far - one)
    together = (first.limit + second.limit + 2) * (len(first.costs) + 3)
    largest = min(_MAX_WEIGHT, _LARGEST // together)
    if not largest:
        name = first.compiled.instance.name
        raise TooLargeError(
            f"the two objectives of {name} may reach {quote(together)} units together, which does "
            "not fit 64-bit integers; use coarser numbers"
        )
    if max(weights) <= largest:
        return weights
    scaled = [max(1, weight * largest // max(weights)) for weight in weights]
    return scaled[0], scaled[1]


def _agreed(networks: Sequence[CostNetwork]) -> list[CostNetwork] | None:
    """Return the networks with offsets and cells that all of them allow; None if none is left."""
    for cut_down in (_with_common_domains, _with_common_cells):
        networks = cut_down(networks)
        if _hopeless(networks):
            return None
    return list(networks)


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
    alive: dict[int, NDArray[np.bool_]] = {}
    for network in networks:
        for cost in network.costs:
            if cost.link is not None and cost.excess is not None:
                within = cost.excess <= network.headroom
                alive[cost.link] = within & alive.get(cost.link, within)

    def cut_down(cost: Cost, headroom: int) -> Cost:
        if cost.link is None or cost.excess is None:
            return cost
        dead = cost.excess.dtype.type(headroom + 1)
        return cost.with_table(np.where(alive[cost.link], cost.excess, dead))

    return [
        replace(network, costs=tuple(cut_down(cost, network.headroom) for cost in network.costs))
        for network in networks
    ]
