"""Two jobs by themselves: at which greatest common divisors of their periods they fit.

Bursts p of job i and q of job j that a link cannot carry at once, of lengths m_p and m_q from s_p
and s_q on, never meet iff ``phi_j - phi_i`` avoids ``m_p + m_q - 1`` residues modulo the greatest
common divisor of the periods, those above ``s_p - s_q - m_q`` and below ``s_p - s_q + m_p``. So two
jobs fit iff the residues that all pairs of their bursts forbid, on all links, leave one. For one
burst each that is ``m_i + m_j <= gcd(T_i, T_j)``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache

from metronome_opt.instance import Instance, Job

Forbidden = tuple[tuple[int, int], ...]


class Pairs:
    """The pairs of an instance that cannot burst at once, and what keeps them apart.

    Parameters
    ----------
    cushion_slots
        By how many slots bursts are longer.
    """

    def __init__(self, instance: Instance, cushion_slots: int = 0) -> None:
        self._instance = instance
        self.cushion_slots = cushion_slots

    @cached_property
    def impossible(self) -> tuple[int, ...]:
        """The jobs that ask a link for more than it carries even when they are alone."""
        capacity = {link.name: link.capacity for link in self._instance.links}
        return tuple(
            index
            for index, job in enumerate(self._instance.jobs)
            if any(job.peak * flows > capacity[link] for link, flows in job.links.items())
        )

    @cached_property
    def forbidden(self) -> Mapping[tuple[int, int], Forbidden]:
        """For each pair of jobs that meet: the (first, number) of residues that they forbid."""
        found: dict[tuple[int, int], set[tuple[int, int]]] = {}
        jobs = self._instance.jobs
        for link in self._instance.links:
            for i, j in itertools.combinations(self._instance.jobs_on[link.name], 2):
                pair = found.setdefault((i, j), set())
                pair.update(self._ranges(jobs[i], jobs[j], link.name, link.capacity))
        return {pair: tuple(sorted(ranges)) for pair, ranges in found.items() if ranges}

    def fit(self, i: int, j: int, period_i: int, period_j: int) -> bool:
        """Return whether two jobs, ``i < j``, fit at some periods."""
        ranges = self.forbidden.get((i, j))
        return ranges is None or _leaves_one(ranges, math.gcd(period_i, period_j))

    def fit_named(self, one: str, period: int, other: str, other_period: int) -> bool:
        """Return whether two jobs, named in any order, fit at some periods."""
        i, j = self._index[one], self._index[other]
        if i < j:
            return self.fit(i, j, period, other_period)
        return self.fit(j, i, other_period, period)

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {job.name: index for index, job in enumerate(self._instance.jobs)}

    def _ranges(self, one: Job, other: Job, link: str, capacity: int) -> Iterator[tuple[int, int]]:
        for p, q in itertools.product(one.phases, other.phases):
            if p.rate * one.links[link] + q.rate * other.links[link] > capacity:
                before, after = q.length + self.cushion_slots, p.length + self.cushion_slots
                yield p.start - q.start - before + 1, before + after - 1


@lru_cache(maxsize=1 << 16)
def _leaves_one(ranges: Forbidden, modulus: int) -> bool:
    """Return whether some ranges of residues leave one of a modulus."""
    if max(number for _, number in ranges) >= modulus:
        return False
    pieces = sorted((first % modulus, first % modulus + number) for first, number in ranges)
    reach = max(0, pieces[-1][1] - modulus, *(end - modulus for _, end in pieces))
    for first, end in pieces:
        if first > reach:
            return True
        reach = max(reach, end)
    return reach < modulus
