"""Cost tables over combinations of offsets, for several costs at once.

Where one cost is to be minimised, a table keeps the minimum for each combination of offsets
(`eliminate`). Of several costs there is no minimum: every combination keeps all those that no other
is as good as in everything. They are few where the offsets that are left are few, so they are kept
as rows, and only those that may still come to something.

Reference: Rollon and Larrosa, "Bucket elimination for multiobjective optimization problems",
Journal of Heuristics 12 (2006), 307-328.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from metronome_opt.solvers.cost_network.model import CostNetwork
from metronome_opt.solvers.kernels.compiled_instance import Ints

Mask = NDArray[np.bool_]
_MAX_KEYS = 2**62


class TooManyRowsError(Exception):
    """A relation would take more rows than are allowed."""


@dataclass(frozen=True)
class Relation:
    """Combinations of offsets and what they cost.

    Attributes
    ----------
    sizes
        How many offsets each job has, in the scope or not.
    scope
        The jobs that are still to be agreed upon.
    places
        Where each job of the scope is in its domain, shape (rows, jobs of the scope).
    costs
        Excess of each cost, in its units, shape (rows, costs).
    gone, chosen
        The jobs that were eliminated, and where in their domains they are, shape (rows, jobs gone).
    """

    sizes: tuple[int, ...]
    scope: tuple[int, ...]
    places: Ints
    costs: Ints
    gone: tuple[int, ...]
    chosen: Ints

    def __len__(self) -> int:
        return len(self.costs)

    def kept(self, mask: Mask | Ints) -> Relation:
        """Return some of the rows."""
        return replace(
            self, places=self.places[mask], costs=self.costs[mask], chosen=self.chosen[mask]
        )

    def join(self, other: Relation, max_rows: int) -> Relation:
        """Return all rows of both that agree on the jobs that they share; costs are added.

        Raises
        ------
        TooManyRowsError
            If that makes more than `max_rows`.
        """
        common = [job for job in self.scope if job in other.scope]
        mine, theirs = self._keys(common), other._keys(common)
        order = np.argsort(theirs, kind="stable")
        ranked = theirs[order]
        first = np.searchsorted(ranked, mine, side="left")
        count = np.searchsorted(ranked, mine, side="right") - first
        rows = int(count.sum())
        if rows > max_rows:
            raise TooManyRowsError
        left = np.repeat(np.arange(len(self)), count)
        within = np.arange(rows) - np.repeat(np.cumsum(count) - count, count)
        right = order[np.repeat(first, count) + within]
        new = [column for column, job in enumerate(other.scope) if job not in common]
        return Relation(
            self.sizes,
            (*self.scope, *(other.scope[column] for column in new)),
            np.concatenate([self.places[left], other.places[right][:, new]], axis=1),
            self.costs[left] + other.costs[right],
            (*self.gone, *other.gone),
            np.concatenate([self.chosen[left], other.chosen[right]], axis=1),
        )

    def min_beside(self, other: Relation) -> tuple[Ints, Mask]:
        """Return the minimum costs of `other` beside each row, and where it has rows at all.

        Returns
        -------
        tuple
            Minimum of each cost, shape (rows, costs), and a mask of the rows.
        """
        common = [job for job in self.scope if job in other.scope]
        keys, inverse = np.unique(other._keys(common), return_inverse=True)
        minimum = np.full((len(keys), other.costs.shape[1]), np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(minimum, inverse, other.costs)
        mine = self._keys(common)
        at = np.minimum(np.searchsorted(keys, mine), max(0, len(keys) - 1))
        known = keys[at] == mine if len(keys) else np.zeros(len(self), dtype=np.bool_)
        return np.where(known[:, None], minimum[at] if len(keys) else 0, 0), known

    def without(self, job: int, criteria: int) -> Relation:
        """Return the rows without a job: of those that agree on the rest, the non-dominated ones.

        The first `criteria` of the costs count.
        """
        column = self.scope.index(job)
        others = [place for place in range(len(self.scope)) if place != column]
        smaller = replace(
            self,
            scope=tuple(self.scope[place] for place in others),
            places=self.places[:, others],
            gone=(*self.gone, job),
            chosen=np.concatenate([self.chosen, self.places[:, [column]]], axis=1),
        )
        return smaller.nondominated(criteria)

    def nondominated(self, criteria: int) -> Relation:
        """Return, of the rows that agree on the scope, the non-dominated ones; see `without`."""
        return self.kept(_nondominated(self._keys(self.scope), self.costs[:, :criteria]))

    def _keys(self, jobs: Sequence[int]) -> Ints:
        """Return a number for each row that says where some jobs of the scope are."""
        if math.prod(self.sizes[job] for job in jobs) >= _MAX_KEYS:
            raise TooManyRowsError
        keys = np.zeros(len(self), dtype=np.int64)
        for job in jobs:
            keys = keys * self.sizes[job] + self.places[:, self.scope.index(job)]
        return keys


def relations(networks: Sequence[CostNetwork]) -> list[Relation]:
    """Return a relation for each set of jobs that costs are known of.

    Parameters
    ----------
    networks
        One for each cost, of the same jobs and domains; all costs have tables.
    """
    result: list[Relation] = []
    sizes = networks[0].sizes
    scopes = dict.fromkeys(
        cost.scope for network in networks for cost in network.costs if cost.scope
    )
    for scope in scopes:
        shape = tuple(sizes[job] for job in scope)
        tables = []
        alive: Mask = np.ones(shape, dtype=np.bool_)
        for network in networks:
            table = np.zeros(shape, dtype=np.int64)
            for cost in network.costs:
                if cost.scope == scope and cost.excess is not None:
                    table += cost.excess
            alive &= table <= network.slack
            tables.append(table)
        places = np.argwhere(alive)
        costs = np.stack([table[alive] for table in tables], axis=1)
        none = np.zeros((len(places), 0), dtype=np.int64)
        result.append(Relation(sizes, scope, places, costs, (), none))
    return result


def _nondominated(groups: Ints, costs: Ints) -> Ints:
    """Return rows such that no other of their group is at least as good in every cost."""
    if not len(groups):
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort((*costs.T[::-1], groups))
    groups, costs = groups[order], costs[order]
    starts = np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1))
    if costs.shape[1] == 1:
        return order[starts]
    if costs.shape[1] == 2:
        ranks = np.searchsorted(starts, np.arange(len(groups)), side="right")
        return order[_below_all_before(ranks, costs[:, 1])]
    kept: list[int] = []
    for begin, end in zip(starts, [*starts[1:], len(groups)], strict=True):
        mine: list[int] = []
        for row in range(begin, end):
            if not mine or not (costs[mine] <= costs[row]).all(axis=1).any():
                mine.append(row)
        kept += mine
    return order[kept]


def _below_all_before(groups: Ints, values: Ints) -> Mask:
    """Return which values are less than all before them in their group; groups ascend from 1."""
    if (int(values.max()) - int(values.min()) + 1) * (int(groups[-1]) + 1) >= _MAX_KEYS:
        values = np.unique(values, return_inverse=True)[1]
    # Later groups lie lower by more than the range of values: the running minimum begins anew.
    shifted = values - groups * (int(values.max()) - int(values.min()) + 1)
    running = np.minimum.accumulate(shifted)
    first: Mask = np.ones(len(values), dtype=np.bool_)
    first[1:] = shifted[1:] < running[:-1]
    return first
