"""Reconfiguration: choose offsets anew, starting from those in force, with moves at a price.

    J(offsets) = K(offsets) / traffic + price * sum of w_j (1 + wait_j / T_j) / sum of w_j

with K the contention, `traffic` its natural size (the weighted traffic of all jobs on all links),
and wait_j the slots from the current offset to the new one; the first sum is over the jobs that
move, the second one over all. Both terms are shares, so that a price means the same in small and in
large networks. Everything is exact.

Contention lasts, whereas a job waits once. A move is counted as 1 + wait_j / T_j iterations of the
job lost, contention as its share of every iteration; so a price of 1 / n, without a unit, is that
of a move whose gain is to pay for it within n iterations.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from metronome_opt.instance import Instance
from metronome_opt.kernels.jobs import contention, put_job, score_job, state_of
from metronome_opt.kernels.tables import DemandState, compile_instance
from metronome_opt.objectives import normal
from metronome_opt.solvers import auto
from metronome_opt.solvers.search import Search

PRICE = Fraction(1, 50)
"""Moving every job costs as much as 2 to 4 % of the weighted traffic being late: a move has to pay
within 50 iterations."""

_MAX_ROTATIONS = 64  # of a schedule, tried for each job that it may leave in its place


@dataclass(frozen=True)
class Reconfiguration:
    """Changes of jobs, and their value."""

    offsets: tuple[int, ...]  # of all jobs, in the order of the instance
    before: Fraction  # the price of doing nothing, a share of the weighted traffic
    after: Fraction  # the same of this, moves included
    contention_before: Fraction  # weight * Mbit/s
    contention_after: Fraction
    moved: tuple[int, ...]  # indices of the jobs that move


def resolve(
    instance: Instance, *, price: Fraction = PRICE, held: Collection[str] = (), seed: int = 0
) -> Reconfiguration:
    """Choose offsets of many jobs anew.

    The offsets in force are improved job by job, and so is what `auto` finds if moves are free,
    rotated such that the moves cost least. The better of the two counts; it is never worse than to
    do nothing.

    Parameters
    ----------
    instance
        Every job has a current offset; those with a fixed one do not move.
    price
        Of moves: 1 over the iterations in which one has to pay; 0 for none.
    held
        Further jobs that do not move.
    seed
        Of the solver. The result does not depend on the clock.
    """
    pricing = Pricing(instance, price)
    free = [
        index
        for index, job in enumerate(instance.jobs)
        if job.fixed_offset is None and job.name not in held
    ]
    ways = [pricing.current, pricing.descend(pricing.current, free)]
    if len(free) > 1:
        ways += [pricing.descend(way, free) for way in _solved(pricing, free, seed)]
    return _cheapest(pricing, ways)


def _solved(pricing: Pricing, free: Sequence[int], seed: int) -> Iterator[tuple[int, ...]]:
    """Yield the solution of the solver if moves are free, rotated to be near where jobs are."""
    jobs = tuple(
        job if index in free else job.model_copy(update={"fixed_offset": pricing.current[index]})
        for index, job in enumerate(pricing.instance.jobs)
    )
    instance = pricing.instance.replace(jobs=jobs)
    search = Search(instance, time_limit=None, seed=seed, workers=1, rounds=0)
    auto.run(search)
    if search.best is not None:
        all_free = len(free) == len(jobs)
        periods = [job.period for job in jobs]
        best = search.best
        ways = rotated(periods, pricing.current, best) if all_free else (best,)
        yield min(ways, key=pricing.moves)


def rotated(
    periods: Sequence[int], current: Sequence[int], offsets: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield offsets rotated all together, such that one job or another is where it is now."""
    whole = math.lcm(*periods)
    shifts: dict[int, None] = {}
    for job, period in enumerate(periods):
        first = (current[job] - offsets[job]) % period
        shifts |= dict.fromkeys(range(first, min(whole, _MAX_ROTATIONS * period), period))
    for shift in shifts:
        yield tuple(
            (offset + shift) % period for offset, period in zip(offsets, periods, strict=True)
        )


def _cheapest(pricing: Pricing, ways: Sequence[tuple[int, ...]]) -> Reconfiguration:
    """Return the cheapest way; of equals the one with fewest moves, then the first."""
    here = pricing.current

    def moved(offsets: Sequence[int]) -> tuple[int, ...]:
        return tuple(job for job, offset in enumerate(offsets) if offset != here[job])

    best = min(ways, key=lambda offsets: (pricing.total(offsets), len(moved(offsets))))
    return Reconfiguration(
        offsets=best,
        before=pricing.total(here),
        after=pricing.total(best),
        contention_before=pricing.contention(here),
        contention_after=pricing.contention(best),
        moved=moved(best),
    )


class Pricing:
    """Prices of the schedules of an instance, in which every job has a current offset."""

    def __init__(self, instance: Instance, price: Fraction = Fraction(0)) -> None:
        self.instance = instance
        self.current = tuple(job.current_offset or 0 for job in instance.jobs)
        self._traffic = normal(instance, "contention")
        self._rate = price / (sum(job.weight for job in instance.jobs) or 1)
        self._compiled = compile_instance(instance)

    def contention(self, offsets: Sequence[int]) -> Fraction:
        """Return the contention, in weight * Mbit/s."""
        return contention(self._compiled, state_of(self._compiled, offsets))

    def wait(self, job: int, offset: int) -> int:
        """Return how many slots a job waits to come to an offset."""
        return (offset - self.current[job]) % self.instance.jobs[job].period

    def moves(self, offsets: Sequence[int]) -> Fraction:
        """Return the price of all moves."""
        return sum((self._move(job, offset) for job, offset in enumerate(offsets)), Fraction(0))

    def _move(self, job: int, offset: int) -> Fraction:
        """Return the price of bringing a job to an offset."""
        waits, which = self.wait(job, offset), self.instance.jobs[job]
        return self._rate * which.weight * (1 + Fraction(waits, which.period)) * bool(waits)

    def total(self, offsets: Sequence[int]) -> Fraction:
        """Return the price of a schedule, J."""
        return self.contention(offsets) / self._traffic + self.moves(offsets)

    def descend(self, offsets: Sequence[int], free: Sequence[int]) -> tuple[int, ...]:
        """Bring one free job after the other to its best offset, the one that gains most first."""
        best = list(offsets)
        state = state_of(self._compiled, best)
        around = self._compiled.sharing()
        ways = {job: self._best(job, best[job], state) for job in free}
        while ways:
            job = max(ways, key=lambda job: ways[job][1])
            offset, gain = ways[job]
            if gain <= 0:
                break
            put_job(state, job, best[job], -1)
            put_job(state, job, offset, 1)
            best[job] = offset
            for other in {job, *around[job]} & ways.keys():
                ways[other] = self._best(other, best[other], state)
        return tuple(best)

    def _best(self, job: int, offset: int, state: DemandState) -> tuple[int, Fraction]:
        """Return the best offset of a job that is at one now, and what it gains there.

        The price of waiting grows with the wait, so among the offsets only those matter that cost
        less than all that are reached before.
        """
        period = self.instance.jobs[job].period
        cost = np.zeros(period, dtype=np.int64)
        put_job(state, job, offset, -1)
        score_job(state, job, cost)
        put_job(state, job, offset, 1)
        ahead = np.roll(cost, -self.current[job])

        def price(waits: int) -> Fraction:
            added = self._compiled.fraction(int(ahead[waits]), job)
            return added / self._traffic + self._move(job, (self.current[job] + waits) % period)

        records = np.flatnonzero(np.diff(np.minimum.accumulate(ahead), prepend=ahead[0] + 1))
        best = min(map(int, records), key=price)
        gain = price((offset - self.current[job]) % period) - price(best)
        return (self.current[job] + best) % period, gain
