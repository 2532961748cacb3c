"""All schedules of a block that are worth having for several costs: a search that misses none.

One cost network for each cost, cut down by each other. The jobs are eliminated one after the other,
with rows of several costs (`network.relation`). Where that takes too many rows, one of the jobs is
given each of its offsets in turn and what is left is solved in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metronome_opt.kernels.tables import Ints
from metronome_opt.multiobjective.wanted import Wanted
from metronome_opt.solvers.network import Network, condition
from metronome_opt.solvers.network.agree import agree, hopeless
from metronome_opt.solvers.network.relation import (
    Relation,
    TooManyRowsError,
    floors,
    join,
    nondominated,
    relations,
    without,
)
from metronome_opt.solvers.search import Search

_STEPS = (2**12, 2**16, 2**20)  # cells of a table, small ones first
_MOST_ROWS = 2**20


class Nondominated:
    """The search.

    Parameters
    ----------
    searches
        One for each cost; they say when to stop.
    networks
        One for each cost, of the same jobs and domains.
    wanted
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
        wanted: Wanted,
        criteria: int,
    ) -> None:
        self._searches = list(searches)
        self._root = list(networks)
        self._wanted = wanted
        self._criteria = criteria
        self.nodes = 0

    def run(self) -> bool:
        """Search; return whether nothing that is wanted was missed."""
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
        job = _job_to_branch_on(agreed)
        for entry in np.argsort(agreed[-1].rises(job), kind="stable"):
            if self._stopped:
                return
            self._visit([condition(network.given(job, int(entry))) for network in agreed])

    def _cut_down(self, networks: Sequence[Network]) -> list[Network] | None:
        """Return the networks cut down, small tables first; None if nothing is wanted."""
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
            limits = self._wanted.limits(before)
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
                joint = join(joint, other, sizes, _MOST_ROWS)
                joint = self._hopeful(joint, [*mine[position + 1 :], *left], lows, sizes)
            joint = without(joint, job, sizes, self._criteria)
            if joint.scope:
                left.append(joint)
            else:
                whole = join(whole, joint, sizes, _MOST_ROWS)
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
                least, known = floors(relation, other, sizes)
                total = total + least
                alive &= known
        return relation.kept(alive & self._wanted.promising(total))

    def _offer(self, networks: Sequence[Network], found: Relation) -> None:
        lows = [network.floor for network in networks]
        for costs, chosen in zip(found.costs, found.chosen, strict=True):
            offsets = [int(domain[0]) for domain in networks[0].domains]
            for job, place in zip(found.gone, chosen, strict=True):
                offsets[job] = int(networks[0].domains[job][place])
            self._wanted.offer(
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
