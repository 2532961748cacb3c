"""The non-dominated schedules of a block for several costs: a search that misses none.

One cost network for each cost, cut down by each other: what one of them cannot bear, none needs to
look at. The jobs are eliminated one after the other, with rows of several costs (`relations`).
Where that takes too many rows, one of the jobs is given its offsets one after the other and what is
left is solved in the same way. `Archive` says what is accepted, and which rows are dominated by
what has been found.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from metronome_opt.solvers.cost_network.eliminate import prune, shrink
from metronome_opt.solvers.cost_network.model import CostNetwork
from metronome_opt.solvers.cost_network.tables import condition
from metronome_opt.solvers.kernels.compiled_instance import Ints
from metronome_opt.solvers.multiobjective.costs import Offsets
from metronome_opt.solvers.multiobjective.relations import (
    Mask,
    Relation,
    TooManyRowsError,
    relations,
)
from metronome_opt.solvers.run import SolverRun

Values = tuple[int, ...]
_STEPS = (2**12, 2**16, 2**20)  # cells of a table, small ones first
_MAX_ROWS = 2**20


class Archive:
    """Non-dominated schedules for one or two criteria, the first of some costs.

    Parameters
    ----------
    limits
        The largest of each criterion that is accepted.
    held
        The largest of each cost after those, which is no criterion.

    Attributes
    ----------
    points
        Their criteria, ascending, each with its schedule.
    """

    def __init__(self, limits: Sequence[int], *, held: Sequence[int] = ()) -> None:
        self.max = tuple(limits)
        self.points: list[tuple[Values, Offsets]] = []
        self.held = tuple(held)
        self._rows: Ints = np.zeros((0, len(self.max)), dtype=np.int64)

    def add(self, values: Values, offsets: Offsets) -> bool:
        """Keep a schedule within the limits that no other is as good as; return whether it is."""
        within = all(mine <= limit for mine, limit in zip(values, self.max, strict=True))
        if not within or self._covers(np.array([values], dtype=np.int64))[0]:
            return False
        self.points = [
            (mine, kept)
            for mine, kept in self.points
            if not all(new <= old for new, old in zip(values, mine, strict=True))
        ]
        bisect.insort(self.points, (values, offsets))
        self._rows = np.array([mine for mine, _ in self.points], dtype=np.int64)
        return True

    def _covers(self, rows: Ints) -> Mask:
        """Return which rows a schedule is known for that is as good in every criterion."""
        if not len(self._rows):
            return np.zeros(len(rows), dtype=np.bool_)
        if rows.shape[1] == 1:
            return np.asarray(self._rows[0] <= rows[:, 0])
        # Where the first cost ascends the second one falls: the last that is as good in the first
        # is the best in the second.
        last = np.searchsorted(self._rows[:, 0], rows[:, 0], side="right") - 1
        covered = (last >= 0) & (self._rows[np.maximum(last, 0), 1] <= rows[:, 1])
        return np.asarray(covered)

    def limits(self, floors: Sequence[int]) -> Sequence[int] | None:
        """Return the largest of each cost that what is accepted above `floors` has, or None."""
        criteria = floors[: len(self.max)]
        if self._covers(np.array([criteria], dtype=np.int64))[0]:
            return None
        largest = list(self.max)
        for values, _ in self.points:
            for criterion in range(len(largest)):
                others = (i for i in range(len(largest)) if i != criterion)
                if all(values[i] <= criteria[i] for i in others):
                    largest[criterion] = min(largest[criterion], values[criterion] - 1)
        largest += self.held
        return largest if all(a <= b for a, b in zip(floors, largest, strict=True)) else None

    def promising(self, costs: Ints) -> Mask:
        """Return which rows of lower bounds, one column per cost, leave room for accepted ones."""
        count = len(self.max)
        mask = np.all(costs[:, :count] <= np.array(self.max), axis=1)
        mask &= ~self._covers(costs[:, :count])
        for column, limit in enumerate(self.held, start=count):
            mask &= costs[:, column] <= limit
        return np.asarray(mask)

    def offer(self, costs: Sequence[int], offsets: Sequence[int]) -> None:
        """Take a schedule, given all of its costs."""
        held = costs[len(costs) - len(self.held) :]
        if all(mine <= limit for mine, limit in zip(held, self.held, strict=True)):
            self.add(tuple(costs[: len(self.max)]), tuple(offsets))


class Nondominated:
    """The search.

    Parameters
    ----------
    search
        Of the same jobs; says when to stop.
    archive
        Takes schedules, and says which others are accepted.
    criteria
        How many of the costs make one row better than another; the others only bound.
    """

    def __init__(self, search: SolverRun, archive: Archive, criteria: int) -> None:
        self._search = search.below(search.instance)  # its bounds mean nothing
        self._archive = archive
        self._criteria = criteria
        self._nodes = 0

    def run(self, networks: Sequence[CostNetwork]) -> bool:
        """Search; return whether nothing that is accepted was missed.

        There is one network for each cost, of the same jobs and domains.
        """
        self._visit(networks)
        return not self._stopped

    @property
    def _stopped(self) -> bool:
        return self._search.stopped

    def _visit(self, networks: Sequence[CostNetwork]) -> None:
        self._nodes += 1
        agreed: list[CostNetwork] | None = list(networks)
        for max_cells in (*_STEPS, *([2**22] if self._nodes == 1 else [])):
            if agreed is not None:
                agreed = self._settled(agreed, max_cells)
        if agreed is None or self._stopped:
            return
        try:
            rows = self._eliminated(agreed)
        except TooManyRowsError:
            rows = None
        if rows is not None:
            self._offer(agreed, rows)
            return
        if self._stopped:  # perhaps with nothing left to branch on
            return
        job = _job_to_branch_on(agreed)
        for entry in np.argsort(agreed[-1].rises(job), kind="stable"):
            if self._stopped:
                return
            self._visit([condition(network.given(job, int(entry))) for network in agreed])

    def _settled(self, networks: Sequence[CostNetwork], max_cells: int) -> list[CostNetwork] | None:
        """Return the networks with tables, and with the cells and offsets that all of them allow.

        Their limits are those that hold above their floors.
        """
        settled = list(networks)
        while not (_hopeless(settled) or self._stopped):
            before = [(network.sizes, network.floor) for network in settled]
            limits = self._archive.limits([network.floor for network in settled])
            if limits is None:
                return None
            settled = [
                replace(network, limit=min(network.limit, limit))
                for network, limit in zip(settled, limits, strict=True)
            ]
            settled = [
                shrink(self._search, prune(self._search, network), max_cells) for network in settled
            ]
            settled = _with_common_cells(_with_common_domains(settled))
            if [(network.sizes, network.floor) for network in settled] == before:
                return None if _hopeless(settled) else settled
        return None

    def _eliminated(self, networks: Sequence[CostNetwork]) -> Relation | None:
        """Return the non-dominated rows of all jobs; None without tables of all links."""
        if any(cost.excess is None for network in networks for cost in network.costs):
            return None
        lows = np.array([network.floor for network in networks], dtype=np.int64)
        left = relations(networks)
        nothing = np.zeros((1, 0), dtype=np.int64)
        free = np.zeros((1, len(networks)), dtype=np.int64)
        whole = Relation(networks[0].sizes, (), nothing, free, (), nothing)
        left = [self._hopeful(each, left, lows) for each in left]
        while left:
            job = _job_to_eliminate(left)
            mine = sorted((each for each in left if job in each.scope), key=len)
            left = [each for each in left if job not in each.scope]
            joint = mine[0]
            for position, other in enumerate(mine[1:], start=1):
                if self._stopped:
                    return None
                joint = joint.join(other, _MAX_ROWS)
                joint = self._hopeful(joint, [*mine[position + 1 :], *left], lows)
            joint = joint.without(job, self._criteria)
            if joint.scope:
                left.append(joint)
            else:
                whole = whole.join(joint, _MAX_ROWS)
                whole = self._hopeful(whole, left, lows).nondominated(self._criteria)
        return whole

    def _hopeful(self, relation: Relation, others: Sequence[Relation], lows: Ints) -> Relation:
        """Return the rows that may be accepted beside the minimum costs of the others."""
        total = relation.costs + lows
        alive = np.ones(len(relation), dtype=np.bool_)
        for other in others:
            if other is not relation and set(other.scope) & set(relation.scope):
                smallest, known = relation.min_beside(other)
                total = total + smallest
                alive &= known
        return relation.kept(alive & self._archive.promising(total))

    def _offer(self, networks: Sequence[CostNetwork], rows: Relation) -> None:
        lows = [network.floor for network in networks]
        for costs, chosen in zip(rows.costs, rows.chosen, strict=True):
            offsets = [int(domain[0]) for domain in networks[0].domains]
            for job, place in zip(rows.gone, chosen, strict=True):
                offsets[job] = int(networks[0].domains[job][place])
            self._archive.offer(
                [low + int(cost) for low, cost in zip(lows, costs, strict=True)], offsets
            )


def _job_to_eliminate(left: Sequence[Relation]) -> int:
    """Return the job whose elimination leaves the smallest table, were all cells alive."""
    jobs = sorted({job for each in left for job in each.scope})

    def cells(job: int) -> int:
        around = {other for each in left if job in each.scope for other in each.scope}
        return math.prod(left[0].sizes[other] for other in around - {job})

    return min(jobs, key=cells)


def _job_to_branch_on(networks: Sequence[CostNetwork]) -> int:
    """Return a job with few offsets whose lower bounds differ much."""

    def split_gain(job: int) -> float:
        rises = [
            np.minimum(network.rises(job) / (network.slack + 1), 1).mean() for network in networks
        ]
        return float((max(rises) + 1e-3) / math.log(networks[0].sizes[job] + 1))

    return max((job for job, size in enumerate(networks[0].sizes) if size > 1), key=split_gain)


# ------------------------------------------------------------------ several networks


def _hopeless(networks: Sequence[CostNetwork]) -> bool:
    """Return whether some cost is known to exceed its limit."""
    return any(network.slack < 0 for network in networks)


def _with_common_domains(networks: Sequence[CostNetwork]) -> list[CostNetwork]:
    """Leave to each job the offsets that all networks leave it."""
    if _hopeless(networks):
        return list(networks)
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
    """Put what one network has above its slack above that of the others, link by link."""
    if _hopeless(networks):
        return list(networks)
    places = defaultdict(list)
    for number, network in enumerate(networks):
        for position, cost in enumerate(network.costs):
            if cost.link is not None and cost.excess is not None and cost.scope:
                places[cost.link].append((number, position, cost.excess))
    costs = [list(network.costs) for network in networks]
    for tables in places.values():
        within = [table <= networks[number].slack for number, _, table in tables]
        alive = reduce(np.logical_and, within)
        for number, position, table in tables:
            dead = table.dtype.type(networks[number].slack + 1)
            kept = costs[number][position].with_table(np.where(alive, table, dead))
            costs[number][position] = kept
    return [
        replace(network, costs=tuple(mine)) for network, mine in zip(networks, costs, strict=True)
    ]
