"""The cost network of a block.

The contention of a block is a sum of functions of few jobs each, one per link. Written out as
tables they can be compared, cut down by what is known of the optimum (`prune`), summed up over a
job's offsets once and for all (`eliminate`), and handed to a back end cell by cell. A link of many
jobs has no table, only a lower bound.

Such networks are known as weighted constraint satisfaction; see Cooper, de Givry, Sanchez, Schiex,
Zytnicki and Werner, "Soft arc consistency revisited", Artificial Intelligence 174 (2010), 449-478.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metronome_opt.solvers.kernels.compiled_instance import CompiledInstance, Ints

Cells = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Cost:
    """Cost of a link, or of several together.

    Attributes
    ----------
    link
        Index of the link among those that can be overloaded; None for what is left of several
        after a job was eliminated.
    low
        A lower bound in units, over the domains of the network; if there is a table, its minimum.
    scope
        The jobs whose offsets are chosen, ascending.
    excess
        The table: costs above `low`, shape (domain of each job of the scope), or None. Of what
        exceeds the headroom of the network no more is known than that it does.
    singles
        Without a table: what each job adds to `low` at least, by offset; empty if unknown.
    """

    link: int | None
    low: int
    scope: tuple[int, ...]
    excess: Cells | None
    singles: tuple[Cells, ...] = ()

    @property
    def is_known(self) -> bool:
        """Return True if anything but `low` is known."""
        return self.excess is not None or bool(self.singles)

    def with_table(self, excess: Cells) -> Cost:
        """Return the cost with another table above `low`, made such that its minimum is 0."""
        minimum = int(excess.min())
        return replace(
            self, low=self.low + minimum, excess=excess - excess.dtype.type(minimum), singles=()
        )

    def minimum(self, jobs: Sequence[int]) -> Cells:
        """Return the minimum excess at each combination of offsets of some jobs of the scope."""
        if self.excess is None:
            parts = [
                spread(single, [job], jobs)
                for job, single in zip(self.scope, self.singles, strict=True)
                if job in jobs
            ]
            return np.asarray(sum(parts))
        others = tuple(axis for axis, job in enumerate(self.scope) if job not in jobs)
        return np.asarray(self.excess.min(axis=others))


LinkCosts = Callable[[int, Sequence[Ints]], Cells | None]
"""Cost of a link in units at each combination of offsets, given its index and the offsets of each
of its users; None if there was no time."""


@dataclass(frozen=True)
class CostNetwork:
    """The schedules of a block that are better than the incumbent, up to rotation.

    Attributes
    ----------
    compiled
        The block.
    scale
        ``contention = units * scale``.
    domains
        Per job, the offsets that are left to it, ascending.
    costs
        What adds up to the contention.
    limit
        The maximum units of a better schedule.
    dtype
        What holds the sum of one cell of every table: no cell is ever more than the limit that the
        network was made with, and one.
    link_costs
        What a link costs, if it is more than its contention.
    pair_costs
        By link, what it costs beside that for pairs i < j of its jobs, in units, an array over
        ``offset_j - offset_i`` modulo its length; all together 0.
    """

    compiled: CompiledInstance
    scale: Fraction
    domains: tuple[Ints, ...]
    costs: tuple[Cost, ...]
    limit: int
    dtype: type[np.signedinteger[Any]]
    link_costs: LinkCosts | None = None
    pair_costs: Mapping[int, Mapping[tuple[int, int], Ints]] = field(default_factory=dict)

    @property
    def floor(self) -> int:
        """Units that every better schedule has at least."""
        return sum(cost.low for cost in self.costs)

    @property
    def headroom(self) -> int:
        """Units that a better schedule may have above the floor; negative if there is none."""
        return self.limit - self.floor

    @property
    def bound(self) -> Fraction:
        """A lower bound of the contention of every schedule, better than the incumbent or not."""
        return min(self.floor, self.limit + 1) * self.scale

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of offsets left to each job."""
        return tuple(len(domain) for domain in self.domains)

    @property
    def solved(self) -> bool:
        """Return True if no choice is left: the floor is reached by the only offsets there are."""
        known = all(cost.excess is not None for cost in self.costs)
        return self.headroom >= 0 and known and all(size == 1 for size in self.sizes)

    def having(self, position: int, cost: Cost) -> CostNetwork:
        """Return the network with another cost at `position`."""
        costs = (*self.costs[:position], cost, *self.costs[position + 1 :])
        return replace(self, costs=costs)

    def given(self, job: int, entry: int) -> CostNetwork:
        """Return the network with a job at one position in its domain."""
        costs = []
        for cost in self.costs:
            if job not in cost.scope:
                costs.append(cost)
            elif cost.excess is None:
                costs.append(replace(cost, singles=()))
            else:
                table = np.take(cost.excess, [entry], axis=cost.scope.index(job))
                costs.append(cost.with_table(table))
        domains = list(self.domains)
        domains[job] = domains[job][entry : entry + 1]
        return replace(self, costs=tuple(costs), domains=tuple(domains))

    def within(self, kept: Sequence[NDArray[np.bool_]]) -> CostNetwork:
        """Return the network with some offsets of each job; hopeless if a job has none left."""
        if not all(mask.any() for mask in kept):
            beyond = Cost(None, max(0, self.headroom + 1), (), np.zeros((), dtype=self.dtype))
            return replace(self, costs=(*self.costs, beyond))
        costs = []
        for cost in self.costs:
            if cost.excess is None or not cost.scope:
                pairs = zip(cost.scope, cost.singles, strict=False)
                singles = tuple(single[kept[job]] for job, single in pairs)
                costs.append(replace(cost, singles=singles))
                continue
            costs.append(cost.with_table(cost.excess[np.ix_(*(kept[job] for job in cost.scope))]))
        domains = tuple(domain[mask] for domain, mask in zip(self.domains, kept, strict=True))
        return replace(self, domains=domains, costs=tuple(costs))

    def rises(self, job: int) -> Ints:
        """Return what the network costs above its floor at least, with a job at each offset."""
        rises = np.zeros(self.sizes[job], dtype=np.int64)
        for cost in self.costs:
            if job in cost.scope and cost.is_known:
                rises += cost.minimum([job])
        return rises

    def cells(self, cost: Cost) -> int:
        """Return how many cells the table of `cost` has, or would have."""
        return math.prod(len(self.domains[job]) for job in cost.scope)


def spread(table: Cells, scope: Sequence[int], wider: Sequence[int]) -> Cells:
    """Return a table over `scope` in a form that adds to one over `wider`, both ascending."""
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if job in scope else 1 for job in wider])
