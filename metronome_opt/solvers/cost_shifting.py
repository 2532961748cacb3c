"""Lower bounds of tangled links by shifting costs of pairs of jobs from link to link.

The optima of the links, each alone, are a weak bound where links share pairs of jobs: each link has
the differences of offsets that suit it. So each pair (i, j) that several links share gets a cost of
its own, an array over ``(offset_j - offset_i) mod gcd(T_i, T_j)``, at first 0. A link takes the
costs of its pairs, computes for each of them the minimum of the sum by its difference (the
*min-marginals*), and gives every pair an equal part of its own. What is left of the link is never
negative, so the minima of the pairs add up to a lower bound, which never falls. It is the dual of a
linear relaxation of the block, whose multipliers are these costs; costs of single jobs would not
help, since every link is free to rotate.

The differences of three pairs of three jobs add up to 0 around the triangle, as tensions around a
cycle do in periodic timetabling. No single link may know that, so triangles take part like links of
no contention wherever this raises the bound.

All costs are integers, of a finer unit than contention, rounded down. Marginals are asked for only
up to a limit above the present minimum of a link, which makes its search short; the bound holds.

References: Globerson and Jaakkola, "Fixing max-product: convergent message passing algorithms for
MAP LP-relaxations", NIPS 2007 (section 5, the updates of clusters); Sontag, Meltzer, Globerson,
Jaakkola and Weiss, "Tightening LP relaxations for MAP using message passing", UAI 2008 (triplets).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from metronome_opt.errors import describe_error
from metronome_opt.solvers.cost_network.model import Cost, CostNetwork
from metronome_opt.solvers.cost_network.tables import domains_of, scale_of
from metronome_opt.solvers.kernels.compiled_instance import (
    CompiledInstance,
    Ints,
    TooLargeError,
    compile_instance,
)
from metronome_opt.solvers.kernels.min_marginals import (
    LinkUsers,
    link_marginals,
    triangle_marginals,
)
from metronome_opt.solvers.proof import check_sum, link_bound
from metronome_opt.solvers.run import SolverRun, load_bound

_SOURCE = "cost shifting"
_MAX_CELLS = 2**30  # combinations of offsets on a link; of larger ones the own optimum counts
_SCORES = 32  # of a user that count as a node: a quarter of what they take, as they gain most
_LARGEST = 2**50  # sum of all costs: finer than contention, since a cost is parted with many pairs
_STAGES = (0.1, 0.03)  # of the gap, gained by a sweep: what ends a stage
_CLOSE = 0.1
_MIN_GAIN = 1e-4  # of the gap by a sweep

Pair = tuple[int, int]  # of jobs, ascending


class CostShifting:
    """Costs of the pairs of a block with an incumbent; the bound is reported to its search.

    `effort` counts in nodes of branch and bound. A `stage` ends when a sweep gains little; in the
    last one triangles take part. It is `exhausted` when a sweep gains next to nothing.
    """

    def __init__(self, search: SolverRun) -> None:
        self.search = search
        self.effort = 0
        self.exhausted = False
        self.stage = 0
        self._scores = 0
        self._budget = search.fraction(1.0)
        self._links: list[_Link] = []
        self._triangles: list[_Triangle] = []
        self._costs: dict[Pair, Ints] = {}

    def step(self) -> None:
        """Go through all links and triangles once."""
        if not self.search.stopped and self._has_begun():
            self._sweep()

    def _has_begun(self) -> bool:
        try:
            if not self._links:
                self._begin()
        except TooLargeError as error:
            self.search.notes.append(f"no cost shifting: {describe_error(error)}")
            self.exhausted = True
        return not self.exhausted

    def _sweep(self) -> None:
        before = self._bound
        for link in self._links:
            self._shift(link)
        for triangle in self._triangles if self.stage == len(_STAGES) else ():
            if not self.search.stopped:
                triangle.shift(self._costs)
        self.effort = self._scores // _SCORES
        self.search.raise_bound(min(self._steps_up, self._value) * self._unit, _SOURCE)
        if self.search.stopped:
            return
        capped = any(link.is_capped for link in self._links if link.shifts)
        gained = (self._bound - before) / max(1, self._value - self._bound)
        if capped:
            return
        if self.stage < len(_STAGES) and gained < _STAGES[self.stage]:
            self.stage += 1
        elif gained < _MIN_GAIN:
            self.exhausted = True

    def network(self) -> CostNetwork:
        """Return the block as a network of the links' shifted costs, those of the pairs shared out.

        Without triangles, so not within the last stage: only at its beginning.
        """
        search = self.search
        domains = domains_of(search.instance)
        holders = sorted(
            (link for link in self._links if link.shifts), key=lambda link: -link.cells
        )
        holder = {pair: link for link in holders for pair in self._pairs_of(link)}
        costs, pair_costs = [], {}
        for index, link in enumerate(self._links):
            scope = tuple(job for job in sorted(link.jobs) if len(domains[job]) > 1)
            mine = {pair: link.entry(link.costs, pair) for pair in self._pairs_of(link)}
            held = [pair for pair in mine if holder[pair] is link]
            low = link.low + sum(int(self._costs[pair].min()) for pair in held)
            pair_costs[index] = mine | {pair: mine[pair] + self._costs[pair] for pair in held}
            costs.append(Cost(index, low, scope, None))
        return CostNetwork(
            search.compiled,
            self._unit,
            domains,
            tuple(costs),
            self._value - 1,
            np.int64,
            pair_costs=pair_costs,
        )

    def _pairs_of(self, link: _Link) -> list[Pair]:
        if not link.shifts:
            return []
        return [pair for pair in combinations(sorted(link.jobs), 2) if pair in self._costs]

    def _begin(self) -> None:
        compiled = compile_instance(self.search.instance, common_scale=True)
        largest = check_sum(compiled)
        finer = max(1, _LARGEST // (largest + 1))
        tables = compiled.tables._replace(coefficients=compiled.tables.coefficients * finer)
        self._state = replace(compiled, tables=tables).empty()
        self._unit = Fraction(compiled.unit, int(compiled.tables.jobs["scale"][0]) * finer)
        self._multiple = int(scale_of(self.search.compiled) / self._unit)
        self._links = [_Link(compiled, index, self._unit) for index in range(len(compiled.links))]
        on: dict[Pair, set[int]] = defaultdict(set)
        for index, link in enumerate(self._links):
            if link.shifts:
                for pair in combinations(sorted(link.jobs), 2):
                    on[pair].add(index)
            else:
                own = link_bound(self.search, compiled.links[index].name)
                link.low = max(link.low, math.ceil(own / self._unit))
        for one, two, three in _triangles(on):
            if not on[one] & on[two] & on[three]:
                self._triangles.append(_Triangle(compiled, (one, two, three)))
        cyclic = {pair for triangle in self._triangles for pair in triangle.pairs}
        periods = compiled.tables.jobs["period"]
        for pair, links in on.items():
            if len(links) > 1 or pair in cyclic:
                size = math.gcd(*map(int, periods[list(pair)]))
                self._costs[pair] = np.zeros(size, dtype=np.int64)

    @property
    def is_close(self) -> bool:
        """Return True if the gap is small enough for elimination on shifted costs."""
        return self._value - self._bound < _CLOSE * self._value

    @property
    def _value(self) -> int:
        """The scaled value of the incumbent."""
        return int((self.search.incumbent or Fraction(0)) / self._unit)

    @property
    def _bound(self) -> int:
        low = sum(link.low for link in self._links)
        return low + sum(int(cost.min()) for cost in self._costs.values())

    @property
    def _steps_up(self) -> int:
        """The bound, rounded up to what contention can be."""
        return -(-self._bound // self._multiple) * self._multiple

    def _shift(self, link: _Link) -> None:
        """Give the cost of a link to its pairs."""
        if self.search.stopped or not link.shifts:
            return
        pairs = self._pairs_of(link)
        low = link.low + sum(int(self._costs[pair].min()) for pair in pairs)
        gap = max(1, self._value - self._bound)
        limit = low + max(1, int(link.reach * gap) // len(self._links))
        total = link.with_costs({pair: self._costs[pair] for pair in pairs})
        marginals = np.full_like(total, limit)
        done = 0
        steps = int(link.users.domain[1]) if len(link.jobs) > 2 else 1
        for part in self._budget.slices(steps):
            self._scores += link_marginals(
                self._state, link.users, total, marginals, done, done + part
            )
            done += part
        if done < steps:
            return
        minimum = int(marginals[0, 1, : link.users.divisor[0, 1]].min())
        link.is_capped = minimum == limit
        link.reach = 2 * link.reach if link.is_capped else max(1.0, link.reach / 2)
        link.low = 0 if pairs else minimum
        link.costs = total
        for pair in pairs:
            part_of = link.entry(marginals, pair) // len(pairs)
            link.subtract(pair, part_of)
            self._costs[pair] = part_of


class _Link:
    """A link that shifts its cost.

    Attributes
    ----------
    jobs, users
        In the order of placement: the longest period first, then ascending, so that what is scored
        last has many offsets.
    shifts
        Whether it has pairs, and few enough combinations of offsets that are no rotations.
    costs
        By pair of users and difference, what it has taken from the pairs less what it gave them.
    low
        A lower bound of what is left of it.
    reach
        How far above the present minimum marginals are asked for, in parts of the gap.
    is_capped
        Whether that was too little to find the minimum.
    """

    def __init__(self, compiled: CompiledInstance, index: int, unit: Fraction) -> None:
        tables, shared = compiled.tables, compiled.links[index]
        periods = tables.jobs["period"]
        longest, *others = sorted(shared.jobs, key=lambda job: -int(periods[job]))
        self.jobs = [longest, *reversed(others)]
        domains, uses, common = [], [], 1
        for job in self.jobs:
            period = int(periods[job])
            domains.append(math.gcd(period, common))
            common = math.lcm(common, period)
            first, end = tables.jobs["first_use"][job], tables.jobs["end_use"][job]
            uses.append(first + np.flatnonzero(tables.uses["link"][first:end] == index)[0])
        mine = periods[self.jobs]
        self.users = LinkUsers(
            job=np.array(self.jobs, dtype=np.int64),
            use=np.array(uses, dtype=np.int64),
            domain=np.array(domains, dtype=np.int64),
            divisor=np.gcd(mine[:, None], mine[None, :]),
        )
        self.cells = math.prod(domains)
        self.shifts = len(mine) > 1 and self.cells <= _MAX_CELLS
        self.low = math.ceil(load_bound(compiled, shared) / unit)
        self.reach = 1.0
        self.is_capped = True
        largest = int(self.users.divisor.max()) if self.shifts else 0
        self.costs = np.zeros((len(mine), len(mine), largest), dtype=np.int64)

    def with_costs(self, costs: dict[Pair, Ints]) -> Ints:
        """Return its costs of pairs with others added."""
        total = self.costs.copy()
        for pair, cost in costs.items():
            first, second = map(self.jobs.index, pair)
            if first < second:
                total[first, second, : len(cost)] += cost
            else:
                total[second, first, : len(cost)] += _reversed(cost)
        return total

    def entry(self, marginals: Ints, pair: Pair) -> Ints:
        """Return the marginals of a pair."""
        first, second = map(self.jobs.index, pair)
        size = self.users.divisor[first, second]
        if first < second:
            return np.asarray(marginals[first, second, :size])
        return _reversed(marginals[second, first, :size])

    def subtract(self, pair: Pair, cost: Ints) -> None:
        """Take a cost of a pair away from its own."""
        self.costs = self.with_costs({pair: -cost})


class _Triangle:
    """Three pairs of three jobs i < j < k: (i, j), (i, k) and (j, k)."""

    def __init__(self, compiled: CompiledInstance, pairs: tuple[Pair, Pair, Pair]) -> None:
        self.pairs = pairs
        (first, second), (_, third), _ = pairs
        one, two, three = (int(compiled.tables.jobs["period"][j]) for j in (first, second, third))
        both = math.lcm(one, two)
        self._domains = np.array([math.gcd(one, two), math.gcd(both, three)], dtype=np.int64)
        self._own: Sequence[Ints | int] = (0, 0, 0)  # costs, not negative in all

    def shift(self, costs: dict[Pair, Ints]) -> None:
        """Share out the costs of the pairs again, if this raises the bound."""
        given = [costs[pair] for pair in self.pairs]
        total = [cost + own for cost, own in zip(given, self._own, strict=True)]
        marginals = np.empty((3, max(map(len, given))), dtype=np.int64)
        minimum = triangle_marginals(total[0], total[1], total[2], self._domains, marginals)
        if minimum <= sum(int(cost.min()) for cost in given):
            return
        parts = [row[: len(cost)] // 3 for row, cost in zip(marginals, given, strict=True)]
        self._own = [cost - part for cost, part in zip(total, parts, strict=True)]
        costs.update(zip(self.pairs, parts, strict=True))


def load_marginals(search: SolverRun) -> None:
    """Load, or compile, the kernels."""
    search.offer([0] * len(search.instance.jobs))
    CostShifting(search).step()
    ones = np.ones(2, dtype=np.int64)
    triangle_marginals(ones, ones, ones, ones, np.ones((3, 2), dtype=np.int64))


def _triangles(pairs: Sequence[Pair] | dict[Pair, set[int]]) -> list[tuple[Pair, Pair, Pair]]:
    """Return all triples of pairs of three jobs."""
    after: dict[int, set[int]] = defaultdict(set)
    for one, other in pairs:
        after[one].add(other)
    return [
        ((one, two), (one, three), (two, three))
        for one, two in pairs
        for three in sorted(after[one] & after[two])
    ]


def _reversed(cost: Ints) -> Ints:
    """Return a cost by the difference the other way round."""
    return np.roll(cost[::-1], 1)
