"""The non-dominated schedules of a block for several costs: a search that misses none.

One cost network for each cost, cut down by each other. The jobs are eliminated one after the other,
with rows of several costs (`network.relation`). Where that takes too many rows, one of the jobs is
given each of its offsets in turn and what is left is solved in the same way. `Archive` says what is
accepted, and which rows are dominated by what has been found.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from metronome_opt.kernels.tables import Ints
from metronome_opt.solvers.network import Network, condition
from metronome_opt.solvers.network.agree import agree, hopeless
from metronome_opt.solvers.network.relation import (
    Mask,
    Relation,
    TooManyRowsError,
    floors,
    join,
    nondominated,
    relations,
    without,
)
from metronome_opt.solvers.search import Search

Offsets = tuple[int, ...]
Values = tuple[int, ...]
_STEPS = (2**12, 2**16, 2**20)  # cells of a table, small ones first
_MAX_ROWS = 2**20


@dataclass(frozen=True)
class Slope:
    """A further cost that is a sum of two criteria.

    Attributes
    ----------
    prices
        What a unit of each criterion counts in it.
    per_unit
        How much of that sum is one of its units.
    """

    prices: tuple[int, int]
    per_unit: Fraction

    def units(self, values: Sequence[int]) -> int:
        """Return the whole units of the sum."""
        total = sum(price * value for price, value in zip(self.prices, values, strict=True))
        return int(total / self.per_unit)

    def limit(self, archive: Archive) -> int:
        """Return the most that accepted schedules come to, at least 0."""
        corners = archive.corners((0, 0), archive.max)
        return max(map(self.units, corners), default=0)


class Archive:
    """Schedules of which none is as good as another in all criteria: the first of some costs.

    Parameters
    ----------
    limits
        The largest of each criterion that is accepted.
    slope
        The cost after the criteria, if it is a sum of them.
    held
        The largest of each cost after those, which is no criterion.

    Attributes
    ----------
    points
        Their criteria, ascending, each with its schedule.
    """

    def __init__(
        self, limits: Sequence[int], *, slope: Slope | None = None, held: Sequence[int] = ()
    ) -> None:
        self.max = tuple(limits)
        self.points: list[tuple[Values, Offsets]] = []
        self.slope = slope
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
        if rows.shape[1] != 2:
            return np.asarray(np.any([(mine <= rows).all(axis=1) for mine in self._rows], axis=0))
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
        if self.slope is not None:
            corners = self.corners(criteria, largest)
            if not corners:
                return None
            largest.append(max(map(self.slope.units, corners)))
        largest += self.held
        return largest if all(a <= b for a, b in zip(floors, largest, strict=True)) else None

    def corners(self, floors: Sequence[int], largest: Sequence[int]) -> list[Values]:
        """Return the worst that accepted schedules may be: one at least is as bad in everything."""
        inner = [values for values, _ in self.points]
        firsts = [*(values[0] - 1 for values in inner), largest[0]]
        seconds = [largest[1], *(values[1] - 1 for values in inner)]
        corners = {
            (min(first, largest[0]), min(second, largest[1]))
            for first, second in zip(firsts, seconds, strict=True)
        }
        return [
            corner
            for corner in corners
            if all(low <= high for low, high in zip(floors, corner, strict=True))
        ]

    def promising(self, costs: Ints) -> Mask:
        """Return which rows of lower bounds, one column per cost, leave room for accepted ones."""
        count = len(self.max)
        mask = np.all(costs[:, :count] <= np.array(self.max), axis=1)
        mask &= ~self._covers(costs[:, :count])
        further = list(self.held)
        if self.slope is not None:
            further.insert(0, self.slope.limit(self))
        for column, limit in enumerate(further, start=count):
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
    searches
        One for each cost; they say when to stop.
    networks
        One for each cost, of the same jobs and domains.
    archive
        Is offered what is found, and says what else is worth finding.
    criteria
        How many of the costs count; the others are sums of those and serve as bounds only.

    Attributes
    ----------
    nodes
        How many there were.
    """

    def __init__(
        self,
        searches: Sequence[Search],
        networks: Sequence[Network],
        archive: Archive,
        criteria: int,
    ) -> None:
        self._searches = list(searches)
        self._root = list(networks)
        self._archive = archive
        self._criteria = criteria
        self.nodes = 0

    def run(self) -> bool:
        """Search; return whether nothing that is accepted was missed."""
        self._visit(self._root)
        return not self._stopped

    @property
    def _stopped(self) -> bool:
        return any(search.stopped for search in self._searches)

    def _visit(self, networks: Sequence[Network]) -> None:
        self.nodes += 1
        agreed = self._cut_down(networks)
        if agreed is None or self._stopped:
            return
        try:
            found = self._eliminated(agreed)
        except TooManyRowsError:
            found = None
        if found is not None:
            self._offer(agreed, found)
            return
        if self._stopped:  # perhaps with nothing left to branch on
            return
        job = _job_to_branch_on(agreed)
        for entry in np.argsort(agreed[-1].rises(job), kind="stable"):
            if self._stopped:
                return
            self._visit([condition(network.given(job, int(entry))) for network in agreed])

    def _cut_down(self, networks: Sequence[Network]) -> list[Network] | None:
        """Return the networks cut down, small tables first; None if nothing is accepted."""
        agreed: list[Network] | None = list(networks)
        for most_cells in (*_STEPS, *([2**22] if self.nodes == 1 else [])):
            if agreed is not None:
                agreed = self._settled(agreed, most_cells)
        return agreed

    def _settled(self, networks: Sequence[Network], most_cells: int) -> list[Network] | None:
        """Return the networks with the limits that hold above their floors."""
        agreed = list(networks)
        while not (hopeless(agreed) or self._stopped):
            before = [network.floor for network in agreed]
            limits = self._archive.limits(before)
            if limits is None:
                return None
            limited = [
                replace(network, limit=min(network.limit, limit))
                for network, limit in zip(agreed, limits, strict=True)
            ]
            agreed = agree(self._searches, limited, most_cells)
            if [network.floor for network in agreed] == before:
                return None if hopeless(agreed) else agreed
        return None

    def _eliminated(self, networks: Sequence[Network]) -> Relation | None:
        """Return the non-dominated rows of all jobs; None without tables of all links."""
        if any(cost.excess is None for network in networks for cost in network.costs):
            return None
        sizes = networks[0].sizes
        lows = np.array([network.floor for network in networks], dtype=np.int64)
        left = relations(networks)
        whole = Relation((), _empty(1, 0), _empty(1, len(networks)), (), _empty(1, 0))
        left = [self._hopeful(each, left, lows, sizes) for each in left]
        while left:
            job = _job_to_eliminate(left, sizes)
            mine = sorted((each for each in left if job in each.scope), key=len)
            left = [each for each in left if job not in each.scope]
            joint = mine[0]
            for position, other in enumerate(mine[1:], start=1):
                if self._stopped:
                    return None
                joint = join(joint, other, sizes, _MAX_ROWS)
                joint = self._hopeful(joint, [*mine[position + 1 :], *left], lows, sizes)
            joint = without(joint, job, sizes, self._criteria)
            if joint.scope:
                left.append(joint)
            else:
                whole = join(whole, joint, sizes, _MAX_ROWS)
                whole = nondominated(self._hopeful(whole, left, lows, sizes), sizes, self._criteria)
        return whole

    def _hopeful(
        self, relation: Relation, others: Sequence[Relation], lows: Ints, sizes: Sequence[int]
    ) -> Relation:
        """Return the rows that may come to something, given what the others cost beside them."""
        total = relation.costs + lows
        alive = np.ones(len(relation), dtype=np.bool_)
        for other in others:
            if other is not relation and set(other.scope) & set(relation.scope):
                smallest, known = floors(relation, other, sizes)
                total = total + smallest
                alive &= known
        return relation.kept(alive & self._archive.promising(total))

    def _offer(self, networks: Sequence[Network], found: Relation) -> None:
        lows = [network.floor for network in networks]
        for costs, chosen in zip(found.costs, found.chosen, strict=True):
            offsets = [int(domain[0]) for domain in networks[0].domains]
            for job, place in zip(found.gone, chosen, strict=True):
                offsets[job] = int(networks[0].domains[job][place])
            self._archive.offer(
                [low + int(cost) for low, cost in zip(lows, costs, strict=True)], offsets
            )


def _job_to_eliminate(left: Sequence[Relation], sizes: Sequence[int]) -> int:
    """Return the job whose elimination leaves the smallest table, were all cells alive."""
    jobs = sorted({job for each in left for job in each.scope})

    def cells(job: int) -> int:
        around = {other for each in left if job in each.scope for other in each.scope}
        return math.prod(sizes[other] for other in around - {job})

    return min(jobs, key=cells)


def _job_to_branch_on(networks: Sequence[Network]) -> int:
    """Return a job whose offsets differ much in what they cost at least, and are few."""

    def worth(job: int) -> float:
        rises = [
            np.minimum(network.rises(job) / (network.slack + 1), 1).mean() for network in networks
        ]
        return float((max(rises) + 1e-3) / math.log(networks[0].sizes[job] + 1))

    return max((job for job, size in enumerate(networks[0].sizes) if size > 1), key=worth)


def _empty(rows: int, columns: int) -> Ints:
    return np.zeros((rows, columns), dtype=np.int64)
