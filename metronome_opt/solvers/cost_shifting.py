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
no contention wherever this raises the bound; pairs that one link alone has get a cost then, too.
Several threads can go through the links of a sweep, whether or not these share pairs: a link works
with what the costs of its pairs are when it takes them, and adds what it gives them. A link of too
many jobs leaves out the least of them, since contention never falls when a job is added.

All costs are integers, of a finer unit than contention, rounded down. Marginals are asked for only
up to a limit above the present minimum of a link, which makes its search short; the bound holds.

References: Globerson and Jaakkola, "Fixing max-product: convergent message passing algorithms for
MAP LP-relaxations", NIPS 2007 (section 5, the updates of clusters); Sontag, Meltzer, Globerson,
Jaakkola and Weiss, "Tightening LP relaxations for MAP using message passing", UAI 2008 (triplets).
"""

from __future__ import annotations

import math
import threading
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
_MAX_CELLS = 2**30  # combinations of offsets on a link; of larger ones least jobs are omitted
_SCORES = 32  # of a user that count as a node: a quarter of what they take, as they gain most
_LARGEST = 2**50  # sum of all costs: finer than contention, since a cost is parted with many pairs
_STAGES = (0.1, 0.03)  # of the gap, gained by a sweep: what ends a stage
_CLOSE = 0.1
_MIN_GAIN = 1e-4  # of the gap by a sweep
# How far above the present minimum of a link marginals are asked for at first and at least, in
# parts of the gap. More take longer to find, and a link that has them all but raises its bound by
# that much, and asks for more next time.
_REACH = 0.25

Pair = tuple[int, int]  # of jobs, ascending


class CostShifting:
    """Costs of the pairs of a block with an incumbent; the bound is reported to its search.

    `effort` counts in nodes of branch and bound. A `stage` ends when a sweep gains little; in the
    last one triangles take part. It is `exhausted` when a sweep gains next to nothing. `networks`
    of shifted costs, for elimination, are added as stages end near the incumbent.
    """

    def __init__(self, search: SolverRun) -> None:
        self.search = search
        self.effort = 0
        self.exhausted = False
        self.stage = 0
        self.networks: list[CostNetwork] = []
        self._lock = threading.Lock()
        self._waiting: list[_Link] = []
        self._threads = 0  # at work
        self._scores = 0
        self._budget = search.fraction(1.0)
        self._links: list[_Link] = []
        self._triangles: list[_Triangle] = []
        self._costs: dict[Pair, Ints] = {}

    @property
    def is_busy(self) -> bool:
        """Return True if others are at work and no further thread is of help."""
        return self._threads > 0 and not self._waiting

    def step(self) -> None:
        """Go through all links and triangles once, or help another thread with the links."""
        with self._lock:
            if self.is_busy or self.search.stopped or not self._has_begun():
                return
            if self._threads == 0:
                self._before = self._reached = self._bound
                self._waiting = self._links[::-1]
            self._threads += 1
        while (link := self._next()) is not None:
            self._shift(link)
        with self._lock:
            is_last = self._threads == 1
            self._threads -= not is_last
        if is_last:
            self._finish()
            self._threads = 0

    def _next(self) -> _Link | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def _has_begun(self) -> bool:
        try:
            if not self._links:
                self._begin()
        except TooLargeError as error:
            self.search.notes.append(f"no cost shifting: {describe_error(error)}")
            self.exhausted = True
        return not self.exhausted

    def _finish(self) -> None:
        """Go through the triangles, report the bound, and end a stage if little was gained."""
        for triangle in self._triangles if self.stage == len(_STAGES) else ():
            if not self.search.stopped:
                triangle.shift(self._costs)
        self.effort = self._scores // _SCORES
        self.search.raise_bound(min(self._steps_up, self._value) * self._unit, _SOURCE)
        if self.search.stopped or any(link.is_capped for link in self._links if link.shifts):
            return
        gap = max(1, self._value - self._bound)
        gained = (self._bound - self._before) / gap
        if self.stage < len(_STAGES) and gained < _STAGES[self.stage]:
            if gap < _CLOSE * self._value:
                self.networks.append(self.network())
            self.stage += 1
            if self.stage == len(_STAGES):
                self._begin_triangles()
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
            users = search.compiled.links[index].jobs
            scope = tuple(job for job in users if len(domains[job]) > 1)
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
        self._compiled = replace(compiled, tables=tables)
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
        for pair, links in on.items():
            if len(links) > 1:
                self._add(pair)
        self._triangles = [
            _Triangle(compiled, pairs)
            for pairs in _triangles(on)
            if not set.intersection(*(on[pair] for pair in pairs))
        ]

    def _begin_triangles(self) -> None:
        """Give a cost to pairs that one link alone has, too, where they are in triangles."""
        for triangle in self._triangles:
            for pair in triangle.pairs:
                if pair not in self._costs:
                    self._add(pair)

    def _add(self, pair: Pair) -> None:
        periods = self._compiled.tables.jobs["period"]
        self._costs[pair] = np.zeros(math.gcd(*map(int, periods[list(pair)])), dtype=np.int64)

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
        """Give the cost of a link to its pairs; what others give them meanwhile stays theirs."""
        if self.search.stopped or not link.shifts:
            return
        pairs = self._pairs_of(link)
        with self._lock:
            taken = {pair: self._costs[pair] for pair in pairs}
            self._costs |= {pair: np.zeros_like(cost) for pair, cost in taken.items()}
        low = link.low + sum(int(cost.min()) for cost in taken.values())
        gap = max(1, self._value - self._reached)
        limit = low + max(1, int(link.reach * gap) // len(self._links))
        total = link.with_costs(taken)
        marginals = np.full_like(total, limit)
        state = self._compiled.empty()
        count = len(link.jobs)
        levels = np.zeros((4, count), dtype=np.int64)
        added = np.zeros((count, int(link.users.domain.max())), dtype=np.int64)
        scores = done = 0
        steps = int(link.users.domain[1]) if len(link.jobs) > 2 else 1
        for part in self._budget.slices(steps):
            scores += link_marginals(
                state, link.users, total, marginals, done, done + part, levels, added
            )
            done += part
        if done == steps:
            minimum = int(marginals[0, 1, : link.users.divisor[0, 1]].min())
            link.is_capped = minimum == limit
            link.reach = 2 * link.reach if link.is_capped else max(_REACH, link.reach / 2)
            link.low = 0 if pairs else minimum
            parts = {pair: link.entry(marginals, pair) // len(pairs) for pair in pairs}
            link.costs = total
            link.costs = link.with_costs({pair: -cost for pair, cost in parts.items()})
        else:
            minimum, parts = low, taken
        with self._lock:
            self._scores += scores
            self._reached += minimum - low
            for pair, cost in parts.items():
                self._costs[pair] = self._costs[pair] + cost


class _Link:
    """A link that shifts its cost.

    Attributes
    ----------
    jobs, users
        In the order of placement: the longest period first, then ascending, so that what is scored
        last has many offsets. Without those of least traffic if there are too many combinations.
    shifts
        Whether it has pairs.
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
        traffic = {
            job: flows * compiled.instance.jobs[job].weight * compiled.instance.jobs[job].volume
            for job, flows in zip(shared.jobs, shared.flows, strict=True)
        }
        kept = sorted(shared.jobs, key=lambda job: traffic[job] / int(periods[job]))
        while _combinations(periods[kept]) > _MAX_CELLS:
            del kept[0]  # contention never falls when a job is added
        longest, *others = sorted(sorted(kept), key=lambda job: -int(periods[job]))
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
        self.cells = _combinations(mine)
        self.shifts = len(mine) > 1
        self.low = math.ceil(load_bound(compiled, shared) / unit)
        self.reach = _REACH
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


def _combinations(periods: Ints) -> int:
    """Return how many combinations of offsets are no rotations of one another."""
    numbers = [int(period) for period in periods]
    return math.prod(numbers) // math.lcm(*numbers)
