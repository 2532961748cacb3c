"""Bounds of stretches before anything is solved: a lower bound of the contention, an estimate.

By itself a job costs what it alone is too much for its links. Of two jobs, bursts p and q that meet
on a link cost more in each slot in which they meet. Let g be the greatest common divisor of the two
periods. In a common multiple of them, each slot of the one period meets each slot of the other that
agrees with it modulo g exactly once; so how often p and q meet depends on the offsets modulo g
only, and comes out of the bursts folded modulo g.

Contention is supermodular in the set of jobs: what a job adds never falls as others are there. Take
away what each job costs by itself, and sets A and B that have one job in common cost together at
least what each of them costs. So the pairs along a tree that spans the jobs of a link cost together
no more than the link; a tree of the most expensive pairs is as good as any. That is one bound of a
link; the other is what it costs because of its load alone (`solvers/load.py`).

The estimate is the sum of all pairs. It is neither above nor below: more than two bursts may meet,
and pairs may not agree about their offsets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from metronome_opt.instance import Instance, Job, Link
from metronome_opt.kernels.tables import Ints

_LARGEST = 2**62
_MAX_CELLS = 2**14

Box = Sequence[tuple[int, int]]  # per job the least and the most stretch
_Extra = list[list[int]]  # per burst of the one job and of the other, what a common slot costs


_Cost = NDArray[np.object_]
"""What two jobs cost each other at their best mutual offset, weight x Mbit/s, as exact fractions:
shape (stretches of the one, stretches of the other)."""


class StretchBounds:
    """Bounds and estimates of the contention of some jobs at their stretches.

    Parameters
    ----------
    instance
        The jobs, in the order in which boxes have them.
    stopped
        Whether to leave out what is not known yet.

    Attributes
    ----------
    estimates
        Per pair of jobs that may cost each other something: what they do, shape (stretches of the
        one, stretches of the other).
    """

    def __init__(self, instance: Instance, *, stopped: Callable[[], bool]) -> None:
        self._jobs = instance.jobs
        self._links = [
            link
            for link in instance.links
            if sum(job.peak * job.links.get(link.name, 0) for job in self._jobs) > link.capacity
        ]
        self._whole: dict[tuple[int, int], _Cost] = {}
        self._on: dict[str, dict[tuple[int, int], _Cost]] = {link.name: {} for link in self._links}
        self.estimates: dict[tuple[int, int], NDArray[np.float64]] = {}
        for (i, one), (j, other) in itertools.combinations(enumerate(self._jobs), 2):
            links = [link for link in self._links if _may_meet(one, other, link)]
            whole = _pair_on(one, other, links, stopped) if links else None
            if whole is None:
                continue
            self._whole[i, j] = whole
            self.estimates[i, j] = whole.astype(np.float64)
            for link in links:
                alone = whole if len(links) == 1 else _pair_on(one, other, [link], stopped)
                if alone is not None:
                    self._on[link.name][i, j] = alone

    def lower_bound(self, box: Box) -> Fraction:
        """Return a lower bound of the contention at all stretches of a box."""
        alone, apart = Fraction(0), Fraction(0)
        for link in self._links:
            users = [
                (job, job.period + most)
                for job, (_, most) in zip(self._jobs, box, strict=True)
                if link.name in job.links
            ]
            single = sum((Fraction(_single_cost(job, link), p) for job, p in users), Fraction(0))
            alone += single
            apart += max(_load(link, users), single + _tree(self._on[link.name], box))
        return max(apart, alone + _tree(self._whole, box))

    def estimate(self, stretch: Sequence[int]) -> float:
        """Return about the contention at some stretches, but for what jobs cost by themselves."""
        return sum(float(cost[stretch[i], stretch[j]]) for (i, j), cost in self.estimates.items())


def _load(link: Link, users: Sequence[tuple[Job, int]]) -> Fraction:
    """Return what a link costs because of its load alone, given the periods of its jobs."""
    means = [(job.weight, Fraction(job.links[link.name] * job.volume, p)) for job, p in users]
    total, before = Fraction(0), 0
    for weight in sorted({weight for weight, _ in means}):
        demand = sum(mean for other, mean in means if other >= weight)
        total += (weight - before) * max(Fraction(0), demand - link.capacity)
        before = weight
    return total


def _tree(pairs: Mapping[tuple[int, int], _Cost], box: Box) -> Fraction:
    """Return what the pairs along a most expensive spanning forest cost at least."""
    slices = [slice(low, high + 1) for low, high in box]
    worth = {(i, j): cost[slices[i], slices[j]].min() for (i, j), cost in pairs.items()}
    joined = nx.utils.UnionFind(range(len(box)))
    total = Fraction(0)
    for i, j in sorted((pair for pair in worth if worth[pair]), key=lambda pair: -worth[pair]):
        if joined[i] != joined[j]:
            joined.union(i, j)
            total += worth[i, j]
    return total


# ------------------------------------------------------------------ one or two jobs


def _single_cost(job: Job, link: Link) -> int:
    """Return what a job costs a link by itself in one iteration, times its slots."""
    flows = job.links[link.name]
    over = sum(p.length * max(0, flows * p.rate - link.capacity) for p in job.phases)
    return job.weight * over


def _may_meet(one: Job, other: Job, link: Link) -> bool:
    """Return whether two jobs may cost each other something on a link."""
    if link.name not in one.links or link.name not in other.links:
        return False
    return one.peak * one.links[link.name] + other.peak * other.links[link.name] > link.capacity


def _pair_on(
    one: Job, other: Job, links: Sequence[Link], stopped: Callable[[], bool]
) -> _Cost | None:
    """Return what two jobs cost each other on some links that both use, all at one mutual offset.

    None where there are too many stretches to look at, or no time for it.
    """
    shape = (one.max_stretch + 1, other.max_stretch + 1)
    if math.prod(shape) > _MAX_CELLS:
        return None
    extra = _extra(one, other, links)
    cells = np.empty(shape, dtype=object)
    for mine, its in np.ndindex(shape):
        if stopped():
            return None
        cells[mine, its] = _best_offset_cost(
            one, other, one.period + mine, other.period + its, extra
        )
    return cells


def _extra(one: Job, other: Job, links: Sequence[Link]) -> _Extra:
    """Return what a slot costs more in which two bursts meet, than in two slots by themselves."""

    def meeting(mine: int, its: int, link: Link) -> int:
        mine *= one.links[link.name]
        its *= other.links[link.name]
        low, high = sorted(((one.weight, mine), (other.weight, its)))
        alone = sum(weight * max(0, rate - link.capacity) for weight, rate in (low, high))
        together = low[0] * max(0, mine + its - link.capacity)
        return together + (high[0] - low[0]) * max(0, high[1] - link.capacity) - alone

    return [
        [sum(meeting(p.rate, q.rate, link) for link in links) for q in other.phases]
        for p in one.phases
    ]


def _best_offset_cost(one: Job, other: Job, mine: int, its: int, extra: _Extra) -> Fraction:
    """Return what two jobs of given periods cost each other where they do so least."""
    shared = math.gcd(mine, its)
    worst = sum(
        price * phase.length * its_phase.length
        for phase, row in zip(one.phases, extra, strict=True)
        for its_phase, price in zip(other.phases, row, strict=True)
    )
    # Beyond 64 bits Python's own integers are slow, and exact.
    total = np.zeros(shared, dtype=np.int64 if worst < _LARGEST else object)
    for phase, row in zip(one.phases, extra, strict=True):
        if not any(row):
            continue
        prefix = _prefix(phase.start, phase.length, shared)
        for its_phase, price in zip(other.phases, row, strict=True):
            turns, rest = divmod(its_phase.length, shared)
            begin = its_phase.start % shared
            met = prefix[begin + rest : begin + rest + shared] - prefix[begin : begin + shared]
            total += price * (met + turns * phase.length).astype(total.dtype)
    if one.fixed_offset is not None and other.fixed_offset is not None:
        cost = total[(other.fixed_offset - one.fixed_offset) % shared]
    else:
        cost = total.min()
    return Fraction(int(cost), math.lcm(mine, its))


def _prefix(start: int, length: int, shared: int) -> Ints:
    """Return how many slots of a burst, folded, come before each slot of three turns."""
    turns, rest = divmod(length, shared)
    folded = np.full(shared, turns, dtype=np.int64)
    ends = (start % shared) + rest
    folded[start % shared : ends] += 1
    folded[: max(0, ends - shared)] += 1
    return np.concatenate(([0], np.cumsum(np.tile(folded, 3)))).astype(np.int64)
