"""Lower bound of the mean slowdown, from loads of links and pairs of jobs at given placements.

In the long run no link carries more than its capacity, two jobs that a link cannot carry at once
meet for some time at least, and no job is faster than alone. All this is linear in the inverse
slowdowns: ``sum share / s <= 1``, by `_Use.load` and `_pair_shares`. The least weighted mean
slowdown under these constraints is a problem that is convex in ``1 / s``. Its dual has a price for
each constraint, and any prices prove a bound (weak duality): the sum over jobs of the least
``weight * s + cost / s``, `cost` being what the shares of the job cost, less the prices. So prices
are optimised in floating point and rounded, and what they prove is computed exactly.
models/formulations/kept.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from itertools import combinations, takewhile
from typing import Any, NamedTuple, Self

from metronome_opt.engine.fluid.state import Floats
from metronome_opt.engine.jobs import isolated_iteration
from metronome_opt.files.records import FrozenDict
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import PairPrices
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.solvers.budget import Budget

_MAX_CYCLES = 1000  # of another job in a burst; `verify` has the same limit
_DENOMINATOR = 10_000  # of a price, at most
_DIGITS = 10**6  # a bound is rounded down to a multiple of one over this, and so is a root


class Bound(NamedTuple):
    """A lower bound of the weighted mean slowdown and its proof."""

    value: Fraction
    # of the capacities of links, by name, in units of weight; those above 0
    prices: Mapping[str, Fraction]
    pairs: tuple[PairPrices, ...]  # prices of pairs of jobs; those with one above 0


class _Place(NamedTuple):
    """The origin of a constraint: a link, or a pair of its jobs and the kind of constraint."""

    link: str
    jobs: tuple[str, ...] = ()
    kind: int = 0


_Constraints = Mapping[_Place, Mapping[str, Fraction]]  # the shares of jobs


class _Use(NamedTuple):
    """Bursts and gaps of a job on a link that it has to itself."""

    period: int  # its period, ms
    gaps: Sequence[Fraction]  # computing time before each burst, ms
    # the duration of each burst in ms, and the share of the link that it takes
    bursts: Sequence[tuple[Fraction, Fraction]]

    @classmethod
    def of(cls, pattern: Iteration, period: int, share: Fraction) -> Self:
        """Return the use of a link by iterations, where 1 Mbit/s takes a share of the link."""
        before, *between, after = pattern.pauses
        bursts = [(burst.duration, burst.rate * share) for burst in pattern.bursts]
        return cls(period, [after + before, *between], bursts)

    @property
    def computing(self) -> Fraction:
        """Computing time over the period."""
        return sum(self.gaps, Fraction(0)) / self.period

    @property
    def load(self) -> Fraction:
        """The share of the link that the job needs to keep its period."""
        return sum((time * share for time, share in self.bursts), Fraction(0)) / self.period

    @property
    def peak(self) -> Fraction:
        """The largest share of the link that it takes."""
        return max(share for _, share in self.bursts)


def slowdown_bound(
    instance: Instance, *, until_jobs_leave: bool = False, seconds: float | None = None
) -> Bound:
    """Return the best bound that loads and pairs prove, except for rounding.

    It is at least that of isolated jobs, and no more if jobs leave. After some seconds pairs and
    steps to better prices are omitted, which makes the bound lower and not wrong.
    """
    import_module("scipy.optimize")  # is not counted
    budget = Budget(seconds)
    alone = {
        job.name: isolated_iteration(instance, job).duration / (job.period * instance.slot_ms)
        for job in instance.jobs
    }
    weighted = any(job.weight for job in instance.jobs)
    own = {job.name: job.weight if weighted else 1 for job in instance.jobs}
    # Of time over period; a slowdown is a multiple of the best period of a job.
    weights = {job.name: own[job.name] * instance.over_best(job) for job in instance.jobs}
    # The slowdown of a job of weight 0 does not count.
    fastest = {name: 1 / alone[name] if weight else Fraction(0) for name, weight in weights.items()}
    constraints = {} if until_jobs_leave else _constraints(instance, fastest, budget)
    none: Mapping[_Place, Fraction] = {}
    candidates = (none, _prices(weights, fastest, constraints, budget))
    terms = (weights, sum(own.values()), alone, constraints)
    return max((_proved(*terms, prices) for prices in candidates), key=lambda bound: bound.value)


def _proved(
    weights: Mapping[str, Fraction],
    total_weight: int,
    alone: Mapping[str, Fraction],
    constraints: _Constraints,
    prices: Mapping[_Place, Fraction],
) -> Bound:
    """Return the bound that prices prove."""
    costs = dict.fromkeys(weights, Fraction(0))
    for place, price in prices.items():
        for name, share in constraints[place].items():
            costs[name] += price * share
    total = -sum(prices.values(), Fraction(0))
    for name, slowdown in alone.items():
        total += _minimum(weights[name], costs[name], slowdown)
    mean = total / total_weight
    pairs = dict.fromkeys((place.link, place.jobs) for place in prices if place.jobs)
    return Bound(
        Fraction(math.floor(mean * _DIGITS), _DIGITS) if prices else mean,
        FrozenDict({place.link: price for place, price in prices.items() if not place.jobs}),
        tuple(
            PairPrices(
                link=link,
                jobs=jobs,
                prices=tuple(prices.get(_Place(link, jobs, k), Fraction(0)) for k in range(3)),
            )
            for link, jobs in pairs
        ),
    )


def _minimum(weight: Fraction, cost: Fraction, alone: Fraction) -> Fraction:
    """Return the minimum of ``weight * s + cost / s`` for `s` from `alone` on."""
    if cost <= weight * alone**2:
        return weight * alone + cost / alone
    square = 4 * weight * cost  # of the minimum
    root = math.isqrt(square.numerator * square.denominator * _DIGITS**2)
    return Fraction(root, square.denominator * _DIGITS)


def _constraints(
    instance: Instance, fastest: Mapping[str, Fraction], budget: Budget
) -> _Constraints:
    """Return the distinct constraints that do not hold if all jobs run as if isolated."""
    found: dict[frozenset[tuple[str, Fraction]], tuple[_Place, Mapping[str, Fraction]]] = {}
    for link in instance.links:
        jobs = [instance.jobs[index] for index in instance.jobs_on[link.name]]
        uses = {
            job.name: _Use.of(
                isolated_iteration(instance, job),
                job.period * instance.slot_ms,
                Fraction(job.links[link.name], link.capacity),
            )
            for job in jobs
        }
        # What each job needs to keep its period.
        loads = {
            job.name: Fraction(job.links[link.name] * job.volume, job.period * link.capacity)
            for job in jobs
        }
        on_link: list[tuple[_Place, Mapping[str, Fraction]]] = [(_Place(link.name), loads)]
        for pair in takewhile(lambda _: not budget.stopped, combinations(uses, 2)):
            for kind, both in enumerate(_pair_shares(*(uses[name] for name in pair))):
                place = _Place(link.name, pair, kind)
                on_link.append((place, dict(zip(pair, both, strict=True))))
        for place, shares in on_link:
            if sum(share * fastest[name] for name, share in shares.items()) > 1:
                found.setdefault(frozenset(shares.items()), (place, shares))
    return dict(found.values())


def _pair_shares(first: _Use, second: _Use) -> list[tuple[Fraction, Fraction]]:
    """Return the shares of two jobs by kind of constraint; none if the link carries both at once.

    Both are in bursts for a share of all time: not less than what computing leaves, and not less
    than each iteration of the first, or of the second, needs.
    """
    both = first.peak + second.peak
    if both <= 1:
        return []
    own = [use.load + use.peak * use.computing for use in (first, second)]
    meeting = []
    for one, other in ((first, second), (second, first)):
        times = [min(_times(*burst, other)) for burst in one.bursts]  # in which bursts meet, ms
        meeting.append((both - 1) * sum(times, Fraction(0)) / one.period)
    return [
        (
            first.load + (1 - second.peak) * first.computing,
            second.load + (1 - first.peak) * second.computing,
        ),
        ((own[0] + meeting[0]) / both, own[1] / both),
        (own[0] / both, (own[1] + meeting[1]) / both),
    ]


def _times(length: Fraction, share: Fraction, other: _Use) -> Iterator[Fraction]:
    """Yield how long a burst meets bursts of another job at least, by the gaps that it meets."""
    cycle = sum(other.gaps, Fraction(0)) + sum((time for time, _ in other.bursts), Fraction(0))
    if length > _MAX_CYCLES * cycle:
        yield Fraction(0)  # as always true, rather than count millions of them
        return
    for start in range(len(other.gaps)):
        index = start
        computing, busy, sent = other.gaps[index], Fraction(0), Fraction(0)
        while True:
            rest = max(length - computing, Fraction(0))
            yield max(rest, busy, rest * share + sent)
            if not rest or busy >= length:
                break
            # The next gap follows: the burst between is wholly inside.
            time, part = other.bursts[index]
            index = (index + 1) % len(other.gaps)
            computing, busy, sent = computing + other.gaps[index], busy + time, sent + time * part


def _prices(
    weights: Mapping[str, Fraction],
    fastest: Mapping[str, Fraction],
    constraints: _Constraints,
    budget: Budget,
) -> Mapping[_Place, Fraction]:
    """Return nearly optimal prices."""
    if not constraints:
        return {}
    import numpy as np
    from scipy.optimize import minimize

    met = {name for shares in constraints.values() for name in shares}
    names = [name for name, weight in weights.items() if weight and name in met]
    share = np.array([[float(by.get(name, 0)) for name in names] for by in constraints.values()])
    highest = np.array([float(fastest[name]) for name in names])
    weight = np.array([float(weights[name]) for name in names])
    unit = weight.mean()
    weight /= unit

    def negative_dual(prices: Floats) -> tuple[float, Floats]:
        with np.errstate(divide="ignore"):
            rate = np.minimum(highest, np.sqrt(weight / (prices @ share)))
        value = (weight / rate).sum() + prices @ (share @ rate - 1)
        return -float(value), 1 - share @ rate

    def stop(_: Any) -> None:
        if budget.stopped:
            raise StopIteration

    search: Any = minimize
    found = search(
        negative_dual,
        np.zeros(len(constraints)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * len(constraints),
        callback=stop,
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000},
    )
    rounded = (Fraction(float(price * unit)).limit_denominator(_DENOMINATOR) for price in found.x)
    return {place: p for place, p in zip(constraints, rounded, strict=True) if p > 0}
