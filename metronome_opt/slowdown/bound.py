"""Lower bound of the mean slowdown, from the loads of links at given places.

A job that is `s` times slower than its period loads each of its links by its load over `s`, and in
the long run no link carries more than its capacity. Nor is a job faster than alone. The least
weighted mean slowdown under these constraints is a problem that is convex in `1 / s`. Its dual has
a price for each link, and any prices prove a bound (weak duality): the sum over jobs of the least
``weight * s + cost / s``, `cost` being what the loads of the job cost, less the prices. So prices
are optimised in floating point and rounded, and what they prove is computed exactly. Of a job
that offers several patterns the smallest load for the same work counts, and the shortest time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from metronome_opt.engine.runner import alone_ms
from metronome_opt.instance import Instance, Job
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.records import FrozenDict

_DENOMINATOR = 10_000  # of a price, at most
_DIGITS = 10**6  # a bound is rounded down to a multiple of one over this, and so is a root


class Bound(NamedTuple):
    """A lower bound of the weighted mean slowdown and its proof.

    Attributes
    ----------
    prices
        Of the capacities of links, by name, in units of weight; those above 0.
    """

    value: Fraction
    prices: Mapping[str, Fraction]


def slowdown_bound(instance: Instance) -> Bound:
    """Return the best bound that loads prove, but for rounding; at least that of all alone."""
    none: Mapping[str, Fraction] = FrozenDict()
    candidates = (none, _prices(instance))
    return max((_proved(instance, each) for each in candidates), key=lambda bound: bound.value)


def _proved(instance: Instance, prices: Mapping[str, Fraction]) -> Bound:
    """Return what prices prove."""
    weights = _weights(instance)
    costs = dict.fromkeys(weights, Fraction(0))
    for link, price in prices.items():
        for name, load in _loads(instance, link).items():
            costs[name] += price * load
    total = -sum(prices.values(), Fraction(0))
    for name, alone in _alone(instance).items():
        total += _minimum(weights[name], costs[name], alone)
    mean = total / sum(weights.values())
    return Bound(Fraction(math.floor(mean * _DIGITS), _DIGITS), prices)


def _minimum(weight: int, cost: Fraction, alone: Fraction) -> Fraction:
    """Return the minimum of ``weight * s + cost / s`` for `s` from `alone` on."""
    if cost <= weight * alone**2:
        return weight * alone + cost / alone
    square = 4 * weight * cost  # of that minimum
    root = math.isqrt(square.numerator * square.denominator * _DIGITS**2)
    return Fraction(root, square.denominator * _DIGITS)


def _weights(instance: Instance) -> dict[str, int]:
    """Return the weights of the jobs; all are 1 if all are 0."""
    weighted = any(job.weight for job in instance.jobs)
    return {job.name: job.weight if weighted else 1 for job in instance.jobs}


def _alone(instance: Instance) -> dict[str, Fraction]:
    """Return the slowdown of each job if it has its links to itself."""
    capacities = {link.name: link.capacity for link in instance.links}

    def slots(job: Job) -> Fraction:
        if any(flows * job.peak > capacities[link] for link, flows in job.links.items()):
            return alone_ms(instance, job) / instance.slot_ms
        return Fraction(job.period)

    return {
        job.name: min(slots(each) / (work * job.period) for work, each in job.variants)
        for job in instance.jobs
    }


def _volume(job: Job) -> Fraction:
    """Return the smallest volume for the work of one iteration."""
    return min(each.volume / work for work, each in job.variants)


def _loads(instance: Instance, link: str) -> dict[str, Fraction]:
    """Return what share of a link each of its jobs needs to keep its period."""
    capacity = next(each.capacity for each in instance.links if each.name == link)
    jobs = (instance.jobs[index] for index in instance.jobs_on[link])
    return {
        job.name: Fraction(job.links[link] * _volume(job), job.period * capacity) for job in jobs
    }


def _prices(instance: Instance) -> Mapping[str, Fraction]:
    """Return nearly optimal prices of the links that are overloaded if no job is slower."""
    weights = _weights(instance)
    # A job of weight 0 may be as slow as one likes.
    rates = [_volume(job) / job.period if weights[job.name] else 0 for job in instance.jobs]
    users = instance.jobs_on
    links = [
        link.name
        for link in instance.links
        if sum(rates[index] * instance.jobs[index].links[link.name] for index in users[link.name])
        > link.capacity
    ]
    if not links:
        return FrozenDict()
    import numpy as np
    from scipy.optimize import minimize

    loads = [_loads(instance, link) for link in links]
    names = [name for name, weight in weights.items() if weight and any(name in by for by in loads)]
    share = np.array([[float(by.get(name, 0)) for name in names] for by in loads])
    alone = _alone(instance)
    fastest = np.array([float(1 / alone[name]) for name in names])
    weight = np.array([float(weights[name]) for name in names])
    unit = weight.mean()
    weight /= unit

    def negative_dual(prices: Floats) -> tuple[float, Floats]:
        with np.errstate(divide="ignore"):
            rate = np.minimum(fastest, np.sqrt(weight / (prices @ share)))
        value = (weight / rate).sum() + prices @ (share @ rate - 1)
        return -float(value), 1 - share @ rate

    found = minimize(
        negative_dual,
        np.zeros(len(links)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * len(links),
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000},
    )
    prices = {
        link: Fraction(float(price * unit)).limit_denominator(_DENOMINATOR)
        for link, price in zip(links, found.x, strict=True)
    }
    return FrozenDict({link: price for link, price in prices.items() if price > 0})
