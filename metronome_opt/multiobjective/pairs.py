"""What two jobs cost each other at their best mutual offset, for every choice of their stretches.

By itself a job costs what it alone is too much for its links. Of two jobs, bursts p and q that meet
on a link cost `extra` more in each slot in which they meet. Let g be the greatest common divisor of
the two periods. In a common multiple of them, each slot of the one period meets each slot of the
other that agrees with it modulo g exactly once; so how often p and q meet depends on the offsets
modulo g only, and comes out of the bursts folded modulo g.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from metronome_opt.instance import Instance, Job, Link
from metronome_opt.kernels.tables import Ints

_LARGEST = 2**62
_MOST_CELLS = 2**14

Extra = list[list[int]]  # per burst of the one job and of the other


@dataclass(frozen=True)
class Pair:
    """What two jobs cost each other.

    Attributes
    ----------
    values
        Weight x Mbit/s, ascending.
    ranks
        Shape (stretches of the one, stretches of the other): places in `values`.
    """

    values: tuple[Fraction, ...]
    ranks: Ints

    def least(self, ones: slice, others: slice) -> Fraction:
        """Return the least that some stretches cost."""
        return self.values[int(self.ranks[ones, others].min())]


def single_cost(job: Job, link: Link) -> int:
    """Return what a job costs a link by itself in one iteration, times its slots."""
    flows = job.links[link.name]
    over = sum(p.length * max(0, flows * p.rate - link.capacity) for p in job.phases)
    return job.weight * over


def pair_on(
    one: Job, other: Job, links: Sequence[Link], stopped: Callable[[], bool]
) -> Pair | None:
    """Return what two jobs cost each other on some links that both use, all at one mutual offset.

    None where there are too many stretches to look at, or no time for it.
    """
    shape = (one.max_stretch + 1, other.max_stretch + 1)
    if math.prod(shape) > _MOST_CELLS:
        return None
    extra = _extra(one, other, links)
    cells: list[Fraction] = []
    for mine, its in itertools.product(*map(range, shape)):
        if stopped():
            return None
        cells.append(_least(one, other, one.period + mine, other.period + its, extra))
    values = sorted(set(cells))
    place = {value: rank for rank, value in enumerate(values)}
    ranks = np.array([place[cell] for cell in cells], dtype=np.int64).reshape(shape)
    return Pair(tuple(values), ranks)


def shared_links(instance: Instance, one: Job, other: Job) -> list[Link]:
    """Return the links on which two jobs may cost each other something."""
    return [
        link
        for link in instance.links
        if link.name in one.links
        and link.name in other.links
        and one.peak * one.links[link.name] + other.peak * other.links[link.name] > link.capacity
    ]


def _extra(one: Job, other: Job, links: Sequence[Link]) -> Extra:
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


def _least(one: Job, other: Job, mine: int, its: int, extra: Extra) -> Fraction:
    """Return what two jobs of given periods cost each other where they do so least."""
    shared = math.gcd(mine, its)
    worst = sum(
        price * phase.length * its_phase.length
        for phase, row in zip(one.phases, extra, strict=True)
        for its_phase, price in zip(other.phases, row, strict=True)
    )
    total = np.zeros(shared, dtype=np.int64 if worst < _LARGEST else object)
    for phase, row in zip(one.phases, extra, strict=True):
        if not any(row):
            continue
        prefix = _prefix(phase.start, phase.length, shared)
        for its_phase, price in zip(other.phases, row, strict=True):
            turns, rest = divmod(its_phase.length, shared)
            begin = its_phase.start % shared
            met = prefix[begin + rest : begin + rest + shared] - prefix[begin : begin + shared]
            total += price * (met + turns * phase.length)
    if one.fixed_offset is not None and other.fixed_offset is not None:
        least = total[(other.fixed_offset - one.fixed_offset) % shared]
    else:
        least = total.min()
    return Fraction(int(least), math.lcm(mine, its))


def _prefix(start: int, length: int, shared: int) -> Ints:
    """Return how many slots of a burst, folded, come before each slot of three turns."""
    turns, rest = divmod(length, shared)
    folded = np.full(shared, turns, dtype=np.int64)
    ends = (start % shared) + rest
    folded[start % shared : ends] += 1
    folded[: max(0, ends - shared)] += 1
    return np.concatenate(([0], np.cumsum(np.tile(folded, 3)))).astype(np.int64)
